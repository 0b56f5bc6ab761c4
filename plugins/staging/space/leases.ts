import { StoreError } from '../types.js'

export class Leases {
  /** For each model the content that each of its users needs; undefined is whichever is there. */
  readonly #users = new Map<string, Map<symbol, string | undefined>>()
  readonly #going = new Map<symbol, { modelId: string, blocks: (used: string) => boolean }>()
  readonly #onUse = new Set<(modelId: string) => void>()
  readonly #onIdle = new Set<(modelId: string) => void>()

  /**
   * Marks a model, of one content where a digest is given, as used, until the returned function is called
   * (again: no effect). Take the use before looking for the copy, so that it cannot go in between. Throws
   * `model_going` while the copy, or that of a companion, goes.
   */
  use (modelId: string, by: string, digest?: string): () => void {
    for (const going of this.#going.values()) {
      if (!going.blocks(modelId)) continue
      const what = going.modelId === modelId ? modelId : `${going.modelId}, which ${modelId} needs,`
      throw new StoreError('model_going',
        `${what} is being removed from this node's disk right now. Try again in a moment.`)
    }
    const users = this.#users.get(modelId) ?? new Map<symbol, string | undefined>()
    const key = Symbol(by)
    this.#users.set(modelId, users.set(key, digest))
    for (const tell of this.#onUse) tell(modelId)
    return () => {
      if (!users.delete(key) || users.size > 0) return
      this.#users.delete(modelId)
      for (const tell of this.#onIdle) tell(modelId)
    }
  }

  has (modelId: string): boolean { return this.#users.has(modelId) }

  /** Whether somebody uses that content of a model, or whichever is there. */
  needs (modelId: string, digest: string): boolean {
    return [...this.#users.get(modelId)?.values() ?? []]
      .some((needed) => needed === undefined || needed === digest)
  }

  ids (): string[] { return [...this.#users.keys()] }

  onUse (fn: (modelId: string) => void): () => void {
    this.#onUse.add(fn)
    return () => { this.#onUse.delete(fn) }
  }

  onIdle (fn: (modelId: string) => void): () => void {
    this.#onIdle.add(fn)
    return () => { this.#onIdle.delete(fn) }
  }

  /** Refuses the uses that `blocks` names while a model is removed; to be called before any await. */
  going (modelId: string, blocks: (used: string) => boolean): () => void {
    const key = Symbol(modelId)
    this.#going.set(key, { modelId, blocks })
    return () => { this.#going.delete(key) }
  }
}
