import { keyOf, type Entry } from '../../../kernel/state/entries.js'

/**
 * Builds the state from a replica's entries (see kernel/state/entries.ts). The value of an unchanged state
 * key stays the same object, so views can compare by `===`.
 */
export class Assembly {
  readonly #whole = new Map<string, unknown>()
  readonly #members = new Map<string, Map<string, unknown>>()
  readonly #stale = new Set<string>()
  readonly #objects = new Map<string, unknown>()

  /**
   * Applies one transaction: the entries removed from the replicated list, and those added, in list order.
   */
  apply (removed: Iterable<Entry>, added: Iterable<Entry>): void {
    for (const { key, val } of removed) this.#set(key, undefined, val)
    for (const { key, val } of added) this.#set(key, val)
  }

  state (): Record<string, unknown> {
    for (const key of this.#stale) {
      if (this.#whole.has(key)) this.#objects.set(key, this.#object(key))
      else this.#objects.delete(key)
    }
    this.#stale.clear()
    return Object.fromEntries(this.#objects)
  }

  /** Sets an entry; without `val`, removes the entry if its value is still `gone`. */
  #set (entry: string, val: unknown, gone?: unknown): void {
    const key = keyOf(entry)
    this.#stale.add(key)
    let [map, name] = [this.#whole, entry]
    if (key !== entry) {
      map = this.#members.get(key) ?? new Map<string, unknown>()
      this.#members.set(key, map)
      name = entry.slice(key.length + 1)
    }
    if (val !== undefined) map.set(name, val)
    else if (map.get(name) === gone) map.delete(name)
  }

  #object (key: string): unknown {
    const val = this.#whole.get(key)
    const members = this.#members.get(key)
    if (typeof val !== 'object' || val === null || Array.isArray(val) || members === undefined) return val
    // Object.fromEntries creates a property even for a member named __proto__; an assignment would not.
    return Object.fromEntries(members)
  }
}
