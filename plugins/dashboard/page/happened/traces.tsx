import { useState } from 'preact/hooks'
import { ask, call, latest } from '../link.js'
import { linkTo } from '../route.js'
import { useAsk } from '../ui/loading.js'
import { Badge, Button, Copy, Empty, Section, Trouble } from '../ui/parts.js'
import { bytes, clock, count, span as spanText } from '../ui/text.js'
import { done } from '../ui/toast.js'
import { nameOf } from '../known.js'
import { save, Search } from './parts.js'
import { ticksOf, waterfallOf, type Lane, type Span } from './waterfall.js'
import type { Replies } from '../../../../docs/reference/replies.js'

type Failed = Replies['GET /v1/traces/cluster']['failed'][number]

/** Milliseconds between requests for the trace list while it is shown. */
const AGAIN_MS = 4000
const SHOWN = '200'

export const Traces = ({ asked: id }: { asked: string | null }) => id === null ? <List /> : <Trace id={id} />

function List () {
  const { value, error, again } = useAsk('GET /v1/traces/cluster', [], { query: { limit: SHOWN } }, AGAIN_MS)
  const [text, setText] = useState('')
  const traced = latest.value.tracingEnabled
  const all = value?.traces ?? []
  const shown = all.filter((one) => JSON.stringify(one).toLowerCase().includes(text.trim().toLowerCase()))
  const turn = async (): Promise<void> => {
    await ask('PUT /v1/tracing', { body: { enabled: !traced } })
    done(traced ? 'New requests are no longer traced.' : 'New requests are traced, at every node.')
  }
  return (
    <Section
      title="Traces"
      aside={(
        <>
          <Badge level={traced ? 'ok' : 'plain'}>{traced ? 'tracing is on' : 'tracing is off'}</Badge>
          <Button needs="cluster:write" onClick={turn}>{traced ? 'Switch it off' : 'Switch it on'}</Button>
        </>
      )}
    >
      {error !== null && <Trouble error={error} again={again} />}
      <Unreached failed={value?.failed ?? []} />
      {all.length > 0 && <Search label="Text" value={text} onChange={setText} />}
      {value !== null && all.length === 0 && (
        <Empty title="No request was traced yet.">
          <p>{traced ? 'The next one is: try the playground.' : 'Switch tracing on, then send a request.'}</p>
        </Empty>
      )}
      <ul class="rows" aria-label="Traces">
        {shown.map((one) => (
          <li key={one.taskId} class="row">
            <div class="when">{clock(one.createdAt)}</div>
            <div class="grow">
              <p class="row-title">
                <a href={linkTo('happened', 'traces', one.taskId)}>{one.taskKind} of {one.modelId}</a>
                <Badge level={one.outcome === 'completed' ? 'ok' : 'error'}>{one.outcome}</Badge>
              </p>
              <p class="hint">
                <Copy text={one.taskId} shown={one.taskId.slice(0, 8)} /> · {bytes(one.fileSize)}
                {' · '}kept by {one.sourceNodes.map(nameOf).join(', ')}
              </p>
            </div>
            <span>{spanText(one.durationUs / 1000)}</span>
          </li>
        ))}
      </ul>
    </Section>
  )
}

function Unreached ({ failed }: { failed: readonly Failed[] }) {
  if (failed.length === 0) return null
  return <p class="hint">Not heard: {failed.map((one) => `${one.name} (${one.message})`).join('; ')}</p>
}

function Trace ({ id }: { id: string }) {
  const { value, error, again } = useAsk('GET /v1/traces/cluster/{id}', [id], { params: [id] })
  const download = async (): Promise<void> => {
    save(await (await call(`/v1/traces/cluster/${encodeURIComponent(id)}/raw`)).blob(),
      `trace-${value?.taskId ?? id}.json`)
  }
  return (
    <Section title="Trace" aside={<a href={linkTo('happened', 'traces')}>All traces</a>}>
      {error !== null && <Trouble error={error} again={again} />}
      {error === null && value === null && <p class="waiting">Asking all nodes…</p>}
      {value !== null && (
        <>
          <p class="inline"><Copy text={value.taskId} /></p>
          <Unreached failed={value.failed} />
          <Waterfall spans={value.traces} />
          <div class="inline">
            <Button onClick={download}>Download for Perfetto</Button>
            <span class="hint">
              Open the file at{' '}
              <a href="https://ui.perfetto.dev" target="_blank" rel="noreferrer">ui.perfetto.dev</a>; it stays
              in the browser there.
            </span>
          </div>
        </>
      )}
    </Section>
  )
}

function Waterfall ({ spans }: { spans: readonly Span[] }) {
  const { durationUs, lanes } = waterfallOf(spans)
  const places = [...new Set(lanes.map(({ nodeId }) => nodeId))]
  if (lanes.length === 0) return <Empty title="This trace has no spans." />
  return (
    <>
      <p class="hint">
        {spanText(durationUs / 1000)} in all, {count(spans.length, 'span')} at {count(places.length, 'node')}.
        Times of other nodes are put right by what is known of their clocks.
      </p>
      <div class="waterfall" role="group" aria-label="Waterfall">
        <div class="axis" aria-hidden="true">
          {ticksOf(durationUs).map((tick) => (
            <span key={tick} style={{ left: `${tick / durationUs * 100}%` }}>{spanText(tick / 1000)}</span>
          ))}
        </div>
        {places.map((place) => (
          <div key={place}>
            <h3>{nameOf(place)}</h3>
            {lanes.filter(({ nodeId }) => nodeId === place)
              .map((lane) => <LaneRow key={lane.key} lane={lane} />)}
          </div>
        ))}
      </div>
    </>
  )
}

const LISTED = 100

function LaneRow ({ lane }: { lane: Lane }) {
  const { name, category, rank, bars, totalUs } = lane
  const total = spanText(totalUs / 1000)
  const times = lane.count === 1 ? total : `${lane.count} times, ${total}`
  return (
    <details class="lane">
      <summary>
        <span class="lane-name">
          {name}{rank > 0 ? ` (rank ${rank})` : ''} <span class="hint">{times}</span>
        </span>
        <span class="lane-bars">
          {bars.map(({ left, width, span, spans }) => (
            <span
              key={span.startUs} class={`bar ${category}`} title={spans === 1 ? '' : `${spans} spans`}
              style={{ left: `${left * 100}%`, width: `max(2px, ${width * 100}%)` }}
            />
          ))}
        </span>
      </summary>
      <ul class="spans">
        {bars.slice(0, LISTED).map(({ span, spans }) => (
          <li key={span.startUs}>
            {clock(span.startUs / 1000)}, {spanText(span.durationUs / 1000)}
            {spans > 1 && ` and ${count(spans - 1, 'span')} right behind it`}
            {Object.entries(span.attrs).map(([key, attr]) => <code key={key}> {key}={String(attr)}</code>)}
          </li>
        ))}
        {bars.length > LISTED && <li>and {bars.length - LISTED} more: they are in the download</li>}
      </ul>
    </details>
  )
}
