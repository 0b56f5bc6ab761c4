import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import WebSocket from 'ws'
import { definePlugin } from '../index.js'
import { startPlugin } from '../testing/index.js'
import { systemClock } from '../api/clock.js'

const base = { name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.' } as const
const echoBody = {
  type: 'object',
  additionalProperties: false,
  required: ['n'],
  properties: { n: { type: 'integer', minimum: 0 }, s: { type: 'string' } }
} as const
const findQuery = {
  type: 'object',
  additionalProperties: false,
  properties: { limit: { type: 'integer', minimum: 1 }, tag: { type: 'array', items: { type: 'string' } } }
} as const
const probe = definePlugin({
  ...base,
  routes: {
    echo: { method: 'POST', url: '/echo', summary: 's', authority: 'invoke', body: echoBody },
    find: {
      method: 'GET',
      url: '/find/:id',
      summary: 's',
      authority: 'read',
      params: { type: 'object', properties: { id: { type: 'string', pattern: '^[a-z0-9]{1,600}$' } } },
      query: findQuery
    },
    remove: { method: 'DELETE', url: '/find/:id', summary: 's', authority: 'cluster:write' },
    any: { method: 'POST', url: '/any', summary: 's', authority: 'read', body: {} },
    plain: { method: 'POST', url: '/plain', summary: 's', authority: 'read' },
    card: { method: 'GET', url: '/models/:model_id/card', summary: 's', authority: 'read' }
  }
}, () => ({
  routes: {
    any: () => ({}),
    plain: () => ({}),
    card: () => ({}),
    echo: ({ body }) => body,
    find: ({ params, query }) => ({ params, query }),
    remove: () => ({})
  }
}))

const JSON_TYPE = { 'content-type': 'application/json' }

interface Row {
  title: string
  method?: string
  url: string
  headers?: Record<string, string>
  remoteAddress?: string
  payload?: unknown
  status: number
  reason?: string
  param?: string
}

const rows: Row[] = [
  { title: 'a good body', method: 'POST', url: '/echo', payload: { n: 1 }, status: 200 },
  { title: 'an unknown field', method: 'POST', url: '/echo', payload: { n: 1, x: 1 },
    status: 400, reason: 'invalid_request', param: 'x' },
  { title: 'a number as text is not coerced', method: 'POST', url: '/echo', payload: { n: '1' },
    status: 400, param: 'n' },
  { title: 'a missing field', method: 'POST', url: '/echo', payload: {}, status: 400, param: 'n' },
  { title: 'no body at all', method: 'POST', url: '/echo', status: 400, reason: 'invalid_request' },
  { title: 'an empty body', method: 'POST', url: '/echo', payload: '', headers: JSON_TYPE,
    status: 400, reason: 'invalid_request' },
  { title: 'nothing where nothing is wanted, called JSON', method: 'POST', url: '/plain', payload: '',
    headers: JSON_TYPE, status: 200 },
  { title: 'a method that is not offered, called JSON', method: 'DELETE', url: '/state', payload: '',
    headers: JSON_TYPE, status: 405, reason: 'method_not_allowed' },
  { title: 'the same without a type', method: 'DELETE', url: '/state', status: 405 },
  { title: 'broken JSON', method: 'POST', url: '/echo', payload: '{', headers: JSON_TYPE,
    status: 400, reason: 'invalid_request' },
  { title: '__proto__ in JSON', method: 'POST', url: '/echo', payload: '{"n":1,"__proto__":{}}',
    headers: JSON_TYPE, status: 400 },
  { title: 'text', method: 'POST', url: '/echo', payload: 'n=1', headers: { 'content-type': 'text/plain' },
    status: 415, reason: 'unsupported_media_type' },
  { title: 'a form', method: 'POST', url: '/echo', payload: 'n=1', status: 415,
    headers: { 'content-type': 'application/x-www-form-urlencoded' } },
  { title: 'another charset', method: 'POST', url: '/echo', payload: '{"n":1}', status: 415,
    headers: { 'content-type': 'application/json; charset=utf-16' } },
  { title: 'utf-8 by name', method: 'POST', url: '/echo', payload: '{"n":1}', status: 200,
    headers: { 'content-type': 'application/json; charset="UTF-8"' } },
  { title: 'a body over the limit', method: 'POST', url: '/echo',
    payload: { n: 1, s: 'x'.repeat(256 * 1024) }, status: 413, reason: 'payload_too_large' },
  { title: 'a key twice', method: 'POST', url: '/echo', payload: '{"s":"{\\"n\\":1}","n":1,"n" : 2}',
    headers: JSON_TYPE, status: 400, reason: 'invalid_request', param: 'n' },
  { title: 'a key twice, escaped and deep', method: 'POST', url: '/echo', headers: JSON_TYPE, status: 400,
    payload: '{"n":1,"x":[{"a":1},{"a\\\\":{"a":1},"b":2,"\\u0062":3}]}', param: 'b' },
  { title: 'one key in several objects', method: 'POST', url: '/any', headers: JSON_TYPE, status: 200,
    payload: '{"n":[{"n":1},{"n":{"n":[]}}],"s":"\\ud83d\\ude00 \\"n\\":"}' },
  { title: 'half of a surrogate pair', method: 'POST', url: '/any', payload: '{"a":["\\ud83d"]}',
    headers: JSON_TYPE, status: 400, param: 'a.0' },
  { title: 'too many lists', method: 'POST', url: '/any', headers: JSON_TYPE, status: 400,
    payload: `{"a":[${'[],'.repeat(32_768)}1]}`, param: 'body' },
  { title: 'half of one in a key', method: 'POST', url: '/any', payload: '{"a":{"\\uDE00":1}}',
    headers: JSON_TYPE, status: 400, param: 'a' },
  { title: 'bytes that are no UTF-8', method: 'POST', url: '/any', payload: Buffer.from([0x22, 0xff, 0x22]),
    headers: JSON_TYPE, status: 400, reason: 'invalid_request' },
  { title: 'too many levels', method: 'POST', url: '/any', headers: JSON_TYPE, status: 400,
    payload: '['.repeat(10_000) + ']'.repeat(10_000), reason: 'invalid_request' },
  { title: 'many levels', method: 'POST', url: '/any', headers: JSON_TYPE, status: 200,
    payload: `{"a":${'['.repeat(499)}${']'.repeat(499)}}` },
  { title: 'a path out of the models', url: '/models/..%2f/card', status: 400, param: 'model_id' },
  { title: 'an absolute path', url: '/models/%2Fetc%2Fx/card', status: 400, param: 'model_id' },
  { title: 'a back-slash', url: '/models/a%5Cb/card', status: 400, param: 'model_id' },
  { title: 'dots in a name', url: '/models/a../b..c/card', status: 200 },
  { title: 'a query as numbers and lists', url: '/find/a?limit=3&tag=x', status: 200 },
  { title: 'an unknown query parameter', url: '/find/a?limt=3', status: 400, param: 'limt' },
  { title: 'a query off its type', url: '/find/a?limit=x', status: 400, param: 'limit' },
  { title: 'a parameter off its pattern', url: '/find/..%2f..%2fetc', status: 400, param: 'id' },
  { title: 'a NUL in a parameter', url: '/find/a%00b', status: 400, param: 'id' },
  { title: 'a parameter too long', url: `/find/${'a'.repeat(600)}`, status: 414, reason: 'uri_too_long' },
  { title: 'no such route', url: '/nothing', status: 404, reason: 'not_found' },
  { title: 'another method', method: 'PUT', url: '/find/a', status: 405, reason: 'method_not_allowed' },
  { title: 'a bad escape', url: '/find/%E0%A4%A', status: 400, reason: 'invalid_request' },
  { title: 'another Host', url: '/state', headers: { host: 'evil.example' },
    status: 421, reason: 'misdirected' },
  { title: 'another Host on DELETE', method: 'DELETE', url: '/find/a', headers: { host: 'evil.example' },
    status: 421 },
  { title: 'another Host on an unknown route', url: '/nothing', headers: { host: 'evil.example' },
    status: 421 },
  { title: 'a foreign page', url: '/state', headers: { origin: 'https://evil.example' },
    status: 403, reason: 'foreign_origin' },
  { title: 'a foreign page without Origin', method: 'POST', url: '/echo', payload: { n: 1 }, status: 403,
    headers: { 'sec-fetch-site': 'cross-site' } },
  { title: 'a wrong token', url: '/state', headers: { authorization: 'Bearer svc_app_x' },
    status: 401, reason: 'unauthenticated' },
  { title: 'a wrong token as an API key', url: '/state', headers: { 'x-api-key': 'svc_app_x' },
    status: 401, reason: 'unauthenticated' },
  { title: 'a key of another service over loopback', url: '/state', headers: { authorization: 'Bearer none' },
    status: 200 },
  { title: 'a key of another service from elsewhere', url: '/state', headers: { 'x-api-key': 'sk-none' },
    remoteAddress: '192.0.2.1', status: 401, reason: 'unauthenticated' },
  { title: 'an unknown query on a route without query', url: '/node_id?x=1', status: 400, param: 'x' }
]

t.test('every refusal has the one error body', async (t) => {
  const rig = await startPlugin(t, probe)
  for (const { title, status, reason, param, ...request } of rows) {
    const answer = await rig.inject(request)
    t.equal(answer.statusCode, status, `${title}: ${answer.body.slice(0, 200)}`)
    if (status === 200) continue
    const body = answer.json() as { error: Record<string, unknown>, detail: string }
    t.match(body, {
      error: {
        message: String,
        type: String,
        code: status,
        reason: reason ?? String,
        retryable: Boolean,
        requestId: String,
        details: Object
      },
      detail: String
    }, title)
    if (param !== undefined) t.equal(body.error['param'], param, title)
    t.notMatch(answer.body, /node_modules|at .*\.[jt]s:\d/, 'no stack, no path')
  }
})

t.test('authorities: local callers get what access.local says', async (t) => {
  const rig = await startPlugin(t, probe, { allow: ['read'] })
  t.equal((await rig.inject({ url: '/find/a' })).statusCode, 200)
  const refused = await rig.inject({ method: 'POST', url: '/echo', payload: { n: 1 } })
  t.equal(refused.statusCode, 401)
  t.match(refused.json(), {
    error: { reason: 'unauthenticated', message: /svc token/, details: { authority: 'invoke' } }
  })
})

t.test('a route of a disabled plugin names the line that enables it', async (t) => {
  const off = definePlugin({
    ...base,
    name: 'sleeper',
    routes: { x: { method: 'GET', url: '/sleep/:id', also: ['/doze'], summary: 's', authority: 'read' } }
  }, () => ({ routes: { x: () => ({}) } }))
  const rig = await startPlugin(t, probe, { off: [off] })
  for (const url of ['/sleep/1', '/doze']) {
    const answer = await rig.inject({ url })
    t.equal(answer.statusCode, 404)
    t.match(answer.json(), { error: { reason: 'plugin_disabled', details: {
      plugin: 'sleeper', remedy: 'Enable it: `svc plugin enable sleeper`.'
    } } })
  }
})

t.test('a change of settings tells which plugins it switched', async (t) => {
  const put = async (allow: string[], set: object): Promise<{ status: number, kinds: string[] }> => {
    const rig = await startPlugin(t, probe, { allow })
    const { statusCode } = await rig.inject({ method: 'PUT', url: '/config', payload: { revision: '', set } })
    return { status: statusCode, kinds: rig.events.map((e) => e.kind) }
  }
  const manager = ['operator', 'plugin:manage']
  t.same(await put(['operator'], { 'api.port': 1 }), { status: 200, kinds: [] })
  t.same(await put(manager, { 'plugins.probe.enabled': false }), { status: 200, kinds: ['PluginDisabled'] })
  t.same(await put(manager, { '"plugins".probe.enabled': true }), { status: 200, kinds: [] }, 'it is on')
  t.equal((await put(['read'], { 'api.port': 1 })).status, 401)
})

t.test('whether a model answers is told to those who may read', async (t) => {
  const status = async (allow: string[], url: string): Promise<number> =>
    (await (await startPlugin(t, probe, { allow })).inject({ url })).statusCode
  t.equal(await status([], '/readyz'), 200)
  t.equal(await status([], '/readyz?model=x'), 401)
  t.equal(await status(['read'], '/readyz?model=x'), 503)
})

t.test('a switch of a plugin that is refused', async (t) => {
  const post = async (allow: string, name: string, payload: object): Promise<number> => {
    const rig = await startPlugin(t, probe, { allow: [allow] })
    return (await rig.inject({ method: 'POST', url: `/v1/plugins/${name}`, payload })).statusCode
  }
  t.equal(await post('plugin:manage', 'nobody', { enabled: false }), 404)
  t.equal(await post('plugin:manage', 'probe', { enabled: 'no' }), 400)
  t.equal(await post('plugin:read', 'probe', { enabled: false }), 401)
})

t.test('readyz lists its checks', async (t) => {
  let ok = false
  const rig = await startPlugin(t, definePlugin(base, (ctx) => {
    ctx.readiness('voice', () => ({ ok, detail: ok ? 'ready' : 'loading' }))
    ctx.readiness('silent', () => ({ ok: null, detail: '' }))
    return {}
  }))
  const before = await rig.inject({ url: '/readyz' })
  t.equal(before.statusCode, 503)
  t.ok(before.headers['retry-after'])
  t.match(before.json(), { error: { reason: 'not_ready', message: /voice: loading/ } })
  ok = true
  t.match((await rig.inject({ url: '/readyz' })).json(), {
    ready: true,
    checks: [{ name: 'master', ok: true }, { name: 'voice', ok: true }]
  })
})

t.test('over real sockets', async (t) => {
  const rig = await startPlugin(t, probe, {
    clock: systemClock, limits: { headersTimeoutMs: 300, requestTimeoutMs: 300 }
  })
  const url = new URL(await rig.listen())
  const raw = (text: string): Promise<string> => new Promise((resolve) => {
    let got = ''
    const socket = connect(Number(url.port), '127.0.0.1', () => { socket.write(text) })
    socket.on('data', (d) => { got += String(d) })
    socket.on('close', () => { resolve(got) })
    socket.on('error', () => {})
  })
  t.match(await raw('NONSENSE\r\n\r\n'), /^HTTP\/1.1 400 .*invalid_request/s)
  t.match(await raw(`GET / HTTP/1.1\r\nhost: ${url.host}\r\n${'x'.repeat(20_000)}: y\r\n\r\n`),
    /^HTTP\/1.1 431 .*header_too_large/s)
  const many = Array.from({ length: 2000 }, (_, i) => `x-${i}: ${'y'.repeat(16)}`).join('\r\n')
  t.match(await raw(`GET /node_id HTTP/1.1\r\nhost: ${url.host}\r\n${many}\r\n\r\n`), /^HTTP\/1.1 431/)
  t.match(await raw(`GET /${'x'.repeat(64 * 1024)} HTTP/1.1\r\nhost: ${url.host}\r\n\r\n`),
    /^HTTP\/1.1 4(14|31)/)
  const session = `ws://${url.host}/state/sync`
  t.equal(await refusal(new WebSocket(session, { headers: { host: 'evil.example' } })), 421)
  t.equal(await refusal(new WebSocket(session, { origin: 'https://evil.example' })), 403)
  t.comment('a plain GET on the socket\'s path is no upgrade')
  const plain = await new Promise<number>((resolve) => {
    httpRequest(new URL('/state/sync', url), (res) => {
      res.resume()
      resolve(res.statusCode!)
    }).end()
  })
  t.equal(plain, 404)
})

t.test('an upgrade on a plain route gets its answer, and the socket is closed', async (t) => {
  const rig = await startPlugin(t, probe, { clock: systemClock })
  const url = new URL(await rig.listen())
  const answer = await new Promise<string>((resolve) => {
    let got = ''
    const socket = connect(Number(url.port), '127.0.0.1', () => {
      const upgrade = 'connection: upgrade\r\nupgrade: websocket'
      socket.write(`GET /node_id HTTP/1.1\r\nhost: ${url.host}\r\n${upgrade}\r\n\r\n`)
    })
    socket.on('data', (d) => { got += String(d) })
    socket.on('close', () => { resolve(got) })
    socket.on('error', () => {})
  })
  t.match(answer, /^HTTP\/1.1 200 /)
})

t.test('an open session counts as a stream of its caller', async (t) => {
  const rig = await startPlugin(t, probe, { clock: systemClock, limits: { streamsPerToken: 1 } })
  const url = new URL(await rig.listen())
  const dial = (): WebSocket => new WebSocket(`ws://${url.host}/state/sync`)
  const first = dial()
  t.equal(await refusal(first), 101)
  t.equal(await refusal(dial()), 429)
  first.terminate()
  let status = 0
  while (status !== 101) status = await refusal(dial())
  t.equal(status, 101, 'a closed session gives its place back')
})

t.test('headers that trickle in are cut off', async (t) => {
  const rig = await startPlugin(t, probe, {
    clock: systemClock, limits: { headersTimeoutMs: 200, requestTimeoutMs: 200 }
  })
  const url = new URL(await rig.listen())
  rig.app.server.headersTimeout = 200
  const socket = connect(Number(url.port), '127.0.0.1')
  socket.write('GET / HTTP/1.1\r\n')
  const trickle = setInterval(() => { socket.write('x') }, 50)
  const answer = await new Promise<string>((resolve) => {
    let got = ''
    socket.on('data', (d) => { got += String(d) })
    socket.on('error', () => {})
    socket.on('close', () => { resolve(got) })
  })
  clearInterval(trickle)
  t.match(answer, /^HTTP\/1.1 408 .*request_timeout/s)
})

function refusal (socket: WebSocket): Promise<number> {
  return new Promise((resolve) => {
    socket.on('unexpected-response', (_request, response) => {
      resolve(response.statusCode!)
      response.resume()
    })
    socket.on('open', () => { resolve(101) })
    socket.on('error', () => {})
  })
}
