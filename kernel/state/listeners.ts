import type { Logger } from '../api/plugin.js'

/** Listeners of one kind of change. One that throws is logged and does not stop the others. */
export class Listeners<T> {
  readonly #listeners = new Set<(value: T) => void>()
  readonly #log: Logger

  constructor (log: Logger) { this.#log = log }

  /** Returns a function that removes it. */
  add (fn: (value: T) => void): () => void {
    this.#listeners.add(fn)
    return () => { this.#listeners.delete(fn) }
  }

  tell (value: T): void {
    for (const fn of this.#listeners) {
      try { fn(value) } catch (error) {
        this.#log.error({ err: error }, 'a listener failed')
      }
    }
  }

  clear (): void { this.#listeners.clear() }
}

/**
 * Calls `fn` once after a burst of changes below a prefix, outside the change, since it may change documents.
 * An exception is logged.
 */
export function onPrefix (
  prefix: string, fn: () => void, log: Logger
): (keys: ReadonlySet<string>) => void {
  let waiting = false
  return (keys) => {
    if (waiting || ![...keys].some((key) => key.startsWith(prefix))) return
    waiting = true
    queueMicrotask(() => {
      waiting = false
      try { fn() } catch (err) { log.error({ err, section: prefix }, 'an observer of a section failed') }
    })
  }
}
