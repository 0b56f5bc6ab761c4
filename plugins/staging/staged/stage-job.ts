import { randomUUID } from 'node:crypto'
import type { Clock } from '../../../kernel/index.js'
import { RateMeter } from '../transfer/progress.js'
import type { Progress } from '../types.js'

/** One-key object, as in /state.downloads. */
export type DownloadView = Record<string, {
  nodeId: string, modelId: string, attemptId: string, [more: string]: unknown
}>

/** Why a transfer to this node ended badly. */
export interface StageFailure { reason: string, message: string }

/** A transfer of a model to this node, from the asking to its end. */
export class StageJob {
  readonly modelId: string
  /** The content that was asked for; whatever the store has where none was. */
  readonly digest: string | undefined
  readonly attemptId = randomUUID()
  readonly abort = new AbortController()
  state: 'pending' | 'ongoing' | 'completed' | 'failed' = 'pending'
  failure: StageFailure | null = null
  progress: Progress = { bytes: 0, totalBytes: 0, files: 0, totalFiles: 0 }
  /** Resolves when the model's own files are here, or will not come. */
  readonly arrived: Promise<void>
  /** Resolves when it has ended, one way or the other; then its companions are here too. */
  readonly ended: Promise<void>
  readonly #clock: Clock
  readonly #rate = new RateMeter()
  /** Lets those go on who wait for the arrival. */
  arrive: () => void = () => {}
  #end: () => void = () => {}

  constructor (modelId: string, clock: Clock, digest?: string) {
    this.modelId = modelId
    this.digest = digest
    this.#clock = clock
    this.arrived = new Promise((resolve) => { this.arrive = resolve })
    this.ended = new Promise((resolve) => { this.#end = resolve })
  }

  get over (): boolean { return this.state === 'completed' || this.state === 'failed' }

  moved (progress: Progress): void {
    this.state = 'ongoing'
    this.progress = progress
    this.#rate.add(progress.bytes, this.#clock.mono())
  }

  complete (totalBytes: number): void {
    this.progress = { ...this.progress, bytes: totalBytes, totalBytes }
    this.#finish('completed')
  }

  fail (failure: StageFailure): void {
    this.failure = failure
    this.#finish('failed')
  }

  /** As /state shows it. */
  view (nodeId: string): DownloadView {
    const { modelId, attemptId, progress: { bytes, totalBytes, files, totalFiles } } = this
    const base = { nodeId, modelId, attemptId }
    switch (this.state) {
      case 'pending': return { DownloadPending: { ...base, downloaded: bytes, total: totalBytes } }
      case 'completed': return { DownloadCompleted: { ...base, total: totalBytes } }
      case 'failed': {
        const { message: errorMessage = '', reason = '' } = this.failure ?? {}
        return { DownloadFailed: { ...base, errorMessage, reason } }
      }
      default: {
        const speed = this.#rate.rate(this.#clock.mono())
        const etaMs = speed === 0 ? null : Math.round((totalBytes - bytes) / speed * 1000)
        return {
          DownloadOngoing: {
            ...base,
            downloadProgress: {
              total: totalBytes, downloaded: bytes, completedFiles: files, totalFiles,
              speed: Math.round(speed), etaMs
            }
          }
        }
      }
    }
  }

  #finish (state: 'completed' | 'failed'): void {
    this.state = state
    this.arrive()
    this.#end()
  }
}
