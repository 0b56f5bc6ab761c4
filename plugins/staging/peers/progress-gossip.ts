import type { Channel, Clock, Cluster } from '../../../kernel/index.js'
import type { DownloadView, Job } from '../transfer/job.js'

/** How often transfers are told of while something moves, ms. */
const TELL_MS = 1000
/** What ended is told so often, in case a message was lost, ms. */
const AGAIN_MS = 10_000
/** Most entries of another node that are kept. */
const MOST = 256

export interface ProgressGossipParts {
  cluster: Cluster
  clock: Clock
  nodeId: string
  jobs: () => readonly Job[]
}

/** Tells the other nodes how this one's transfers go, and keeps what they tell: lossy, the newest counts. */
export class ProgressGossip {
  readonly #parts: ProgressGossipParts
  readonly #channel: Channel<unknown>
  readonly #others = new Map<string, DownloadView[]>()
  readonly #stops: (() => void)[]
  #changed = true
  #toldAt = -Infinity

  constructor (parts: ProgressGossipParts) {
    this.#parts = parts
    const { cluster, clock } = parts
    this.#channel = cluster.channel('staging.downloads', (from, message) => { this.#receive(from, message) })
    this.#stops = [
      clock.every(TELL_MS, () => { this.#tell() }),
      cluster.onPeers(({ installId, up }) => {
        if (!up) this.#others.delete(installId)
        this.#changed = true
      })
    ]
  }

  /** Something about a transfer has changed: the others hear of it within a second. */
  changed (): void { this.#changed = true }

  /** /state.downloads: node id to its transfers. */
  view (): Record<string, DownloadView[]> {
    const { cluster, nodeId } = this.#parts
    const all: Record<string, DownloadView[]> = { [nodeId]: this.#own() }
    for (const [installId, views] of this.#others) {
      const node = cluster.resolve(installId)
      if (node !== undefined) all[node.nodeId] = views
    }
    return Object.fromEntries(Object.entries(all).filter(([, views]) => views.length > 0))
  }

  /** Transfers under way on any node, with what has come so far. */
  * receiving (): Iterable<{ installId: string, modelId: string, bytes: number }> {
    const { cluster } = this.#parts
    for (const [nodeId, views] of Object.entries(this.view())) {
      const node = cluster.resolve(nodeId)
      for (const view of views) {
        const ongoing = view['DownloadOngoing'] as { downloadProgress?: { downloaded?: number } } | undefined
        if (node === undefined || ongoing === undefined) continue
        const { modelId } = view['DownloadOngoing']!
        yield { installId: node.installId, modelId, bytes: ongoing.downloadProgress?.downloaded ?? 0 }
      }
    }
  }

  close (): void {
    for (const stop of this.#stops) stop()
    this.#channel.close()
  }

  #own (): DownloadView[] {
    return this.#parts.jobs().map((job) => job.view(this.#parts.nodeId))
  }

  #tell (): void {
    const now = this.#parts.clock.mono()
    const moving = this.#changed || this.#parts.jobs().some((job) => !job.over)
    if (!moving && now - this.#toldAt < AGAIN_MS) return
    this.#changed = false
    this.#toldAt = now
    this.#channel.broadcast(this.#own().slice(-MOST))
  }

  #receive (from: string, message: unknown): void {
    if (!Array.isArray(message) || message.length > MOST) return
    if (message.every(isView)) this.#others.set(from, message)
  }
}

const KINDS = new Set(['DownloadPending', 'DownloadOngoing', 'DownloadCompleted', 'DownloadFailed'])

function isView (value: unknown): value is DownloadView {
  if (typeof value !== 'object' || value === null) return false
  const [entry, ...more] = Object.entries(value)
  if (entry === undefined || more.length > 0 || !KINDS.has(entry[0])) return false
  const { modelId, nodeId } = (entry[1] ?? {}) as { modelId?: unknown, nodeId?: unknown }
  if (typeof modelId !== 'string' || typeof nodeId !== 'string') return false
  if (entry[0] !== 'DownloadOngoing') return true
  const { downloadProgress } = entry[1] as { downloadProgress?: { downloaded?: unknown } }
  return typeof downloadProgress?.downloaded === 'number'
}
