import { useEffect, useState } from 'preact/hooks'
import { route } from '../route.js'
import { useEnd } from '../ui/list.js'
import { Badge, Empty, Section } from '../ui/parts.js'
import { clock, count } from '../ui/text.js'
import { useFollow } from './follow.js'
import { Filter, Live, NodeFilter, Refused, Search } from './parts.js'
import type { Replies } from '../../../../docs/reference/replies.js'

type Reply = Replies['GET /v1/logs/cluster']
type Line = Reply['lines'][number]
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

/** Follows log lines and keeps the newest `most`; also returns nodes that could not be asked. */
export function useLines (path: string | null, most = MOST) {
  const [lines, setLines] = useState<readonly Line[]>([])
  const [nodes, setNodes] = useState<ReadonlyMap<string, Word>>(new Map())
  useEffect(() => {
    setLines([])
    setNodes(new Map())
  }, [path])
  const following = useFollow(path, (batch) => {
    const of = (kind: string): unknown[] =>
      batch.filter(({ type }) => type === kind).map(({ data }) => JSON.parse(data) as unknown)
    setLines((had) => [...had, ...of('message') as Line[]].slice(-most))
    const words = (of('node') as Word[]).map((one) => [one.nodeId, one] as const)
    if (words.length > 0) setNodes((had) => new Map([...had, ...words]))
  })
  return { lines, following, silent: [...nodes.values()].filter(({ error }) => error !== null) }
}

export function Logs () {
  const { query } = route.value
  const [wanted, setWanted] = useState<Wanted>({
    node: query.get('node') ?? '', level: query.get('level') ?? 'info', plugin: '',
    model: query.get('model') ?? ''
  })
  const [text, setText] = useState('')
  const { lines, following, silent } = useLines(pathOf(wanted, query.get('since')))
  const shown = lines.filter((line) => has(line, text))
  return (
    <Section title="Logs" aside={<Live following={following} />}>
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
