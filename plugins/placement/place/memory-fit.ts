import type { ModelCard } from '../../../kernel/index.js'
import { needOf } from '../../runners/cards/memory-forecast.js'
import { planWithoutSuggestions } from '../planner/index.js'
import { LEAST_CHOSEN } from '../planner/solve.js'
import type { MemoryFit, MemoryPlanner } from '../../staging/service.js'
import { ENGINES } from './planning.js'
import type { Planning } from './planning.js'

/** Number of layers assumed for a model that is not downloaded yet; it allows a fine split by memory. */
const LAYERS = 32

/**
 * Estimates whether a model fits, and on which nodes. If the model is not downloaded, only its size is known,
 * so `fits` ignores the memory for its context and is optimistic. Null if nodes have not reported their
 * memory, or if no plugin provides the engine.
 */
export function memoryFit (
  planning: Planning, ...[format, totalBytes, modelId]: Parameters<MemoryPlanner>
): MemoryFit | null {
  const engine = ENGINES[format]
  const view = planning.view(planning.facts.now(), '')
  const traits = view.engines[engine]
  if (traits === undefined) return null
  const known = planning.known(modelId)
  const card = known?.totalBytes === totalBytes ? known : sketch(engine, traits.backends, totalBytes)
  const request = {
    card, sharding: 'Pipeline', instanceMeta: traits.meta, minNodes: 1, excluded: [], force: false
  } as const
  const now = planWithoutSuggestions(request, view)
  // A missing engine can be installed later, so the estimate ignores it.
  const nodes = view.nodes.map((node) => ({ ...node, lacks: [], onLibrary: [] }))
  const result = planWithoutSuggestions(request, { ...view, nodes })
  if (!result.ok && result.reason === 'info_pending') return null
  return {
    neededBytes: needOf(card, traits, { context: LEAST_CHOSEN }).neededBytes,
    nodes: result.ok
      ? result.plan.ranks.flatMap(({ nodeId, neededBytes, usableBytes, memories }) =>
          (memories ?? [{ memory: null, neededBytes, usableBytes }]).map(({ memory, ...sums }) => ({
            name: planning.nameOf(nodeId) + (memory === null ? '' : memory === 'vram' ? ' (GPU)' : ' (CPU)'),
            neededBytes: sums.neededBytes, usableBytes: sums.usableBytes
          })))
      : [],
    problem: result.ok ? null : result.message,
    engineMissing: !now.ok && now.reason === 'engine_missing' ? traits.builds ?? engine : null
  }
}

const sketch = (engine: string, backends: readonly string[], totalBytes: number): ModelCard => ({
  modelId: 'the model', revision: '', title: '', description: '', tasks: [], family: '', engine,
  backends: [...backends], files: [], totalBytes, nLayers: LAYERS, hiddenSize: 0, heads: 0, kvHeads: 0,
  headSize: 0, contextLength: 0, supportsTensor: false, companions: [], licence: '', languages: [],
  quantization: null, voices: [], defaults: {}, support: {}
})
