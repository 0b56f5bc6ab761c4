import { useEffect, useRef, useState } from 'preact/hooks'
import { route } from '../route.js'
import { Badge, Button, Empty, Section, useEnd } from '../ui/parts.js'
import { clock, count } from '../ui/text.js'
import { useFollow } from './follow.js'
import { Filter, Live, NodeFilter, Refused, Search } from './parts.js'
import type { Replies } from '../../../../docs/reference/replies.js'

type Reply = Replies['GET /v1/logs/cluster']
export type Line = Reply['lines'][number]
type Word = Reply['nodes'][number]

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'].map((one) => [one, one] as const)
const FIRST = 200
/** Limit on log lines on the page; the oldest are dropped. */
const MOST = 1500

const fieldsText = (fields: Record<string, unknown>): string => Object.entries(fields)
  .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`).join(' ')

const has = (line: Line, text: string): boolean => text.trim() === '' ||
  `${line.message} ${line.node} ${line.plugin} ${fieldsText(line.fields)}`.toLowerCase()
    .includes(text.trim().toLowerCase())

interface Wanted { node: string, level: string, plugin: string, model: string }

function pathOf ({ node, level, plugin, model }: Wanted, since: string | null): string {
  const query = new URLSearchParams({ follow: '1', limit: String(since === null ? FIRST : 1000) })
  if (since !== null) query.set('since', since)
  for (const [key, value] of Object.entries({ node, level, plugin, model })) {
    if (value !== '') query.set(key, value)
  }
  return `/v1/logs/cluster?${query}`
}

export function Logs () {
  const { query } = route.value
  const [wanted, setWanted] = useState<Wanted>({
    node: query.get('node') ?? '', level: query.get('level') ?? 'info', plugin: '',
    model: query.get('model') ?? ''
  })
  const [text, setText] = useState('')
  const [lines, setLines] = useState<readonly Line[]>([])
  const [away, setAway] = useState<ReadonlyMap<string, Word>>(new Map())
  const held = useRef<Line[] | null>(null)
  const [waiting, setWaiting] = useState<number | null>(null)
  const path = pathOf(wanted, query.get('since'))
  useEffect(() => {
    setLines([])
    setAway(new Map())
    held.current = null
    setWaiting(null)
  }, [path])
  const following = useFollow(path, (batch) => {
    const more = batch.filter(({ type }) => type === 'message').map(({ data }) => JSON.parse(data) as Line)
    const words = batch.filter(({ type }) => type === 'node').map(({ data }) => JSON.parse(data) as Word)
    if (words.length > 0) {
      setAway((had) => new Map([...had, ...words.map((one) => [one.nodeId, one] as const)]))
    }
    if (held.current === null) setLines((had) => [...had, ...more].slice(-MOST))
    else {
      held.current = [...held.current, ...more].slice(-MOST)
      setWaiting(held.current.length)
    }
  })
  const hold = (): void => {
    const kept = held.current
    held.current = kept === null ? [] : null
    setWaiting(kept === null ? 0 : null)
    if (kept !== null) setLines((had) => [...had, ...kept].slice(-MOST))
  }
  const shown = lines.filter((line) => has(line, text))
  const silent = [...away.values()].filter(({ error }) => error !== null)
  return (
    <Section
      title="Logs"
      aside={(
        <>
          <Live following={following} held={waiting ?? 0} />
          <Button onClick={hold}>{waiting === null ? 'Hold' : 'Go on'}</Button>
        </>
      )}
    >
      <Refused following={following} what="The logs" />
      {following.status !== 'refused' && (
        <>
          <Filters wanted={wanted} lines={lines} onChange={setWanted} text={text} onText={setText} />
          {silent.map(({ nodeId, node, error }) => <p key={nodeId} class="hint">{node}: {error!.message}</p>)}
          <p class="hint">{count(shown.length, 'line')} shown.</p>
          {shown.length === 0
            ? <Empty title="No such line yet. What is logged from now on appears here." />
            : <Lines lines={shown} />}
        </>
      )}
    </Section>
  )
}

interface FiltersProps {
  wanted: Wanted, lines: readonly Line[], text: string
  onChange: (wanted: Wanted) => void, onText: (text: string) => void
}

function Filters ({ wanted, lines, text, onChange, onText }: FiltersProps) {
  const seen = (key: 'plugin' | 'modelId'): (readonly [string, string])[] =>
    [...new Set(lines.map((line) => line[key]).filter((one) => one !== null))].sort().map((one) => [one, one])
  const set = (key: keyof Wanted) => (value: string) => { onChange({ ...wanted, [key]: value }) }
  return (
    <div class="filters">
      <NodeFilter value={wanted.node} onChange={set('node')} />
      <Filter
        label="Lowest level" all="as the nodes log" value={wanted.level} options={LEVELS}
        onChange={set('level')}
      />
      <Filter
        label="Plugin" all="all" value={wanted.plugin} options={seen('plugin')}
        onChange={set('plugin')}
      />
      <Filter
        label="Model" all="all" value={wanted.model} options={seen('modelId')}
        onChange={set('model')}
      />
      <Search label="Text" value={text} onChange={onText} />
    </div>
  )
}

export function Lines ({ lines }: { lines: readonly Line[] }) {
  return (
    <div {...useEnd()} class="log" role="log" aria-label="Lines of the logs" aria-live="off" tabIndex={0}>
      {lines.map((line) => <LogLine key={`${line.nodeId}:${line.seq}`} line={line} />)}
    </div>
  )
}

const badLevel = (level: string): 'plain' | 'warn' | 'error' =>
  level === 'error' || level === 'fatal' ? 'error' : level === 'warn' ? 'warn' : 'plain'

function LogLine ({ line }: { line: Line }) {
  const { at, node, level, message, plugin, fields, source } = line
  return (
    <div class="log-line">
      <span class="log-at">{clock(at)}</span> <span class="log-node">{node}</span>{' '}
      <Badge level={badLevel(level)}>{level}</Badge>{' '}
      {source === 'runner' && <span class="log-at">runner </span>}
      {plugin !== null && <span class="log-at">{plugin}: </span>}
      <span>{message}</span> <span class="log-at">{fieldsText(fields)}</span>
    </div>
  )
}
