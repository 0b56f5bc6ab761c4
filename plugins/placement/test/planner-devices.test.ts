/** Nodes with several GPUs and an engine that uses all of them. */
import t from 'tap'
import { plan } from '../planner/index.js'
import type {
  ClusterView, EngineTraits, MemoryClaim, NodeFacts, PlanRequest, PlanResult
} from '../planner/types.js'
import { card, GIB, MASK, node } from './planner-kit.js'

const gguf: EngineTraits = {
  multiNode: true, meta: 'LlamaRpc', tensor: true, unevenTensor: true, manyDevices: true, overhead: 1,
  fixedBytes: 0, backends: ['cuda', 'cpu']
}
const both = { lm: ['cuda', 'cpu'] }
/** GPUs on which models may use the given numbers of GiB. */
const gpus = (...free: number[]): Pick<NodeFacts, 'gpus' | 'backends'> =>
  ({ gpus: free.map((gib) => ({ total: 100 * GIB, used: (90 - gib) * GIB })), backends: both })

function planned (
  nodes: NodeFacts[], { traits = gguf, reservations = [], ...asked }: Partial<PlanRequest> & {
    traits?: EngineTraits, reservations?: MemoryClaim[]
  } = {}
): PlanResult {
  const edges = nodes.flatMap((a) => nodes.map((b) => ({ from: a.nodeId, to: b.nodeId })))
  const view: ClusterView = {
    nodes, edges, engines: { lm: traits }, reservations, releasing: [], instances: []
  }
  return plan({
    card: card({ supportsTensor: true, heads: 8 }), sharding: 'Pipeline', instanceMeta: 'LlamaRpc',
    minNodes: 1, excluded: [], force: false, ...asked
  }, view)
}

/** A string such as `a cuda 0-20 [12,8]` for each rank, or else the refusal reason. */
function told (result: PlanResult): string[] {
  if (!result.ok) return [result.reason]
  return result.plan.ranks.map(({ nodeId, backend, startLayer, endLayer, gpuLayers }) => {
    const shares = gpuLayers === undefined ? '' : ` [${gpuLayers.join()}]`
    return `${nodeId} ${backend} ${startLayer}-${endLayer}${shares}`
  })
}

// The model has 10 GiB in 20 layers; it needs more memory than that, because an exact fit is not enough.
const cases: [string, NodeFacts[], Parameters<typeof planned>[1], string[]][] = [
  ['one GPU needs no shares', [node('a', 1, gpus(11))], {}, ['a cuda 0-20']],
  ['shares follow the free memory of each', [node('a', 1, gpus(9, 6))], {}, ['a cuda 0-20 [12,8]']],
  ['one that is full has none', [node('a', 1, gpus(0, 11))], {}, ['a cuda 0-20 [0,20]']],
  ['no more than each can hold', [node('a', 1, gpus(1.1, 9.1))], {}, ['a cuda 0-20 [2,18]']],
  ['the CPU has what they cannot hold', [node('a', 8, gpus(3.1, 2.1))], {}, ['a cuda 0-20 [6,4]']],
  ['also beside one GPU', [node('a', 8, gpus(3.1))], {}, ['a cuda 0-20 [6]']],
  ['rather the CPU alone than a GPU without room', [node('a', 16, gpus(0.1))], {}, ['a cpu 0-20 []']],
  ['too little in all', [node('a', 4, gpus(3, 2))], {}, ['insufficient_memory']],
  ['what is reserved on one is not on another', [node('a', 1, gpus(9, 6))],
    { reservations: [{ nodeId: 'a', backend: 'cuda', gpu: 1, bytes: 4 * GIB }] }, ['a cuda 0-20 [17,3]']],
  ['an engine of one device has the first only', [node('a', 1, gpus(9, 6))],
    { traits: { ...gguf, manyDevices: false } }, ['insufficient_memory']],
  ['over nodes, by what their GPUs have together', [node('a', 1, gpus(4, 4)), node('b', 1, gpus(4))],
    {}, ['a cuda 0-13 [7,6]', 'b cuda 13-20']],
  ['a node that holds it all with its CPU is enough', [node('a', 8, gpus(4)), node('b', 1, gpus(9))],
    {}, ['a cuda 0-20 [7]']],
  ['GPUs of two nodes before a CPU', [node('a', 20, gpus(6)), node('b', 20, gpus(6))],
    { minNodes: 2 }, ['a cuda 0-10', 'b cuda 10-20']],
  ['a tensor rank shares its part', [node('a', 1, gpus(4, 2)), node('b', 1, gpus(6))],
    { sharding: 'Tensor', minNodes: 2 }, ['a cuda 0-20 [13,7]', 'b cuda 0-20']],
  ['and has no CPU beside GPUs', [node('a', 4, gpus(2)), node('b', 1, gpus(6))],
    { sharding: 'Tensor', minNodes: 2 }, ['insufficient_memory']]
]
for (const [title, nodes, asked, expected] of cases) {
  t.test(title, async (t) => { t.strictSame(told(planned(nodes, asked)), expected) })
}

