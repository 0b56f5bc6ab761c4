import type { Section } from '../../../kernel/index.js'
import { bodyOf } from '../shapes.js'
import type { Instance, RingInstance } from '../shapes.js'

/** The instances by model, read from the document once after each change of it. */
export class PlacedInstances {
  readonly #section: Section<Instance>
  #byModel: Map<string, RingInstance[]> | null = null

  constructor (section: Section<Instance>) {
    this.#section = section
    section.observe(() => { this.#byModel = null })
  }

  /** The instances of a model; of all models without one. */
  of (modelId?: string): readonly RingInstance[] {
    this.#byModel ??= this.#read()
    return modelId === undefined ? [...this.#byModel.values()].flat() : this.#byModel.get(modelId) ?? []
  }

  #read (): Map<string, RingInstance[]> {
    const byModel = new Map<string, RingInstance[]>()
    for (const { value } of this.#section.entries()) {
      const ring = bodyOf(value)
      const { modelId } = ring.shardAssignments
      byModel.set(modelId, [...byModel.get(modelId) ?? [], ring])
    }
    return byModel
  }
}

/** It takes no new requests any more. */
export const isDraining = ({ drainUntil }: RingInstance): boolean => drainUntil !== undefined
