/**
 * Cuts the graphs of public Whisper exports into those that the engine runs: the encoder for any length up to
 * 30 s, the keys and values of its output for the decoder ("cross"), and one decoder step that takes the keys
 * and values of earlier tokens and returns only those of the new token.
 */
import {
  ATTRIBUTE, ELEMENT, attributesOf, encodeMessage, extractModel, indexGraph, int64Tensor, nodeOf, tensorInfo,
  type GraphIndex, type OnnxModel, type OnnxNode
} from '../../runners/onnx/engine.js'

/** A decoder step. Lists have two entries per layer: keys, then values. */
export interface StepGraph {
  model: OnnxModel
  /** Inputs [tokens, rows, heads, size], so that a new token is appended to each list. */
  caches: string[]
  /** Outputs [rows, heads, 1, size]. */
  fresh: string[]
  /** Inputs [rows, heads, positions, size]. */
  cross: string[]
  logits: string
  /** Cross attention [rows, heads, 1, positions] by layer. */
  attention: Map<number, string>
}

/** The input that a merged decoder selects its branch by. */
const BRANCH = 'use_cache_branch'
const KINDS = ['key', 'value'] as const

/** The branch of a merged decoder as a graph, with the names of its outputs; another graph is not changed. */
function branchOf (model: OnnxModel, isCached: boolean): { index: GraphIndex, named: Map<string, string> } {
  const { graph } = model
  const node = graph.node.find(({ opType, input }) => opType === 'If' && input[0] === BRANCH)
  const body = node && attributesOf(node).get(isCached ? 'then_branch' : 'else_branch')?.g
  if (node === undefined || body == null) {
    const index = indexGraph(model)
    return { index, named: new Map([...index.outputs.keys()].map((name) => [name, name])) }
  }
  const names = [...indexGraph({ ...model, graph: body }).outputs.keys()]
  const index = indexGraph({ ...model, graph: {
    ...graph, node: [...graph.node.filter((other) => other !== node), ...body.node],
    initializer: [...graph.initializer, ...body.initializer], output: body.output,
    valueInfo: [...graph.valueInfo, ...body.valueInfo]
  } })
  return { index, named: new Map(node.output.map((name, i) => [name, names[i] ?? ''])) }
}

const intsNode = (opType: string, input: string, output: string, name: string, ints: number[]): OnnxNode => ({
  ...nodeOf(opType, [input], output),
  attribute: [encodeMessage('AttributeProto', { name, ints, type: ATTRIBUTE.ints })]
})

const layersOf = (named: Map<string, string>): number =>
  [...named.keys()].filter((name) => /^present\.\d+\.decoder\.key$/.test(name)).length

/** The graph from `encoder_hidden_states` to the keys and values of the cross attention. */
export function crossGraph (decoder: OnnxModel): { model: OnnxModel, outputs: string[] } {
  const { index, named } = branchOf(decoder, false)
  const outputs = Array.from({ length: layersOf(named) }, (_, i) =>
    KINDS.map((kind) => named.get(`present.${i}.encoder.${kind}`) ?? '')).flat()
  return { model: extractModel(index, [], outputs), outputs }
}

/** One decoder step; `layers` are those whose cross attention is an output too. @throws Error */
export function stepGraph (decoder: OnnxModel, layers: ReadonlySet<number>): StepGraph {
  const { index: { model }, named } = branchOf(decoder, true)
  const step: StepGraph = {
    model, caches: [], fresh: [], cross: [], logits: named.get('logits') ?? '', attention: new Map()
  }
  const first: OnnxNode[] = []
  for (let i = 0; i < layersOf(named); i++) {
    for (const kind of KINDS) {
      const past = `past_key_values.${i}.decoder.${kind}`
      const concat = model.graph.node.find(({ opType, input }) => opType === 'Concat' && input[0] === past)
      if (concat === undefined) throw new Error(`nothing is appended to ${past}`)
      const cache = `cache.${i}.${kind}`
      first.push(intsNode('Transpose', cache, past, 'perm', [1, 2, 0, 3]))
      step.caches.push(cache)
      step.fresh.push(concat.input[1]!)
      step.cross.push(`past_key_values.${i}.encoder.${kind}`)
    }
    const scores = layers.has(i) ? softmaxAfter(model.graph.node, step.cross.at(-2)!) : undefined
    if (scores !== undefined) step.attention.set(i, scores)
  }
  const index = indexGraph({ ...model, graph: {
    ...model.graph, node: [...first, ...model.graph.node],
    input: [...model.graph.input, ...step.caches.map((name) => tensorInfo(name, ELEMENT.float32))]
  } })
  const outputs = [step.logits, ...step.fresh, ...step.attention.values()]
  return { ...step, model: extractModel(index, [], outputs) }
}

/** The first softmax that depends on a tensor: nodes come after those that they depend on. */
function softmaxAfter (nodes: readonly OnnxNode[], name: string): string | undefined {
  const reached = new Set([name])
  for (const { opType, input, output } of nodes) {
    if (!input.some((one) => reached.has(one))) continue
    if (opType === 'Softmax') return output[0]
    for (const one of output) reached.add(one)
  }
  return undefined
}

/**
 * The encoder with its position encodings cut to the length of its input, so that a short recording costs
 * less. Not `isCut` if the graph does not add them to the transposed output of the convolutions.
 */
export function shortEncoder (encoder: OnnxModel): { model: OnnxModel, isCut: boolean } {
  const { node, initializer } = encoder.graph
  const transposed = new Set(node.flatMap(({ opType, output }) => opType === 'Transpose' ? output : []))
  const at = node.findIndex(({ opType, input }) =>
    opType === 'Add' && input.some((one) => transposed.has(one)))
  const add = node[at]
  if (add === undefined) return { model: encoder, isCut: false }
  const [sound, positions] = transposed.has(add.input[0]!) ? add.input : add.input.toReversed()
  const constants = { 'svc.zero': 0, 'svc.one': 1, 'svc.two': 2, 'svc.axis': -2 }
  const cut = [
    nodeOf('Shape', [sound!], 'svc.shape'),
    nodeOf('Slice', ['svc.shape', 'svc.one', 'svc.two'], 'svc.length'),
    nodeOf('Slice', [positions!, 'svc.zero', 'svc.length', 'svc.axis'], 'svc.positions'),
    { ...add, input: [sound!, 'svc.positions'] }
  ]
  return { isCut: true, model: { ...encoder, graph: {
    ...encoder.graph, node: node.toSpliced(at, 1, ...cut),
    initializer: [...initializer, ...Object.entries(constants).map(([name, id]) => int64Tensor(name, [id]))]
  } } }
}