t.test('each device has its own fixed part', async (t) => {
  const traits = { ...gguf, fixedBytes: GIB }
  const fits = planned([node('a', 1, gpus(6.1, 6.1))], { traits })
  t.strictSame(told(fits), ['a cuda 0-20 [10,10]'])
  const neededBytes = 12 * GIB + 2 * MASK
  t.match(fits, { plan: { ranks: [{ neededBytes, usableBytes: Math.floor(12.2 * GIB) }] } })
  t.strictSame(told(planned([node('a', 1, gpus(5.9, 5.9))], { traits })), ['insufficient_memory'])
})

t.test('VRAM and RAM are shown apart, and what is left on the CPU is said', async (t) => {
  // A model whose KV cache takes 1 GiB for 8192 tokens.
  const shaped = card({ supportsTensor: true, heads: 8, kvHeads: 8, headSize: 205, contextLength: 8192 })
  const why = (result: PlanResult): string => result.ok ? result.plan.why : result.message
  const half = planned([node('a', 8, gpus(3.1))])
  t.match(half, { plan: { ranks: [{ memories: [
    { memory: 'vram', layers: 6, neededBytes: 3 * GIB + MASK },
    { memory: 'ram', layers: 14, neededBytes: 7 * GIB }
  ] }] } })
  t.match(why(half), /on cuda; 6 of 20 layers on the GPU, the others on the CPU: slower; /)
  const spilt = planned([node('a', 8, gpus(10.9))], { card: shaped })
  t.match(why(spilt),
    /; 19 of 20 layers on the GPU \(all with a context of 4096\), the others on the CPU: slower; /)
  t.match(why(planned([node('a', 16, gpus(0.1))])),
    /on cpu; 0 of 20 layers on the GPU, the others on the CPU/)
  for (const whole of [planned([node('a', 8, gpus(11))]), planned([node('a', 16)])]) {
    t.notMatch(why(whole), /layers/)
    t.notMatch(whole, { plan: { ranks: [{ memories: [] }] } })
  }
  const short = planned([node('a', 3, gpus(5.1))], { contextLength: 8192 })
  t.match(why(short), 'a: 10 layers on the GPU need 5.02 GiB, there is 5.10 GiB, and ' +
  '10 layers on the CPU need 5.00 GiB, there is 3.00 GiB')
  t.match(short, { details: { nodes: [{ memories: [{ memory: 'vram' }, { memory: 'ram' }] }] } })
})

t.test('a smaller context is offered first', async (t) => {
  const shaped = card({ supportsTensor: true, heads: 8, kvHeads: 8, headSize: 820, contextLength: 32_768 })
  const result = planned([node('a', 13.5, gpus(0.1))], { card: shaped, contextLength: 32_768 })
  t.match(result, { reason: 'insufficient_memory', details: { suggestions: [
    { kind: 'context_length', contextLength: 4096, text: 'set context_length to 4096' }
  ] } })
})

t.test('what is short is that of its devices', async (t) => {
  const result = planned([node('a', 0.1, gpus(3.1, 2.1))])
  t.match(result,
    { reason: 'insufficient_memory', details: { nodes: [{ nodeId: 'a', shortBytes: Number }] } })
})
