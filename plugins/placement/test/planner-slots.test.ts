/** How the number of slots follows from free memory, and how much memory the slots need. */
import t from 'tap'
import { cacheOf } from '../../runners/cards/memory-forecast.js'
import { plan } from '../planner/index.js'
import type { EngineTraits, NodeFacts, PlanRequest } from '../planner/types.js'
import { card, GIB, node, planned, refused, request, view } from './planner-kit.js'

const traits: EngineTraits = {
  multiNode: true, meta: 'LlamaRpc', tensor: true, unevenTensor: true, manyDevices: true, overhead: 1,
  fixedBytes: 0, backends: ['cuda', 'cpu'], slots: { cpu: 16, gpu: 64 }
}
/** A model that needs half a GiB for each context of 8192 tokens. */
const model = card({ nLayers: 16, kvHeads: 8, headSize: 128, supportsTensor: true, totalBytes: 4 * GIB })
const each = cacheOf(model, undefined).contextBytes
const onGpu = (gib: number): Partial<NodeFacts> =>
  ({ gpus: [{ total: 100 * GIB, used: (90 - gib) * GIB }], backends: { lm: ['cuda', 'cpu'] } })

const planOn = (nodes: NodeFacts[], more: Partial<PlanRequest> = {}) =>
  plan(request({ card: model, instanceMeta: 'LlamaRpc', ...more }), view(nodes, { engines: { lm: traits } }))

t.test('slots follow the free memory', async (t) => {
  const rows: [string, NodeFacts, Partial<PlanRequest>, number][] = [
    ['a quarter of what is left', node('a', 4 + each / GIB * 41.1), {}, 11],
    ['one, where there is no more', node('a', 4 + each / GIB * 1.1), {}, 1],
    ['no more than a CPU is good for', node('a', 400), {}, 16],
    ['more on a GPU', node('a', 1, onGpu(4 + each / GIB * 81.1)), {}, 21],
    ['and no more than that', node('a', 1, onGpu(89)), { contextLength: 512 }, 64],
    ['shorter contexts are more', node('a', 4 + each / GIB * 11.1), { contextLength: 2048 }, 11],
    ['as many as were asked for', node('a', 4 + each / GIB * 41.1), { slots: 30 }, 30],
    ['a small cache may have all of it', node('a', 4 + each / GIB * 1.1), { contextLength: 1024 }, 8]
  ]
  for (const [what, on, more, slots] of rows) {
    const { slots: found, ranks, why } = planned(planOn([on], more))
    t.equal(found, slots, what)
    const { cacheBytes, neededBytes, usableBytes } = ranks[0]!
    t.equal(cacheBytes, cacheOf(model, more.contextLength).contextBytes * slots, 'they are counted')
    t.ok(neededBytes < usableBytes)
    const context = more.contextLength ?? 8192
    t.match(why, new RegExp(`; ${slots} slots? x ${context} tokens x 64.00 KiB = \\d+\\.\\d\\d GiB`))
  }
})

t.test('the context follows the free memory, if none was asked for', async (t) => {
  const long = { ...model, contextLength: 131_072 }
  const rows: [string, number, Partial<PlanRequest>, number, number][] = [
    ['the usual one, with more slots first', 41.1, {}, 8192, 11],
    ['twice as long, where 8 slots are left', 61.1, {}, 16_384, 8],
    ['the longest that is chosen', 125.1, {}, 32_768, 8],
    ['and no longer', 700, {}, 32_768, 16],
    ['for fewer slots with less memory', 15.1, { slots: 1 }, 32_768, 1],
    ['half, where the usual one has no room', 0.6, {}, 4096, 1],
    ['a quarter, since equal is not enough', 0.5, {}, 2048, 1],
    ['smaller for more slots', 5, { slots: 16 }, 2048, 16],
    ['as asked for', 700, { contextLength: 8192 }, 8192, 16],
    ['whatever memory is free', 16.1, { contextLength: 131_072 }, 131_072, 1],
    ['all of a model that has fewer', 700, { card: { ...long, contextLength: 10_000 } }, 10_000, 16],
    ['what is embedded has the usual one', 700, { card: { ...long, tasks: ['embeddings'] } }, 8192, 16],
    ['as has what is ranked, in one slot', 700, { card: { ...long, tasks: ['rerank'] } }, 8192, 1],
    ['as has what is forced', 0, { force: true }, 8192, 1]
  ]
  for (const [what, free, more, context, slots] of rows) {
    const on = node('a', 4 + free * each / GIB)
    const made = planned(planOn([on], { card: long, ...more }))
    t.match(made, { contextLength: context, slots }, what)
    t.match(made.why, new RegExp(`; ${slots} slots? x ${context} tokens x 64\\.00 KiB = `))
  }
  const none = refused(planOn([node('a', 4 + each / 5 / GIB)], { card: long }))
  t.match(none.message, /0\.13 GiB .* with a context of 2048 tokens\. .* context_length to 1024/)
  const exact = refused(planOn([node('a', 4.3)], { card: long, contextLength: 8192 }))
  t.match(exact.message, /needs 4\.50 GiB .*, has 4\.30 GiB\. Counted with a context of 8192 tokens\./)
  const nodes = ['a', 'b'].map((name) => node(name, 2.6))
  t.match(planned(planOn(nodes, { card: long })), { contextLength: 8192, ranks: [{}, {}] }, 'more nodes')
})

t.test('a refusal offers fewer slots than the requested ones', async (t) => {
  const on = node('a', 4 + 5.1 * each / GIB)
  t.match(refused(planOn([on], { slots: 16, contextLength: 8192 })).details.suggestions, [
    { kind: 'context_length', contextLength: 2048 }, { kind: 'slots', slots: 4, text: 'set slots to 4' }
  ])
})

t.test('over nodes each has its part of every slot', async (t) => {
  const nodes = ['a', 'b'].map((name) => node(name, 2 + each / GIB * 20.6))
  const { slots, ranks } = planned(planOn(nodes, { minNodes: 2 }))
  t.equal(slots, 11)
  t.same(ranks.map(({ cacheBytes }) => cacheBytes), [each * 5.5, each * 5.5])
})

t.test('more than there is memory for is refused with the sums', async (t) => {
  t.match(refused(planOn([node('a', 10)], { slots: 20, contextLength: 8192 })),
    { reason: 'insufficient_memory', details: { nodes: [{ cacheBytes: each * 20 }] } })
  t.equal(planned(planOn([node('a', 10)], { slots: 20, force: true })).slots, 20)
})

t.test('a model that ranks has one, as its driver gives it', async (t) => {
  const ranker = { ...model, tasks: ['rerank'] }
  const { slots, ranks, why } = planned(planOn([node('a', 400)], { card: ranker }))
  t.equal(slots, 1)
  t.equal(ranks[0]!.cacheBytes, each)
  t.match(why, /; 1 slot x 8192 /)
  t.equal(cacheOf(ranker, undefined, 7).contexts, 1, 'whatever an instance says')
})

t.test('an engine without slots has none', async (t) => {
  const { slots } = planned(plan(request(), view([node('a', 40)])))
  t.equal(slots, undefined)
})
