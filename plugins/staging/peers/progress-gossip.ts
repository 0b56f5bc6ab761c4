import { openObject, type Channel } from '../../../kernel/index.js'
import { schemaChecker } from '../../../kernel/api/validate.js'
import type { StagingContext } from '../manifest.js'
import type { DownloadView, Job } from '../transfer/job.js'

/** Interval in ms of progress messages during transfers. */
const TELL_MS = 1000
/** Interval in ms of progress messages without transfers, sent in case an earlier message was lost. */
const AGAIN_MS = 10_000
/** Maximum number of progress entries accepted from another node. */
const MOST = 256

/** Exchanges transfer progress between nodes. Messages may be lost; each replaces the previous one. */
export class ProgressGossip {
  readonly #ctx: Pick<StagingContext, 'clock' | 'deps' | 'node'>
  readonly #jobs: () => readonly Job[]
  readonly #channel: Channel<unknown>
  readonly #others = new Map<string, DownloadView[]>()
  readonly #stops: (() => void)[]
  #changed = true
  #toldAt = -Infinity

  constructor (ctx: Pick<StagingContext, 'clock' | 'deps' | 'node'>, jobs: () => readonly Job[]) {
    this.#ctx = ctx
    this.#jobs = jobs
    const { clock, deps: { cluster } } = ctx
    this.#channel = cluster.channel('staging.downloads', (from, message) => this.#receive(from, message))
    this.#stops = [
      clock.every(TELL_MS, () => { this.#tell() }),
      cluster.onPeers(({ installId, up }) => {
        if (!up) this.#others.delete(installId)
        this.#changed = true
      })
    ]
  }

  changed (): void { this.#changed = true }

  view (): Record<string, DownloadView[]> {
    const { deps: { cluster }, node } = this.#ctx
    const all: Record<string, DownloadView[]> = { [node.nodeId]: this.#own() }
    for (const [installId, views] of this.#others) {
      const node = cluster.resolve(installId)
      if (node !== undefined) all[node.nodeId] = views
    }
    return Object.fromEntries(Object.entries(all).filter(([, views]) => views.length > 0))
  }

  * receiving (): Iterable<{ nodeId: string, modelId: string, bytes: number }> {
    for (const [nodeId, views] of Object.entries(this.view())) {
      for (const { DownloadOngoing: ongoing } of views) {
        if (ongoing === undefined) continue
        const { downloaded } = ongoing['downloadProgress'] as { downloaded: number }
        yield { nodeId, modelId: ongoing.modelId, bytes: downloaded }
      }
    }
  }

  close (): void {
    for (const stop of this.#stops) stop()
    this.#channel.close()
  }

  #own (): DownloadView[] { return this.#jobs().map((job) => job.view(this.#ctx.node.nodeId)) }

  #tell (): void {
    const now = this.#ctx.clock.mono()
    const moving = this.#changed || this.#jobs().some((job) => !job.over)
    if (!moving && now - this.#toldAt < AGAIN_MS) return
    this.#changed = false
    this.#toldAt = now
    this.#channel.broadcast(this.#own().slice(-MOST))
  }

  #receive (from: string, message: unknown): boolean {
    const fits = problemOf(message) === null
    if (fits) this.#others.set(from, (message as DownloadView[]).flatMap(knownState))
    return fits
  }
}

/** Drops unknown states and fields, which a newer version may send. */
const knownState = (view: DownloadView): DownloadView[] => Object.entries(view)
  .filter(([state]) => Object.hasOwn(states, state)).slice(0, 1).map((entry) => Object.fromEntries([entry]))

const [text, bytes] = [{ type: 'string' }, { type: 'number' }]

const view = openObject({
  modelId: text, nodeId: text, attemptId: text, downloaded: bytes, total: bytes, errorMessage: text,
  reason: text, downloadProgress: openObject({
    downloaded: bytes, total: bytes, speed: bytes, etaMs: { type: ['number', 'null'] }
  }, ['downloaded'])
}, ['modelId', 'nodeId'])

const states = {
  DownloadPending: view, DownloadCompleted: view, DownloadFailed: view,
  DownloadOngoing: { ...view, required: [...view.required, 'downloadProgress'] }
}

export const problemOf = schemaChecker({
  type: 'array', maxItems: MOST, items: { type: 'object', minProperties: 1, properties: states }
})
