import { StoreError } from '../types.js'

export class Leases {
  /** The users of each model, with the digest that each needs, or undefined if any version will do. */
  readonly #users = new Map<string, Map<symbol, string | undefined>>()
  readonly #going = new Map<symbol, { modelId: string, blocks: (used: string) => boolean }>()
  readonly #onUse = new Set<(modelId: string) => void>()
  readonly #onIdle = new Set<(modelId: string) => void>()

  /**
   * Marks a model, or one version of it, as used until the returned function is called. Call it before
   * looking for the copy, so that the copy cannot be removed in between. Throws `model_going` while the copy
   * or a companion is being removed.
   */
  use (modelId: string, by: string, digest?: string): () => void {
    for (const going of this.#going.values()) {
      if (!going.blocks(modelId)) continue
      const what = going.modelId === modelId ? modelId : `${going.modelId}, which ${modelId} needs,`
      throw new StoreError('model_going', `${what} is being removed from this node. Retry in a moment.`)
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

  /** Whether a user needs this version or any version. */
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

  /** Refuses uses that `blocks` matches until the removal ends. Call it before the removal's first await. */
  going (modelId: string, blocks: (used: string) => boolean): () => void {
    const key = Symbol(modelId)
    this.#going.set(key, { modelId, blocks })
    return () => { this.#going.delete(key) }
  }
}
