import t from 'tap'
import { gguf, llama } from './cards-kit.js'
import { weightsIn } from '../hub/select-weights.js'
import { startHub } from './hub-kit.js'
import { call, reasonOf, scratch, startNode } from './manager-kit.js'
import type { FakeHub, HubModel } from './hub-kit.js'

const GGUF = gguf(llama)

async function hubOf (t: Parameters<typeof scratch>[0], models: Record<string, HubModel>): Promise<FakeHub> {
  const hub = await startHub({ models })
  t.teardown(async () => { await hub.close() })
  return hub
}

t.test('the weights of a model, smallest first', (t) => {
  const names = (files: Record<string, number>): unknown =>
    weightsIn(Object.entries(files).map(([path, size]) => ({ path, size })))
      .map(({ name, bytes, engine }) => [name, bytes, engine])
  t.same(names({
    'm-Q8_0.gguf': 8, 'm-Q4_K_M.gguf': 4, 'm.IQ2_XS.gguf': 2, 'mmproj-f16.gguf': 1, 'm.gguf': 9
  }), [['IQ2_XS', 2, 'gguf'], ['Q4_K_M', 4, 'gguf'], ['Q8_0', 8, 'gguf'], ['m', 9, 'gguf']])
  t.same(names({ 'BF16/m-BF16-00001-of-00002.gguf': 5, 'BF16/m-BF16-00002-of-00002.gguf': 6,
    'm-UD-Q2_K_XL.gguf': 3, 'm-Q6_K-00001-of-00002.gguf': 1 }),
  [['UD-Q2_K_XL', 3, 'gguf'], ['BF16', 11, 'gguf']], 'all parts, and none without one')
  t.same(names({ 'onnx/model.onnx': 1, 'onnx/model.onnx_data': 9, 'onnx/model_q4.onnx': 3, 'a.json': 7 }),
    [['q4', 3, 'onnx'], ['fp32', 10, 'onnx']])
  t.same(names({ 'model.safetensors': 1 }), [])
  t.end()
})

t.test('a plan says what a download would fetch, and fetches nothing', async (t) => {
  const larger = Buffer.concat([GGUF, Buffer.alloc(9)])
  const files = { 'm-Q4_K_M.gguf': GGUF, 'm-Q8_0.gguf': larger, LICENSE: 'free' }
  const hub = await hubOf(t, { 'acme/llama': { files }, 'acme/torch': { files: { 'm.safetensors': 'x' } } })
  const rig = await startNode(t, { hub, staging: scratch(t) })
  const plan = async (id: string, query = ''): ReturnType<typeof call> =>
    await call(rig, 'GET', `/store/models/${id}/download/plan${query}`)
  const { status, body } = await plan('acme/llama')
  t.equal(status, 200, 'also where there is no store yet')
  t.match(body, {
    modelId: 'acme/llama', hub: hub.url, commit: hub.commit('acme/llama'), files: 2,
    totalBytes: GGUF.length + 4, variant: 'Q4_K_M', engine: 'gguf', weightsBytes: GGUF.length,
    variants: [{ name: 'Q4_K_M', bytes: GGUF.length }, { name: 'Q8_0', bytes: GGUF.length + 9 }],
    disk: { node: 'test', roomBytes: Number, problem: null }
  })
  t.match((await plan('acme/llama', '?variant=Q8_0')).body, { variant: 'Q8_0', weightsBytes: larger.length })
  t.match(await plan('acme/llama', '?variant=Q5_0'), { status: 404, body: { error: {
    reason: 'hub_not_found', message: /no GGUF variant "Q5_0"; it has m-Q4_K_M, m-Q8_0/ } } })
  t.match(await plan('acme/none'), { status: 404, body: { error: { reason: 'hub_not_found' } } })
  t.match(await plan('acme/torch'), { status: 409, body: { error: { reason: 'hub_unusable' } } })
  hub.faults = { gated: true }
  t.match(await plan('acme/llama'), { status: 403, body: { error: { reason: 'hub_gated' } } })
  hub.faults = { status: 429, retryAfter: '0' }
  t.match(await plan('acme/llama'), { status: 503, body: { error: { reason: 'hub_unavailable' } } })
  t.equal(hub.sent(), 0)
  const offline = await startNode(t, { staging: scratch(t) })
  t.equal(reasonOf(await call(offline, 'GET', '/store/models/acme/llama/download/plan')), 'hub_disabled')
})

t.test('a plan says why the disk has no room', async (t) => {
  const hub = await hubOf(t, { 'acme/llama': { files: { 'm.gguf': GGUF } } })
  const rig = await startNode(t, { hub, staging: scratch(t), store: scratch(t), headroomBytes: 2 ** 60 })
  const { body } = await call(rig, 'GET', '/store/models/acme/llama/download/plan')
  t.match(body, { disk: { roomBytes: 0, problem: /more do not fit/ } })
})
