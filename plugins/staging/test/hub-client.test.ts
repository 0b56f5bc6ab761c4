import { randomBytes } from 'node:crypto'
import { createServer, type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { systemClock, type Clock } from '../../../kernel/index.js'
import { createHubClient, type HubClient } from '../hub/client.js'
import { HubError, type HubClientOptions, type HubLimits, type HubSelection } from '../hub/types.js'
import { startHub, type FakeHub, type HubOptions } from './hub-kit.js'

const WEIGHTS = randomBytes(300_000)
const CONFIG = '{"model_type":"x"}'
const MODEL = {
  files: { 'config.json': CONFIG, 'onnx/model.onnx': WEIGHTS, 'README.md': '# hello' },
  licence: 'apache-2.0',
  languages: ['en', 'de']
}
const ID = 'acme/small'
const FAST: Partial<HubLimits> = { connectMs: 1000, headersMs: 400, idleMs: 400, retries: 0 }

interface Rig { hub: FakeHub, client: HubClient, make: (options?: Partial<HubClientOptions>) => HubClient }

async function rig (
  t: Test, options: Partial<HubOptions> = {}, client: Partial<HubClientOptions> = {}
): Promise<Rig> {
  const hub = await startHub({ models: { [ID]: MODEL }, ...options })
  const clients: HubClient[] = []
  const make = (more: Partial<HubClientOptions> = {}): HubClient => {
    const made = createHubClient({
      url: hub.url, redirectHosts: [hub.cdnHost], clock: systemClock, random: () => 0, limits: FAST,
      ...client, ...more
    })
    clients.push(made)
    return made
  }
  t.teardown(async () => {
    await Promise.all(clients.map((c) => c.close()))
    await hub.close()
  })
  return { hub, client: make(), make }
}

async function bytes (
  client: HubClient, selection: HubSelection, path: string, start = 0, signal?: AbortSignal
): Promise<Buffer> {
  const file = selection.files.find((f) => f.path === path)!
  const stream = await client.open(selection, file, { start, ...signal === undefined ? {} : { signal } })
  const parts: Uint8Array[] = []
  for await (const part of stream) parts.push(part)
  return Buffer.concat(parts)
}

async function failure (t: Test, promise: Promise<unknown>, reason: string): Promise<HubError> {
  const error = await promise.then(() => undefined, (e: unknown) => e)
  if (!(error instanceof HubError)) throw new Error(`no HubError but ${String(error)}`, { cause: error })
  t.equal(error.reason, reason, `${reason}: ${error.message}`)
  return error
}

t.test('a model is looked up, chosen from and read', async (t) => {
  const { hub, client } = await rig(t)
  const selection = await client.resolve(ID)
  t.equal(selection.commit, hub.commit(ID))
  t.match(selection, { modelId: ID, licence: 'apache-2.0', languages: ['en', 'de'] })
  t.same(selection.files.map((f) => f.path), ['config.json', 'onnx/model.onnx'])
  t.equal(selection.totalBytes, CONFIG.length + WEIGHTS.length)
  t.match(selection.files,
    [{ sha256: null, gitSha1: /^[0-9a-f]{40}$/ }, { sha256: /^[0-9a-f]{64}$/, gitSha1: null }])
  t.same(JSON.parse(JSON.stringify(selection)), selection, 'survives JSON')
  t.equal(String(await bytes(client, selection, 'config.json')), CONFIG)
  t.ok((await bytes(client, selection, 'onnx/model.onnx')).equals(WEIGHTS))
  t.ok((await bytes(client, selection, 'onnx/model.onnx', 1000)).equals(WEIGHTS.subarray(1000)))
  t.match(hub.fetches('onnx/model.onnx').map((r) => [r.origin, r.status, r.headers.range]),
    [['cdn', 200, undefined], ['cdn', 206, 'bytes=1000-']])
})

t.test('the commit stays the same while upstream goes on', async (t) => {
  const { hub, client } = await rig(t)
  const selection = await client.resolve(ID)
  const next = hub.setModel(ID, { files: { ...MODEL.files, 'onnx/model.onnx': 'other' } })
  t.ok((await bytes(client, selection, 'onnx/model.onnx')).equals(WEIGHTS))
  t.equal((await client.resolve(ID)).commit, next)
  t.equal((await client.resolve(ID, { revision: selection.commit })).totalBytes, selection.totalBytes)
})

t.test('the token goes to the hub and nowhere else', async (t) => {
  const { hub, client, make } = await rig(t, { token: 'hf_secret' }, { token: 'hf_secret' })
  const selection = await client.resolve(ID)
  await bytes(client, selection, 'onnx/model.onnx')
  t.same(hub.requests.map((r) => [r.origin, r.headers.authorization]),
    [...Array<unknown>(3).fill(['hub', 'Bearer hf_secret']), ['cdn', undefined]])
  hub.faults = { redirect: `${hub.cdnUrl}/acme/small/resolve/main/config.json` }
  hub.reset()
  await failure(t, bytes(client, selection, 'onnx/model.onnx'), 'changed')
  t.equal(hub.requests.at(-1)?.headers.authorization, undefined)
  const anonymous = createHubClient({
    url: hub.url, redirectHosts: [], clock: systemClock, random: () => 0, limits: FAST
  })
  t.teardown(() => anonymous.close())
  const refused = await failure(t, anonymous.resolve(ID), 'not_found')
  t.match(refused.message, /SVC_HUB_TOKEN/)
  const wrong = await failure(t, make({ token: 'hf_wrong' }).resolve(ID), 'not_found')
  t.notMatch(wrong.message, /hf_wrong/)
})

t.test('a renamed model is found under its old name', async (t) => {
  const { client } = await rig(t, { renames: { 'acme/old': ID } })
  const selection = await client.resolve('acme/old')
  t.equal(selection.modelId, 'acme/old')
  t.ok((await bytes(client, selection, 'onnx/model.onnx')).equals(WEIGHTS))
})

t.test('what the hub refuses', async (t) => {
  const { hub, client } = await rig(t)
  await failure(t, client.resolve('acme/none'), 'not_found')
  t.match((await failure(t, client.resolve(ID, { revision: 'v9' }), 'not_found')).message, /does not exist/)
  await failure(t, client.resolve('../../etc'), 'bad_request')
  for (const revision of ['', 'a b', '../main', 'x'.repeat(201), 'a\u0000']) {
    await failure(t, client.resolve(ID, { revision }), 'bad_request')
  }
  t.equal(hub.requests.length, 2, 'what is malformed is not asked')
  hub.faults = { gated: true }
  t.match((await failure(t, client.resolve(ID), 'gated')).message, /terms.*SVC_HUB_TOKEN/)
  hub.faults = { status: 404, errorCode: 'EntryNotFound' }
  await failure(t, client.resolve(ID), 'not_found')
  hub.faults = { status: 400 }
  await failure(t, client.resolve(ID), 'bad_answer')
  hub.faults = { status: 503 }
  await failure(t, client.resolve(ID), 'unavailable')
  hub.faults = { status: 429, retryAfter: '7' }
  t.equal((await failure(t, client.resolve(ID), 'rate_limited')).retryAfterMs, 7000)
  hub.faults = { status: 429, retryAfter: new Date(Date.now() + 60_000).toUTCString() }
  const { retryAfterMs } = await failure(t, client.resolve(ID), 'rate_limited')
  t.ok(retryAfterMs! > 50_000 && retryAfterMs! <= 60_000, `${retryAfterMs}`)
})

t.test('a lookup that fails for a moment is tried again', async (t) => {
  const waits: number[] = []
  const clock: Clock = {
    ...systemClock,
    after (ms, fn) {
      waits.push(ms)
      return systemClock.after(1, fn)
    }
  }
  const { hub, client } = await rig(t, {}, { clock, limits: { ...FAST, retries: 2 } })
  hub.faults = { status: 429, retryAfter: '9', times: 1 }
  t.equal((await client.resolve(ID)).commit, hub.commit(ID))
  t.same(waits, [9000], 'waits as long as it is asked to')
  hub.faults = { status: 500 }
  hub.reset()
  await failure(t, client.resolve(ID), 'unavailable')
  t.equal(hub.requests.length, 3)
  const stop = new AbortController()
  const slow: Clock = {
    ...systemClock,
    after () {
      setImmediate(() => { stop.abort(new Error('enough')) })
      return () => undefined
    }
  }
  const waiting = createHubClient({ url: hub.url, redirectHosts: [], clock: slow, random: () => 0 })
  t.teardown(() => waiting.close())
  await t.rejects(waiting.resolve(ID, { signal: stop.signal }), { message: 'enough' })
})

t.test('a body that is not what was selected', async (t) => {
  const { hub, client } = await rig(t)
  const selection = await client.resolve(ID)
  const path = 'onnx/model.onnx'
  const cases: [FakeHub['faults'], string, number?][] = [
    [{ encoding: 'gzip' }, 'encoding'],
    [{ lengthFactor: 10 }, 'too_long'],
    [{ endless: true }, 'too_long'],
    [{ lengthFactor: 0.5 }, 'changed'],
    [{ ignoreRange: true }, 'no_range', 10],
    [{ contentRange: 'bytes 0-9/10' }, 'bad_answer', 10],
    [{ contentRange: `bytes 10-${WEIGHTS.length - 1}/*` }, 'bad_answer', 10],
    [{ linkedSize: '1' }, 'changed'],
    [{ linkedEtag: `"${'0'.repeat(64)}"` }, 'changed'],
    [{ cutAfter: 1000 }, 'unavailable'],
    [{ stallAfter: 1000 }, 'stalled'],
    [{ mute: true }, 'stalled'],
    [{ status: 403, only: (r) => r.origin === 'cdn' }, 'unavailable'],
    [{ status: 416 }, 'no_range', 10],
    [{ status: 204 }, 'bad_answer']
  ]
  for (const [faults, reason, start] of cases) {
    hub.faults = faults
    hub.reset()
    await failure(t, bytes(client, selection, path, start), reason)
    t.ok(hub.sent() < 16_000_000, `${JSON.stringify(faults)}: the connection ends (${hub.sent()} bytes sent)`)
  }
  hub.faults = { linkedEtag: `W/"${selection.files[1]!.sha256!}"` }
  t.ok((await bytes(client, selection, path)).equals(WEIGHTS), 'a weak etag is compared as well')
  const other = { ...selection, commit: hub.setModel(ID, { files: { 'config.json': '{"model_type":"y"}' } }) }
  hub.faults = {}
  await failure(t, bytes(client, other, 'config.json'), 'changed')
})

t.test('a signal ends what is under way', async (t) => {
  const { hub, client } = await rig(t, {}, { limits: { ...FAST, headersMs: 60_000, idleMs: 60_000 } })
  const selection = await client.resolve(ID)
  for (const faults of [{ mute: true }, { stallAfter: 1000 }]) {
    hub.faults = faults
    hub.reset()
    const stop = new AbortController()
    const reading = bytes(client, selection, 'onnx/model.onnx', 0, stop.signal)
    const asked = setInterval(() => { if (hub.requests.length > 0) stop.abort(new Error('stop it')) }, 20)
    await t.rejects(reading, { message: 'stop it' })
    clearInterval(asked)
  }
})

t.test('no server, or one that speaks no HTTP', async (t) => {
  const { make } = await rig(t)
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
      .end('SSH-2.0-x\r\n', () => { socket.destroy() })
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  const { port } = server.address() as AddressInfo
  await failure(t, make({ url: `http://127.0.0.1:${port}` }).resolve(ID), 'bad_answer')
  await new Promise((resolve) => { server.close(resolve) })
  await failure(t, make({ url: `http://127.0.0.1:${port}` }).resolve(ID), 'unavailable')
  const lookup = async (): Promise<never> => { throw Object.assign(new Error('no'), { code: 'ENOTFOUND' }) }
  const error = await failure(t, make({ url: 'http://hub.example', lookup }).resolve(ID), 'unavailable')
  t.match(error.message, /ENOTFOUND/)
})

t.test('answers of the API that are none', async (t) => {
  const { hub, client, make } = await rig(t)
  const file = { type: 'file', path: 'config.json', size: 3, oid: 'b'.repeat(40) }
  for (const infoBody of ['no json', '[]', '{}', 'null', JSON.stringify({ sha: 'main' }),
    JSON.stringify({ sha: 7 })]) {
    hub.faults = { infoBody }
    await failure(t, client.resolve(ID), 'bad_answer')
  }
  const bad = [
    'no json', '{}', 'null', '7', ...[
      [7], [null], [{ size: 1 }], [{ ...file, size: null }], [{ ...file, size: -1 }],
      [{ ...file, size: 1.5 }],
      [{ ...file, oid: null }], [{ ...file, size: 0 }],
      [{ type: 'file', path: 'm.onnx', size: 0, lfs: { oid: 'c'.repeat(64), size: 0 } }],
      [{ ...file, path: '/etc/config.json' }], [{ ...file, path: 'a\\config.json' }],
      [{ ...file, path: 'x y.json' }], [file, { ...file, path: 'Config.json' }],
      [{ ...file, path: 'a/\u0000.json' }],
      Array.from({ length: 20_000 }, (_, i) => ({ ...file, path: `f${i}.json` })),
      Array.from({ length: 100_001 }, () => ({ ...file, path: 'x.png' })),
      [{ ...file, size: Number.MAX_SAFE_INTEGER }, { ...file, path: 'b.json', size: 10 }]
    ].map((entries) => JSON.stringify(entries))
  ]
  for (const apiBody of bad) {
    hub.faults = { apiBody }
    await failure(t, client.resolve(ID), 'bad_answer')
  }
  hub.faults = { apiBody: JSON.stringify([file, { ...file, path: '../../x y.png' }]) }
  t.equal((await client.resolve(ID)).files.length, 1, 'a name nobody wants does no harm')
  hub.faults = { apiBody: JSON.stringify([file, { ...file, path: '../../up.json' }]) }
  await failure(t, client.resolve(ID, { allow: ['**'] }), 'bad_answer')
  hub.faults = { apiBody: ' '.repeat(10_000) }
  const strict = make({ limits: { ...FAST, metadataBytes: 5000 } })
  t.match((await failure(t, strict.resolve(ID), 'too_long')).message, /more than 5000 bytes/)
})

t.test('a file that the hub keeps in Xet is fetched as any other', async (t) => {
  const { hub, client } = await rig(t, { xet: true })
  const selection = await client.resolve(ID)
  t.ok((await bytes(client, selection, 'onnx/model.onnx', 70_001)).equals(WEIGHTS.subarray(70_001)))
  t.match(hub.fetches('onnx/model.onnx').map((r) => [r.origin, r.status]), [['cdn', 206]])
})
