import type { Logger } from '../api/plugin.js'

/** Listeners for one kind of change. If one throws, the error is logged and the other listeners still run. */
export class Listeners<T> {
  readonly #listeners = new Set<(value: T) => void>()
  readonly #log: Logger

  constructor (log: Logger) { this.#log = log }

  /** Adds a listener; returns a function that removes it. */
  add (fn: (value: T) => void): () => void {
    this.#listeners.add(fn)
    return () => { this.#listeners.delete(fn) }
  }

  tell (value: T): void {
    for (const fn of this.#listeners) {
      try { fn(value) } catch (error) { this.#log.error({ err: error }, 'a listener failed') }
    }
  }

  clear (): void { this.#listeners.clear() }
}

/**
 * Calls `fn` once after a burst of changes below a key prefix, deferred because `fn` may change documents.
 * An exception is logged.
 */
export function onPrefix (prefix: string, fn: () => void, log: Logger): (keys: ReadonlySet<string>) => void {
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
