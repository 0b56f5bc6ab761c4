import { useEffect, useState, useRef } from 'preact/hooks'
import { signal } from '@preact/signals'
import { ask, call, caller, origin } from '../link.js'
import { linkTo } from '../route.js'
import { Badge, Button, Copy, Empty, Section, Trouble } from '../ui/parts.js'
import { clock, count } from '../ui/text.js'
import { hasText, levelOf, olderFrom, withEvents, type ControlEvent } from './events.js'
import { fieldsOf, kindOf, kindWords, summaryOf } from '../../../../kernel/cli/event-words.js'
import { nameOf } from '../known.js'
import { Filter, NodeFilter, Search } from './parts.js'
import { ApiError, serverEvents } from '../api.js'
import type { ServerEvent } from '../../../../kernel/http/event-stream-parser.js'

/** Number of events shown at first. */
const FIRST = 100
const MOST = 1000
/** Limit on requests per press of "Older", for filters that match few events. */
const LOOKS = 10

/** The event kinds seen so far, for the filter; kinds of third-party plugins appear as they arrive. */
const kinds = signal<ReadonlySet<string>>(new Set())

function learn (events: readonly ControlEvent[]): void {
  const fresh = events.map(kindOf).filter((kind) => !kinds.value.has(kind))
  if (fresh.length > 0) kinds.value = new Set([...kinds.value, ...fresh])
}

/** Requests pages of older events, newest first, until one contains events that match the filter. */
async function eventsBefore (
  before: number, filter: Record<string, string>
): Promise<{ events: ControlEvent[], end: boolean }> {
  let [until, firstIdx] = [before, 0]
  for (let look = 0; look < LOOKS; look++) {
    const since = olderFrom(until, firstIdx)
    if (since === null) return { events: [], end: true }
    const page = await ask('GET /events', { query: { since: String(since), limit: '1000', ...filter } })
    firstIdx = page.firstIdx
    const events = (page.events as ControlEvent[]).filter(({ idx }) => idx < until)
    if (events.length > 0) return { events, end: olderFrom(since + 1, firstIdx) === null }
    until = since + 1
  }
  return { events: [], end: false }
}

const WORDS = { connecting: 'connecting', live: 'live', lost: 'trying again' }

export function Events ({ asked: at }: { asked: string | null }) {
  const [kind, setKind] = useState('')
  const [node, setNode] = useState('')
  const [text, setText] = useState('')
  const [events, setEvents] = useState<readonly ControlEvent[]>([])
  const [start, setStart] = useState(false)
  const filter = { ...kind === '' ? {} : { kinds: kind }, ...node === '' ? {} : { node } }
  const first = at !== null && /^\d+$/.test(at) ? Number(at) : null
  const from = first === null ? { limit: String(FIRST) } : { since: String(Math.max(0, first - 20)) }
  const path = `/events?${new URLSearchParams({ follow: '1', ...from, ...filter } as Record<string, string>)}`
  useEffect(() => {
    setEvents([])
    setStart(false)
  }, [path])
  const { status, error, again } = useFollow(path, (batch) => {
    const more = batch.filter(({ type }) => type === 'message')
      .map(({ data }) => JSON.parse(data) as ControlEvent)
    learn(more)
    setEvents((had) => withEvents(had, more, MOST))
  })
  const older = async (): Promise<void> => {
    const found = await eventsBefore(events[0]?.idx ?? Number.MAX_SAFE_INTEGER, filter)
    learn(found.events)
    setEvents((had) => withEvents(found.events, had))
    setStart(found.end)
  }
  const shown = events.filter((one) => hasText(one, text, nameOf)).reverse()
  return (
    <Section
      title="Events" aside={status !== 'refused' && (
        <span role="status"><Badge level={status === 'live' ? 'ok' : 'warn'}>{WORDS[status]}</Badge></span>
      )}
    >
      {error !== null && (
        <Trouble error={new Error(`The events cannot be shown. ${error.message}`)} again={again} />
      )}
      {status !== 'refused' && (
        <>
          <div class="filters">
            <Filter
              label="Kind" all="all kinds" value={kind} onChange={setKind}
              options={[...kinds.value].sort().map((one) => [one, kindWords(one)] as const)}
            />
            <NodeFilter value={node} onChange={setNode} />
            <Search label="Text" value={text} onChange={setText} />
          </div>
          <p class="hint">{count(shown.length, 'event')} shown, the newest first.</p>
          {shown.length === 0 && <Empty title="No such event is shown. Older ones may have it." />}
          <ul class="rows" aria-label="Events">
            {shown.map((one) => <EventRow key={one.id} one={one} sought={one.idx === first} />)}
          </ul>
          {start
            ? <p class="hint">These are all that this node has.</p>
            : <div class="inline"><Button onClick={older}>Older</Button></div>}
        </>
      )}
    </Section>
  )
}

