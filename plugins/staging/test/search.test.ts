import t from 'tap'
import { gguf, llama } from './cards-kit.js'
import { startHub, type FakeHub } from './hub-kit.js'
import { call, reasonOf, scratch, startNode } from './manager-kit.js'
import { nodeOf, sendError, sendJson } from './verb-kit.js'

const GGUF = gguf(llama)
const bytes = (size: number): Buffer => Buffer.alloc(size, 1)

async function hubOf (t: Parameters<typeof scratch>[0]): Promise<FakeHub> {
  const hub = await startHub({ models: {
    'acme/tiny-gguf': { files: { 'm.gguf': GGUF } },
    'acme/tiny-vectors': { files: { 'model.onnx': bytes(40_000), GATED: 'yes' } },
    'acme/tiny-onnx': { files: { 'model.onnx': bytes(50_000) } },
    'acme/tiny-both': { files: { 'model.onnx': bytes(10), 'm.gguf': bytes(10) } },
    'acme/tiny': { files: { 'm.safetensors': bytes(90_000) } },
    'acme/other': { files: { 'm.gguf': bytes(5) } }
  } })
  t.teardown(async () => { await hub.close() })
  return hub
}

t.test('a search of the hub: what runs here first, then by downloads', async (t) => {
  const hub = await hubOf(t)
  const rig = await startNode(t, { hub, staging: scratch(t), store: scratch(t) })
  const search = async (query: string): ReturnType<typeof call> =>
    await call(rig, 'GET', `/store/search?${query}`)
  const { status, body } = await search('query=Tiny')
  t.equal(status, 200)
  t.match(body, { hub: hub.url, query: 'Tiny' })
  const models = body['models'] as Record<string, unknown>[]
  t.same(models.map(({ modelId, engine }) => [modelId, engine]), [
    ['acme/tiny-vectors', 'onnx'], ['acme/tiny-gguf', 'gguf'], ['acme/tiny-both', 'gguf'],
    ['acme/tiny', null], ['acme/tiny-onnx', null]
  ], 'a language model in ONNX does not run')
  t.match(models[0], {
    task: 'feature-extraction', downloads: 40_003, likes: Number, gated: true, here: false,
    updatedAt: '2026-01-02T03:04:05.000Z'
  })
  t.match((await search('query=other&limit=1')).body['models'], [{ modelId: 'acme/other', gated: false }])
  t.same((await search('query=nothing%20like%20it')).body['models'], [])
  for (const bad of ['', 'query=', 'query=%20', 'query=x&limit=0', 'query=x&limit=ten', 'query=x&sort=id']) {
    t.match(await search(bad), { status: 400, body: { error: { reason: 'invalid_request' } } }, bad)
  }
})

t.test('a search says which model the cluster has', async (t) => {
  const hub = await hubOf(t)
  const rig = await startNode(t, { hub, staging: scratch(t), store: scratch(t) })
  const status = async (): Promise<unknown> =>
    (await call(rig, 'GET', '/store/models/acme/tiny-gguf/download/status')).body['status']
  await call(rig, 'POST', '/store/models/acme/tiny-gguf/download', {})
  while (await status() !== 'complete') await new Promise((resolve) => { setImmediate(resolve) })
  const { body } = await call(rig, 'GET', '/store/search?query=tiny-g')
  t.match(body['models'], [{ modelId: 'acme/tiny-gguf', here: true }])
})

t.test('what goes wrong with a search', async (t) => {
  const hub = await hubOf(t)
  const rig = await startNode(t, { hub, staging: scratch(t) })
  const search = async (): ReturnType<typeof call> => await call(rig, 'GET', '/store/search?query=x')
  hub.faults = { status: 429, retryAfter: '0' }
  t.match(await search(), { status: 503, body: { error: { reason: 'hub_unavailable' } } })
  hub.faults = { status: 404 }
  t.match(await search(), { status: 503, body: { error: { message: /does not support search/ } } })
  hub.faults = { status: 403, errorCode: 'GatedRepo' }
  t.equal(reasonOf(await search()), 'hub_gated')
  hub.faults = { listBody: '{"no": "list"}' }
  t.match(await search(), { status: 503, body: { error: { message: /list of models cannot be used/ } } })
  hub.faults = { listBody: 'not JSON' }
  t.match(await search(), { status: 503, body: { error: { message: /list of models cannot be used/ } } })
  const hostile = [
    { id: '../../x', downloads: 1 }, { id: 7 },
    { id: 'a/b', downloads: 'many', pipeline_tag: '<b>', gated: 'no' }
  ]
  hub.faults = { listBody: JSON.stringify(hostile) }
  t.same((await search()).body['models'], [{
    modelId: 'a/b', engine: 'gguf', task: null, downloads: null, likes: null, updatedAt: null, gated: false,
    here: false
  }])
  const offline = await startNode(t, { staging: scratch(t) })
  t.equal(reasonOf(await call(offline, 'GET', '/store/search?query=x')), 'hub_disabled')
})

t.test('svc search', async (t) => {
  const one = {
    modelId: 'acme/a', engine: 'gguf', task: 'text-generation', downloads: 12, likes: 1, gated: false,
    updatedAt: '2026-01-02T03:04:05.000Z', here: true
  }
  const answer = { hub: 'https://hub', query: 'a b', models: [
    one, { ...one, modelId: 'acme/b', here: false, gated: true },
    { ...one, modelId: 'acme/c', engine: null, here: false, downloads: null, task: null, updatedAt: null }
  ] }
  const node = await nodeOf(t, { 'GET /store/search': (response) => { sendJson(response, answer) } })
  const ran = await node.run(['search', 'a', 'b', '--limit', '7'])
  t.match(node.asked[0], { url: /query=a\+b&limit=7/ })
  t.match(ran, { status: 0, err: 'next: ./svc pull acme/b\n' })
  t.match(ran.out, /acme\/a +GGUF +text-generation +12 +2026-01-02 +here\n/)
  t.match(ran.out, /acme\/b .* requires accepting its terms\n/)
  t.match(ran.out, /acme\/c +- +- +- +- +unsupported format\n/)
  t.same(JSON.parse((await node.run(['search', 'a', 'b', '--json'])).out), answer)
  t.equal((await node.run(['search', ' '])).status, 2)
  const none = await nodeOf(t, {
    'GET /store/search': (response) => { sendJson(response, { ...answer, models: [] }) }
  })
  t.match(await none.run(['search', 'x']), { status: 0, out: '', err: /no model with "x" in its name/ })
  const off = await nodeOf(t, {
    'GET /store/search': (response) => { sendError(response, 409, 'hub_disabled') }
  })
  t.match(await off.run(['search', 'x']), { status: 1, err: /hub_disabled/ })
})
