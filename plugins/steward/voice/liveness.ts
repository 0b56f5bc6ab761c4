import {
  deadline, type Caller, type Clock, type Logger, type LocalApi, type Section
} from '../../../kernel/index.js'
import type { RoleStatus, PlacementKeeper } from '../../placement/service.js'

/** Milliseconds without a successful request after which a ready model is probed. */
export const SILENCE_MS = 60_000
/** Milliseconds between checks, and before the next probe after a failed one. */
export const LOOK_MS = 5000
/** Timeout of a probe in ms, including its time in the model's queue. */
export const PROBE_MS = 30_000
/** Consecutive failed probes after which the model is placed again. */
export const FAILURES_MOST = 3

/** The steward's identity in requests to its model, with no other authority. */
export const VOICE_CALLER: Caller = { id: 'steward', mode: 'direct', authorities: new Set(['invoke']) }

export interface LivenessParts {
  readonly api: LocalApi
  readonly clock: Clock
  readonly log: Logger
  readonly keeping: Pick<PlacementKeeper, 'replace'>
  /** Consecutive failed probes by instance id, as the current master counts them. */
  readonly section: Section<{ failed: number }>
  isMaster (): boolean
  kept (): RoleStatus | null
}

/**
 * Probes on the master whether the model answers. After a minute without a successful request it requests
 * one token; after three consecutive failed probes the model is placed again.
 */
export class Liveness {
  readonly #parts: LivenessParts
  #heardAt: number
  #probing = false
  /** The instance whose latest probes failed. */
  #failing: { instanceId: string, failed: number } | null = null

  constructor (parts: LivenessParts) {
    this.#parts = parts
    this.#heardAt = parts.clock.mono()
  }

  heard (): void {
    this.#heardAt = this.#parts.clock.mono()
    this.#count(null)
  }

  /** Records a successful request to that model; called for each request, so it is cheap. */
  answered (modelId: string): void {
    const { clock, kept } = this.#parts
    if (this.#failing === null && clock.mono() - this.#heardAt < LOOK_MS) return
    if (kept()?.modelId === modelId) this.heard()
  }

  /** Probes the model if it has been silent for too long; must be called every LOOK_MS. */
  async look (): Promise<void> {
    const { clock, isMaster, kept: look } = this.#parts
    if (this.#probing) return
    if (!isMaster()) {
      this.heard()
      return
    }
    if (this.#failing === null && clock.mono() - this.#heardAt < SILENCE_MS) return
    const kept = look()
    // An instance that is starting, or has replaced another one, is not probed yet.
    const another = this.#failing !== null && this.#failing.instanceId !== kept?.instanceId
    if (kept?.state !== 'ready' || another) {
      this.heard()
      return
    }
    this.#probing = true
    try { await this.#probe(kept) } finally { this.#probing = false }
  }

  async #probe ({ instanceId, modelId, own }: RoleStatus): Promise<void> {
    const { log, keeping } = this.#parts
    const problem = await this.#ask(modelId)
    if (problem === null) {
      this.heard()
      return
    }
    const failed = Math.min(FAILURES_MOST, (this.#failing?.failed ?? 0) + 1)
    this.#count({ instanceId, failed })
    log.warn({ instanceId, modelId, failed, problem }, 'the model of the steward gave no sign of life')
    if (failed < FAILURES_MOST || !own) return
    const errorMessage = `It gave no sign of life ${FAILURES_MOST} times in a row: ${problem}.`
    try {
      await keeping.replace(instanceId, { errorCode: 'no_sign_of_life', errorMessage })
    } catch (err) {
      log.debug({ err }, 'the model of the steward is replaced after the next look')
    }
  }

  /** Why the probe failed; null for any answer, including one that reports a full queue. */
  async #ask (modelId: string): Promise<string | null> {
    const { api, clock } = this.#parts
    const late = (): Error => new Error(`no answer within ${PROBE_MS / 1000} s`)
    const { signal, stop } = deadline(clock, PROBE_MS, late)
    try {
      const { status } = await api.ask({
        path: '/v1/chat/completions', method: 'POST', caller: VOICE_CALLER, signal,
        body: { model: modelId, messages: [{ role: 'user', content: 'ping' }], max_tokens: 1 }
      })
      return status >= 500 && status !== 503 ? `it answered with ${status}` : null
    } catch (error) {
      return error instanceof Error ? error.message : 'no answer'
    } finally {
      stop()
    }
  }

  #count (failing: { instanceId: string, failed: number } | null): void {
    const { section } = this.#parts
    const before = this.#failing
    this.#failing = failing
    if (before !== null && before.instanceId !== failing?.instanceId) section.remove(before.instanceId)
    if (failing !== null && failing.failed !== before?.failed) {
      section.put(failing.instanceId, { failed: failing.failed })
    }
  }
}
