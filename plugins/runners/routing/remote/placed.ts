import type { ModelCard, Section } from '../../../../kernel/index.js'
import { bodyOf } from '../../instances/shapes.js'
import type { Instance, RingInstance, ShardBody } from '../../instances/shapes.js'

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

/** The card that a model was placed with. */
export function placedCard ([ring]: readonly RingInstance[]): ModelCard | undefined {
  const [shard] = Object.values(ring?.shardAssignments.runnerToShard ?? {})
  if (shard === undefined) return undefined
  const { storageSize, files, ...card } = (Object.values(shard)[0] as ShardBody).modelCard
  return {
    ...card, totalBytes: storageSize.inBytes,
    files: files.map(({ size, ...file }) => ({ ...file, bytes: size.inBytes }))
  }
}

/** It takes no new requests any more. */
export const isDraining = ({ drainUntil }: RingInstance): boolean => drainUntil !== undefined
