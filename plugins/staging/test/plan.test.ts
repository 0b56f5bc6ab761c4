import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { ModelsService } from '../service.js'
import { gguf, llama } from './cards-kit.js'
import { weightsIn } from '../hub/select-weights.js'
import { startHub, type FakeHub, type HubModel } from './hub-kit.js'
import { call, reasonOf, scratch, startNode } from './manager-kit.js'

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

t.test('a plan says which weights fit into memory, as whoever places models says', async (t) => {
  const larger = Buffer.concat([GGUF, Buffer.alloc(9)])
  const files = { 'm-Q4_K_M.gguf': GGUF, 'm-Q8_0.gguf': larger, LICENSE: 'free' }
  const hub = await hubOf(t, { 'acme/llama': { files } })
  const rig = await startNode(t, { hub, staging: scratch(t) })
  const plan = async (query = ''): Promise<Record<string, unknown>> =>
    (await call(rig, 'GET', `/store/models/acme/llama/download/plan${query}`)).body
  t.match(await plan(), { memory: null, variants: [{ fits: null }, { fits: null }] })
  const asked: unknown[] = []
  const end = rig.service(ModelsService).memory((format, totalBytes) => {
    asked.push([format, totalBytes])
    const problem = totalBytes > GGUF.length + 4 ? 'it is too large' : null
    const nodes = problem === null ? [{ name: 'attic', neededBytes: 1, usableBytes: 2 }] : []
    return { neededBytes: totalBytes, nodes, problem, engineMissing: null }
  })
  t.match(await plan('?variant=Q8_0'), {
    memory: { neededBytes: larger.length + 4, problem: 'it is too large', nodes: [] },
    variants: [{ name: 'Q4_K_M', fits: true }, { name: 'Q8_0', fits: false }]
  })
  t.match(await plan(), { memory: { problem: null, nodes: [{ name: 'attic' }] } })
  t.same(asked[0], ['gguf', GGUF.length + 4], 'with the files beside the weights')
  t.match(await plan('?allow=m-Q8_0.gguf'), { files: 1, variant: 'Q8_0' }, 'patterns count')
  end()
  t.match(await plan(), { memory: null })
  t.equal((await call(rig, 'GET', '/store/models/acme/llama/download/plan?source=file:///etc')).status, 400)
  t.equal(hub.sent(), 0)
})

t.test('a plan of a folder or a file of this machine', async (t) => {
  const folder = scratch(t)
  for (const name of ['m-Q8_0.gguf', 'other.gguf']) writeFileSync(join(folder, name), GGUF)
  const [staging, store] = [scratch(t), scratch(t)]
  const rig = await startNode(t, { staging, store })
  const plan = async (path: string): ReturnType<typeof call> => await call(rig, 'GET',
    `/store/models/acme/llama/download/plan?source=${encodeURIComponent(pathToFileURL(path).href)}`)
  t.match(await plan(join(folder, 'm-Q8_0.gguf')), { status: 200, body: {
    hub: folder, files: 1, totalBytes: GGUF.length, variant: 'Q8_0', engine: 'gguf', disk: { node: 'test' }
  } })
  t.match(await plan(folder), { status: 400, body: { error: {
    reason: 'import_refused', message: /has 2 models: m-Q8_0\.gguf \(1 MiB\), other\.gguf/ } } })
  writeFileSync(join(folder, 'a b.json'), '')
  t.equal(reasonOf(await plan(folder)), 'import_refused', 'a name that no model may have')
  t.same(readdirSync(store), ['.incoming', '.trash'])
})

t.test('a plan says why the disk has no room', async (t) => {
  const hub = await hubOf(t, { 'acme/llama': { files: { 'm.gguf': GGUF } } })
  const rig = await startNode(t, { hub, staging: scratch(t), store: scratch(t), headroomBytes: 2 ** 60 })
  const { body } = await call(rig, 'GET', '/store/models/acme/llama/download/plan')
  t.match(body, { disk: { roomBytes: 0, problem: /more do not fit/ } })
})
