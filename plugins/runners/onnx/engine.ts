/** Shared by onnxruntime engines inside a runner: reading, cutting and writing graphs, opening sessions. */
import { InferenceSession } from 'onnxruntime-node'
import { EngineError, type ModelSpec } from '../../../kernel/api/engine.js'
import {
  ATTRIBUTE, ELEMENT, attributesOf, tensorInfo, tensorName, valueName, type OnnxGraph, type OnnxModel,
  type OnnxNode
} from './messages.js'

export {
  ATTRIBUTE, ELEMENT, attributesOf, decodeModel, encodeMessage, encodeModel, int64Tensor, nodeOf, tensorInfo
} from './messages.js'
export type { OnnxGraph, OnnxModel, OnnxNode } from './messages.js'

const PROVIDERS: Record<string, string[]> = { cpu: ['cpu'], cuda: ['cuda', 'cpu'], webgpu: ['webgpu', 'cpu'] }

/** Microseconds that a thread spins before it sleeps. */
const SPIN_US = '50'

export interface SessionNames { engine: string, label: string }

/**
 * Opens a graph from a path or from memory.
 * @throws EngineError no_backend for a backend that svc does not use with onnxruntime, model_invalid if
 * onnxruntime rejects the graph
 */
export async function openSession (
  model: string | Uint8Array, { backend, threads }: Pick<ModelSpec, 'backend' | 'threads'>,
  { engine, label }: SessionNames
): Promise<InferenceSession> {
  const executionProviders = PROVIDERS[backend]
  if (executionProviders === undefined) {
    throw new EngineError('no_backend', `engine ${engine} does not support backend "${backend}": ` +
      `it supports ${Object.keys(PROVIDERS).join(', ')}`)
  }
  const options: InferenceSession.SessionOptions = {
    executionProviders,
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    graphOptimizationLevel: 'all',
    // Each sentence and step has a different shape, so planning memory per shape costs more than it saves.
    enableMemPattern: false,
    logSeverityLevel: 3,
    // A step has hundreds of short parts, and waking a thread for each takes longer than the part itself.
    // Threads that wait longer must sleep, because the node and other runners share the cores.
    extra: {
      session: { force_spinning_stop: '1', intra_op: { allow_spinning: '1', spin_duration_us: SPIN_US } }
    }
  }
  try {
    return typeof model === 'string'
      ? await InferenceSession.create(model, options)
      : await InferenceSession.create(model, options)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new EngineError('model_invalid', `onnxruntime cannot load ${label}: ${why}`)
  }
}

export type GraphIndex = ReturnType<typeof indexGraph>

/** The part of a graph on which some tensors depend, as found by `closureOf`. */
export interface Closure { nodes: Set<number>, initializers: Set<string>, inputs: Set<string> }

export function indexGraph (model: OnnxModel) {
  const { graph } = model
  const producer = new Map<string, number>()
  graph.node.forEach((node, i) => { for (const name of node.output) producer.set(name, i) })
  const initializers = new Map<string, Uint8Array>()
  /** True if some weights are in another file; such a model is loaded by path and never cut. */
  let external = false
  for (const bytes of graph.initializer) {
    const head = tensorName(bytes)
    initializers.set(head.name, bytes)
    external ||= head.external
  }
  const named = (list: Uint8Array[]): Map<string, Uint8Array> => new Map(list.map((b) => [valueName(b), b]))
  return {
    model, producer, initializers, external,
    inputs: named(graph.input), outputs: named(graph.output), values: named(graph.valueInfo)
  }
}

// Bodies of these operators may use tensors of the outer graph, which count as inputs of the node.
const WITH_BODY = new Set(['If', 'Loop', 'Scan', 'SequenceMap'])

function bodyReferences (node: OnnxNode): string[] {
  const names: string[] = []
  for (const attribute of attributesOf(node).values()) {
    const { type, g, graphs } = attribute
    if (type === ATTRIBUTE.graph && g !== null) names.push(...graphReferences(g))
    if (type === ATTRIBUTE.graphs) names.push(...graphs.flatMap(graphReferences))
  }
  return names
}

function graphReferences (graph: OnnxGraph): string[] {
  return [...graph.node.flatMap(referencesOf), ...graph.output.map(valueName)]
}

function referencesOf (node: OnnxNode): string[] {
  return WITH_BODY.has(node.opType) ? [...node.input, ...bodyReferences(node)] : node.input
}

/**
 * Everything that `outputs` depend on, up to the tensors in `stops`. `inputs` are the graph inputs and stop
 * tensors that were reached.
 */
export function closureOf (index: GraphIndex, outputs: string[], stops: Set<string>): Closure {
  const closure: Closure = { nodes: new Set(), initializers: new Set(), inputs: new Set() }
  const seen = new Set<string>()
  const stack = [...outputs]
  for (let name = stack.pop(); name !== undefined; name = stack.pop()) {
    if (name === '' || seen.has(name)) continue
    seen.add(name)
    const at = index.producer.get(name)
    if (stops.has(name) || (at === undefined && index.inputs.has(name))) closure.inputs.add(name)
    else if (at !== undefined) {
      if (!closure.nodes.has(at)) stack.push(...referencesOf(index.model.graph.node[at] as OnnxNode))
      closure.nodes.add(at)
    } else if (index.initializers.has(name)) closure.initializers.add(name)
  }
  return closure
}

/**
 * The graph between `inputs` (tensor names; other graph inputs stay if needed) and `outputs`.
 * @throws Error naming a tensor that the graph does not have
 */
export function extractModel (index: GraphIndex, inputs: string[], outputs: string[]): OnnxModel {
  for (const name of [...inputs, ...outputs]) {
    const known = index.producer.has(name) || index.inputs.has(name)
    if (!known) throw new Error(`the graph has no tensor "${name}"`)
  }
  const closure = closureOf(index, outputs, new Set(inputs))
  const describe = (name: string): Uint8Array => index.inputs.get(name) ?? index.outputs.get(name) ??
    index.values.get(name) ?? tensorInfo(name, ELEMENT.float32)
  const { graph } = index.model
  const ports = new Set([...closure.inputs, ...outputs])
  return {
    ...index.model,
    graph: {
      name: graph.name, node: graph.node.filter((_, i) => closure.nodes.has(i)),
      initializer: [...closure.initializers].map((name) => index.initializers.get(name) as Uint8Array),
      input: [...closure.inputs].map(describe), output: outputs.map(describe),
      valueInfo: graph.valueInfo.filter((bytes) => !ports.has(valueName(bytes)))
    }
  }
}
