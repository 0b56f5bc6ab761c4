import { delay, waitForCallback, type NodeView, type StreamWriter, type Clock } from '../../kernel/index.js'
import { refOf, remoteSteps, statusOf, type LogRequester } from './ask.js'
import { gather, type ClusterParts } from './cluster.js'
import { gapFrame, lineFrame } from './follow.js'
import {
  FIRST_RETRY_MS, LAST_RETRY_MS, COMMENT_MS, GATHER_MS, POLL_MS, MAX_BUFFERED_LINES
} from './limits.js'
import { inOrder, localSteps, type NodeStatus, type Gap, type ShownLine, type Step } from './lines.js'
import { pathFor, type Query } from './query.js'

interface ClusterFollow extends ClusterParts {
  /** Returns the currently selected nodes. */
  nodes: () => readonly NodeView[]
  query: Query
  requester: LogRequester
}

/**
 * Writes the nodes' logs as one event stream until the client leaves or the node stops. Reports an absent
 * node with a `node` event, retries it and resumes at its position; includes nodes that join. Sorts lines
 * that arrive together by time.
 */
export async function followCluster (stream: StreamWriter, parts: ClusterFollow): Promise<void> {
  const { query, clock } = parts
  const over = new AbortController()
  const signal = AbortSignal.any([parts.requester.signal, over.signal])
  const requester = { caller: parts.requester.caller, signal }
  const startTime = new Date(query.sinceMs ?? clock.now()).toISOString()
  try {
    await stream.write(': following\n\n')
    const first = await gather(parts, parts.nodes(), query, requester)
    await stream.write([
      ...first.nodes.filter(({ error }) => error !== null).map(statusFrame), ...first.lines.map(lineFrame)
    ].join(''))
    const merger = new LogMerger()
    const silent = new Set(first.nodes.filter(({ error }) => error !== null).map(({ nodeId }) => nodeId))
    const follow = (view: NodeView): void => {
      const position = first.positions.get(view.installId) ?? startTime
      const following = { merger, position, silent: silent.has(view.nodeId) }
      void followNode({ ...parts, requester }, view.installId, following)
    }
    await writeMerged(stream, parts, merger, follow)
  } finally {
    over.abort()
  }
}

/** Writes the merged lines to the client, and follows nodes that join. */
async function writeMerged (
  stream: StreamWriter, { clock, nodes, requester }: ClusterFollow, merger: LogMerger,
  follow: (view: NodeView) => void
): Promise<void> {
  const known = new Set<string>()
  let writtenAt = clock.mono()
  while (!requester.signal.aborted && !stream.closed) {
    for (const view of nodes()) {
      if (known.has(view.installId)) continue
      known.add(view.installId)
      follow(view)
    }
    if (await merger.filled(clock, POLL_MS, requester.signal)) await pause(clock, GATHER_MS, requester.signal)
    const { statuses, gaps, lines } = merger.take()
    const text = [...statuses.map(statusFrame), ...gaps.map(gapFrame), ...lines.map(lineFrame)].join('')
    if (text === '' && clock.mono() - writtenAt < COMMENT_MS) continue
    await stream.write(text === '' ? ': keep-alive\n\n' : text)
    writtenAt = clock.mono()
  }
}

interface Following {
  merger: LogMerger
  /** Position in the node's log, a `since` for GET /v1/logs. */
  position: string
  /** True after a failed attempt to reach the node. */
  silent: boolean
}

/** Follows one node with retries until the signal aborts. */
async function followNode (
  parts: ClusterFollow, installId: string, { merger, ...following }: Following
): Promise<void> {
  const { clock, requester: { signal } } = parts
  let { position, silent } = following
  let wait = FIRST_RETRY_MS
  while (!signal.aborted) {
    const view = parts.nodes().find((one) => one.installId === installId)
    if (view === undefined) return
    try {
      for await (const { lines, lost } of stepsOf(parts, view, position)) {
        if (silent) merger.addStatus({ ...refOf(view), error: null })
        silent = false
        wait = FIRST_RETRY_MS
        const last = lines.at(-1)
        if (last !== undefined) position = `${last.nodeId}:${last.seq}`
        await merger.put(lines, lost > 0 ? { ...refOf(view), lost } : null, signal)
      }
    } catch (error) {
      if (!silent && !signal.aborted) merger.addStatus(statusOf(refOf(view), error))
      silent = true
    }
    await pause(clock, wait, signal)
    // Always use the shortest delay for a node that is not live, because a retry is only a lookup.
    wait = view.live ? Math.min(LAST_RETRY_MS, wait * 2) : FIRST_RETRY_MS
  }
}

function stepsOf (
  { ring, self, clock, cluster, query, requester }: ClusterFollow, view: NodeView, position: string
): AsyncGenerator<Step> {
  if (!view.self) {
    return remoteSteps({ cluster, clock }, view, pathFor(query, { since: position, follow: true }), requester)
  }
  const afterSeq = Number(position.split(':').at(-1))
  return localSteps({ ring, self, clock, want: query.want, afterSeq, signal: requester.signal })
}

const statusFrame = (status: NodeStatus): string => `event: node\ndata: ${JSON.stringify(status)}\n\n`

const pause = async (clock: ClusterParts['clock'], ms: number, signal: AbortSignal): Promise<void> => {
  await delay(clock, ms, signal).catch(() => {})
}

interface MergedItems { statuses: NodeStatus[], gaps: Gap[], lines: ShownLine[] }

/** Merges the output from several nodes by time, in bounded memory. */
export class LogMerger {
  #statuses: NodeStatus[] = []
  #gaps: Gap[] = []
  #lines: ShownLine[] = []
  readonly #onFill = new Set<() => void>()
  readonly #onTake = new Set<() => void>()

  /** Queues a status event: a node stopped answering or answers again. */
  addStatus (status: NodeStatus): void {
    this.#statuses.push(status)
    this.#filled()
  }

  /** Adds lines; resolves when the buffer has space for more, or when the signal aborts. */
  async put (lines: readonly ShownLine[], gap: Gap | null, signal: AbortSignal): Promise<void> {
    this.#lines.push(...lines)
    if (gap !== null) this.#gaps.push(gap)
    if (lines.length > 0 || gap !== null) this.#filled()
    while (this.#lines.length >= MAX_BUFFERED_LINES && !signal.aborted) {
      await waitForCallback(on(this.#onTake), signal)
    }
  }

  /** Resolves to true as soon as there are items, or to false after `ms` without items. */
  async filled (clock: Pick<Clock, 'after'>, ms: number, signal: AbortSignal): Promise<boolean> {
    if (this.#empty()) await waitForCallback(on(this.#onFill), signal, { clock, ms })
    return !this.#empty()
  }

  take (): MergedItems {
    const taken = { statuses: this.#statuses, gaps: this.#gaps, lines: inOrder(this.#lines) }
    this.#statuses = []
    this.#gaps = []
    this.#lines = []
    for (const fn of this.#onTake) fn()
    return taken
  }

  #empty (): boolean { return this.#statuses.length + this.#gaps.length + this.#lines.length === 0 }

  #filled (): void { for (const fn of this.#onFill) fn() }
}

const on = (set: Set<() => void>) => (fn: () => void): () => void => {
  set.add(fn)
  return () => { set.delete(fn) }
}
