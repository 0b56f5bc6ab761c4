import { delay } from '../../kernel/index.js'
import type { NodeView, StreamWriter } from '../../kernel/index.js'
import { refOf, remoteSteps, wordOf } from './ask.js'
import type { LogRequester } from './ask.js'
import { gather } from './cluster.js'
import type { ClusterParts } from './cluster.js'
import { gapFrame, lineFrame } from './follow.js'
import { FIRST_RETRY_MS, LAST_RETRY_MS, COMMENT_MS, GATHER_MS, POLL_MS } from './limits.js'
import { LogMerger } from './merger.js'
import type { NodeStatus } from './lines.js'
import { pathFor } from './query.js'
import type { Query } from './query.js'
import { localSteps } from './steps.js'
import type { Step } from './steps.js'

export interface ClusterFollow extends ClusterParts {
  /** The nodes that are asked for, as they are now. */
  nodes: () => readonly NodeView[]
  query: Query
  asker: LogRequester
}

/**
 * Writes the nodes' logs as one event stream until reader or node stop. Reports an absent node by an event
 * `node`, retries it and continues at its position; includes nodes that join. Sorts lines that arrive
 * together by time.
 */
export async function followCluster (stream: StreamWriter, parts: ClusterFollow): Promise<void> {
  const { query, clock } = parts
  const over = new AbortController()
  const signal = AbortSignal.any([parts.asker.signal, over.signal])
  const asker = { caller: parts.asker.caller, signal }
  const began = new Date(query.sinceMs ?? clock.now()).toISOString()
  try {
    await stream.write(': following\n\n')
    const first = await gather(parts, parts.nodes(), query, asker)
    await stream.write([
      ...first.nodes.filter(({ error }) => error !== null).map(wordFrame), ...first.lines.map(lineFrame)
    ].join(''))
    const mixer = new LogMerger()
    const silent = new Set(first.nodes.filter(({ error }) => error !== null).map(({ nodeId }) => nodeId))
    const follow = (view: NodeView): void => {
      const position = first.positions.get(view.installId) ?? began
      void keepOn({ ...parts, asker }, view.installId, { mixer, position, silent: silent.has(view.nodeId) })
    }
    await writeOn(stream, parts, mixer, follow)
  } finally {
    over.abort()
  }
}

/** Writes what the nodes give, and begins with those that come later. */
async function writeOn (
  stream: StreamWriter, { clock, nodes, asker }: ClusterFollow, mixer: LogMerger,
  follow: (view: NodeView) => void
): Promise<void> {
  const known = new Set<string>()
  let saidAt = clock.mono()
  while (!asker.signal.aborted && !stream.closed) {
    for (const view of nodes()) {
      if (known.has(view.installId)) continue
      known.add(view.installId)
      follow(view)
    }
    if (await mixer.filled(clock, POLL_MS, asker.signal)) await pause(clock, GATHER_MS, asker.signal)
    const { words, gaps, lines } = mixer.take()
    const text = [...words.map(wordFrame), ...gaps.map(gapFrame), ...lines.map(lineFrame)].join('')
    if (text === '' && clock.mono() - saidAt < COMMENT_MS) continue
    await stream.write(text === '' ? ': keep-alive\n\n' : text)
    saidAt = clock.mono()
  }
}

interface Following {
  mixer: LogMerger
  /** `since` of GET /v1/logs: where to go on. */
  position: string
  /** It did not answer when it was asked last. */
  silent: boolean
}

/** Follows one node, again and again, until the signal aborts. */
async function keepOn (
  parts: ClusterFollow, installId: string, { mixer, ...following }: Following
): Promise<void> {
  const { clock, asker: { signal } } = parts
  let { position, silent } = following
  let wait = FIRST_RETRY_MS
  while (!signal.aborted) {
    const view = parts.nodes().find((one) => one.installId === installId)
    if (view === undefined) return
    try {
      for await (const { lines, lost } of stepsOf(parts, view, position)) {
        if (silent) mixer.tell({ ...refOf(view), error: null })
        silent = false
        wait = FIRST_RETRY_MS
        const last = lines.at(-1)
        if (last !== undefined) position = `${last.nodeId}:${last.seq}`
        await mixer.put(lines, lost > 0 ? { ...refOf(view), lost } : null, signal)
      }
    } catch (error) {
      if (!silent && !signal.aborted) mixer.tell(wordOf(refOf(view), error))
      silent = true
    }
    await pause(clock, wait, signal)
    // One that is away is only looked for, which costs nothing.
    wait = view.live ? Math.min(LAST_RETRY_MS, wait * 2) : FIRST_RETRY_MS
  }
}

function stepsOf (
  { ring, self, clock, cluster, query, asker }: ClusterFollow, view: NodeView, position: string
): AsyncGenerator<Step> {
  if (!view.self) {
    return remoteSteps({ cluster, clock }, view, pathFor(query, { since: position, follow: true }), asker)
  }
  const afterSeq = Number(position.split(':').at(-1))
  return localSteps({ ring, self, clock, want: query.want, afterSeq, signal: asker.signal })
}

const wordFrame = (word: NodeStatus): string => `event: node\ndata: ${JSON.stringify(word)}\n\n`

const pause = async (clock: ClusterParts['clock'], ms: number, signal: AbortSignal): Promise<void> => {
  await delay(clock, ms, signal).catch(() => {})
}
