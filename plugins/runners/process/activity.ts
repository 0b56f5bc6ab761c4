import { Announcer } from './announce.js'
import { FROM_RUNNER } from './messages.js'
import { SLOT } from './shared.js'
import type { Handle } from './announce.js'
import type { NodeLink } from './node-link.js'

const LABEL_CHARS = 64

/**
 * What the runner's main thread is doing, told to the node and to the watchdog thread: pieces of work the
 * engine announces, and steps, the synchronous part of a call into the engine outside of them.
 */
export class Activity {
  readonly #link: NodeLink
  readonly #state: Int32Array
  readonly #announcer: Announcer
  #step: Handle | null = null

  constructor (link: NodeLink, state: Int32Array) {
    this.#link = link
    this.#state = state
    this.#announcer = new Announcer({
      now: () => performance.now(),
      after: (ms, fn) => { setTimeout(fn, ms).unref() },
      send: (message) => { link.send(FROM_RUNNER.work, 0, message) }
    })
  }

  /** EngineEnv.work. Throws RangeError when `units` is not a number above 0. */
  async work<T> (label: string, units: number, call: () => T | Promise<T>): Promise<T> {
    if (!(units > 0 && Number.isFinite(units))) {
      throw new RangeError(`work units must be a number above 0, got ${units}`)
    }
    this.#endStep()
    const handle = this.#announcer.begin(String(label).slice(0, LABEL_CHARS), units)
    Atomics.add(this.#state, SLOT.announced, 1)
    try {
      // An announcement that has not left this process would be silent while the call blocks it.
      if (this.#link.behind) await this.#link.flushed()
      return await call()
    } finally {
      Atomics.sub(this.#state, SLOT.announced, 1)
      this.#announcer.end(handle)
      this.#beginStep()
    }
  }

  /** Calls into the engine; announced until the event loop turns again. */
  step<T> (call: () => T): T {
    this.#beginStep()
    return call()
  }

  #beginStep (): void {
    if (this.#step !== null) return
    const handle = this.#announcer.begin('step', 1)
    this.#step = handle
    setImmediate(() => { if (this.#step === handle) this.#endStep() })
  }

  #endStep (): void {
    if (this.#step === null) return
    this.#announcer.end(this.#step)
    this.#step = null
  }
}
