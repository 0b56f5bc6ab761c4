import { useState } from 'preact/hooks'
import { route } from '../route.js'
import { caller, origin } from '../link.js'
import { useEnd } from '../ui/list.js'
import { useAsk } from '../ui/loading.js'
import { Badge, Empty, Section, Trouble } from '../ui/parts.js'
import { clock, count } from '../ui/text.js'
import { Filter, NodeFilter, Search } from './parts.js'
import type { Replies } from '../../../../docs/reference/replies.js'

type Line = Replies['GET /v1/logs/cluster']['lines'][number]

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'].map((one) => [one, one] as const)
/** Newest lines on the page, and milliseconds from an answer to the next request. */
const LINES = '500'
const POLL_MS = 2000

const fieldsText = (fields: Record<string, unknown>): string => Object.entries(fields)
  .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`).join(' ')

const has = (line: Line, text: string): boolean => text.trim() === '' ||
  `${line.message} ${line.node} ${line.plugin} ${fieldsText(line.fields)}`.toLowerCase()
    .includes(text.trim().toLowerCase())

interface Wanted { node: string, level: string, plugin: string, model: string }

export function Logs () {
  const { query } = route.value
  const [wanted, setWanted] = useState<Wanted>({
    node: query.get('node') ?? '', level: query.get('level') ?? 'info', plugin: '',
    model: query.get('model') ?? ''
  })
  const [text, setText] = useState('')
  const given = { ...wanted, limit: LINES, since: query.get('since') ?? '' }
  const asked = new URLSearchParams(Object.entries(given).filter(([, value]) => value !== ''))
  const { value, error: why } = useAsk('GET /v1/logs/cluster',
    [String(asked), origin.value, caller.value], { query: asked }, POLL_MS)
  const { lines, nodes } = value ?? { lines: [], nodes: [] }
  const shown = lines.filter((line) => has(line, text))
  return (
    <Section title="Logs">
      {why !== null && <Trouble error={why} />}
      {value !== null && (
        <>
          <Filters wanted={wanted} lines={lines} onChange={setWanted} text={text} onText={setText} />
          {nodes.map(({ nodeId, node, error }) =>
            error !== null && <p key={nodeId} class="hint">{node}: {error.message}</p>)}
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

function Lines ({ lines }: { lines: readonly Line[] }) {
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
