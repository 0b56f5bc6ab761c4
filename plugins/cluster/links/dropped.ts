import type { Logger } from '../../../kernel/cluster.js'

const MAX_KINDS = 32
const KIND_CHARS = 40

export class DroppedMessages {
  readonly #log: Logger
  readonly #nodes = new Map<string, Map<string, number>>()

  constructor (log: Logger) { this.#log = log }

  add (from: string, named: unknown, err?: unknown): void {
    const kinds = this.#nodes.get(from) ?? new Map<string, number>()
    this.#nodes.set(from, kinds)
    const name = String(named).slice(0, KIND_CHARS)
    const kind = kinds.has(name) || kinds.size < MAX_KINDS ? name : 'others'
    const count = (kinds.get(kind) ?? 0) + 1
    kinds.set(kind, count)
    if (count > 1) return
    this.#log.warn({ from, kind, err },
      'messages of an unknown shape are dropped: a node of another version?')
  }

  of (installId: string): ReadonlyMap<string, number> { return this.#nodes.get(installId) ?? new Map() }

  forget (installId: string): void { this.#nodes.delete(installId) }
}