function EventRow ({ one, sought }: { one: ControlEvent, sought: boolean }) {
  const kind = kindOf(one)
  const { taskId, modelId, nodeId } = fieldsOf(one)
  return (
    <li class={sought ? 'row sought' : 'row'}>
      <div class="when"><span>{clock(one.at)}</span> <span class="hint">{one.idx}</span></div>
      <div class="grow">
        <p class="row-title"><Badge level={levelOf(kind)}>{kindWords(kind)}</Badge></p>
        <p class="hint">{summaryOf(one, nameOf)} · told by {nameOf(one.origin)}</p>
        <details>
          <summary aria-label={`More about event ${one.idx}`}>More</summary>
          <pre tabIndex={0} aria-label={`Event ${one.idx}`}>{JSON.stringify(one, null, 2)}</pre>
          <p class="inline">
            <Copy text={one.id} />
            <a href={linkTo('happened', 'past', String(one.idx))}>The cluster at this moment</a>
            {typeof taskId === 'string' && <a href={linkTo('happened', 'traces', taskId)}>Its trace</a>}
            {typeof modelId === 'string' && <a href={linkTo('models', modelId)}>{modelId}</a>}
            {typeof nodeId === 'string' && <a href={linkTo('cluster', nodeId)}>{nameOf(nodeId)}</a>}
          </p>
        </details>
      </div>
    </li>
  )
}

/** An event of a stream that is followed; comments are dropped. */
type Followed = Extract<ServerEvent, { kind: 'event' }>

/** Milliseconds between the end of a stream and the next attempt. */
const AGAIN_MS = 1000
/** Milliseconds for which events are collected before they are shown together. */
const GATHER_MS = 100

export interface Following {
  status: 'connecting' | 'live' | 'lost' | 'refused'
  error: Error | null
  again: () => void
}

/**
 * Follows a stream from the page's node; passes events to `take` in small batches.
 * Stops if the node refuses the request; after a disconnect, resumes after the last event with an id.
 */
export function useFollow (path: string, take: (events: Followed[]) => void): Following {
  const [status, setStatus] = useState<Following['status']>('connecting')
  const [error, setError] = useState<Error | null>(null)
  const [round, setRound] = useState(0)
  const taker = useRef(take)
  taker.current = take
  useEffect(() => {
    const abort = new AbortController()
    setStatus('connecting')
    setError(null)
    void follow(path, abort.signal, (events) => { taker.current(events) }, (now, why) => {
      setStatus(now)
      setError(why ?? null)
    })
    return () => { abort.abort() }
  }, [path, origin.value, caller.value, round])
  return { status, error, again: () => { setRound((n) => n + 1) } }
}

async function follow (
  path: string, signal: AbortSignal, take: (events: Followed[]) => void,
  is: (status: Following['status'], error?: Error) => void
): Promise<void> {
  const waiting: Followed[] = []
  let timer: ReturnType<typeof setTimeout> | undefined
  signal.addEventListener('abort', () => { clearTimeout(timer) })
  let last: string | null = null
  for (;;) {
    try {
      const headers = { accept: 'text/event-stream', ...(last === null ? {} : { 'last-event-id': last }) }
      const response = await call(path, { signal, headers })
      is('live')
      for await (const event of serverEvents(response)) {
        if (event.kind === 'comment') continue
        last = event.id ?? last
        waiting.push(event)
        timer ??= setTimeout(() => {
          timer = undefined
          take(waiting.splice(0))
        }, GATHER_MS)
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
        is('refused', error)
        return
      }
    }
    if (signal.aborted) return
    is('lost')
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
    if (signal.aborted) return
  }
}
