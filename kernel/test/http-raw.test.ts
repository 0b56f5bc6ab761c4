import { connect } from 'node:net'
import t from 'tap'
import { gzipSync } from 'node:zlib'
import { definePlugin, Reply } from '../index.js'
import { resolveConfig } from '../config/resolve.js'
import { readConfigText } from '../config/text.js'
import { startPlugin } from '../testing/index.js'
import { systemClock } from '../api/clock.js'

const loose = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } } as const
const route = { method: 'POST', summary: 's', authority: 'invoke', body: loose } as const
const probe = definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.',
  routes: {
    echo: { ...route, url: '/echo' },
    any: { ...route, url: '/any-type', anyContentType: true },
    all: { ...route, url: '/find/all' },
    one: { method: 'GET', url: '/find/:id', summary: 's', authority: 'read' },
    named: {
      method: 'GET', url: '/named', summary: 's', authority: 'read',
      query: { type: 'object', properties: { voice: { type: 'string', default: 'plain \'name\'' } } }
    },
    streamed: { method: 'GET', url: '/streamed', summary: 's', authority: 'read', stream: true },
    failing: { method: 'GET', url: '/failing', summary: 's', authority: 'read' }
  },
  errors: { no_voice: { status: 404, retryable: false, message: 'm', remedy: 'r' } }
}, (ctx) => ({
  routes: {
    echo: ({ body }) => body,
    all: ({ body }) => body,
    one: () => ({}),
    any: ({ body }) => body,
    named: ({ query: { voice } }) => new Reply({}, 200, { 'x-svc-model': 'stimme-ü', 'x-svc-voice': voice }),
    streamed: async (request) => {
      await request.open({ contentType: 'text/plain', headers: { 'x-svc-model': '日本' } }).end()
    },
    failing: () => {
      const error = ctx.error('no_voice')
      error.headers['x-svc-voice'] = 'é\u0000'
      throw error
    }
  }
}))

const body = '{"n":1}'
const JSON_TYPE = 'content-type: application/json\r\n'
const post = (path: string, headers: string, text = body): string =>
  `POST ${path} HTTP/1.1\r\nhost: HOST\r\n${headers}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nhost: HOST\r\n${headers}\r\n`
const error = (status: number, reason: string): RegExp =>
  new RegExp(`^HTTP/1\\.1 ${status} [^]*"reason":"${reason}"[^]*"detail":`)

/** Raw bytes to send, with the expected answer. */
const rows: [title: string, sent: string, says: RegExp, never?: RegExp][] = [
  ['an offer of h2c, as Java and curl --http2 make it', post('/echo', JSON_TYPE +
  'connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n'),
  /^HTTP\/1\.1 200 [^]*\{"n":1\}$/],
  ['the same without a body', get('/node_id', 'connection: Upgrade\r\nupgrade: h2c\r\n'), /^HTTP\/1\.1 200 /],
  ['an upgrade to TLS', get('/healthz', 'connection: upgrade\r\nupgrade: TLS/1.2\r\n'), /^HTTP\/1\.1 200 /],
  ['an expectation', get('/healthz', 'expect: the-unexpected\r\n'), error(417, 'expectation_failed')],
  ['no Host', 'GET /healthz HTTP/1.1\r\n\r\n', error(400, 'invalid_request')],
  ['no Host in HTTP/1.0', 'GET /healthz HTTP/1.0\r\n\r\n', error(400, 'invalid_request')],
  ['QUERY', `QUERY /state HTTP/1.1\r\nhost: HOST\r\ncontent-length: 2\r\n\r\n{}`,
    /^HTTP\/1\.1 405 [^]*allow: GET[^]*"reason":"method_not_allowed"/],
  ['another method of a path with a name of its own', `PUT /find/all HTTP/1.1\r\nhost: HOST\r\n\r\n`,
    /^HTTP\/1\.1 405 [^]*allow: POST\r\n/],
  ['QUERY of JSON', `QUERY /echo HTTP/1.1\r\nhost: HOST\r\n${JSON_TYPE}content-length: 2\r\n\r\n{}`,
    /^HTTP\/1\.1 405 [^]*allow: POST/],
  ['a header of another script', get('/named'),
    /x-svc-model: UTF-8''stimme-%C3%BC\r\nx-svc-voice: plain 'name'\r\n/],
  ['the same of a stream', get('/streamed'),
    /^HTTP\/1\.1 200 [^]*x-svc-model: UTF-8''%E6%97%A5%E6%9C%AC\r\n/],
  ['the same with a line break', get('/named?voice=a%0D%0Ax-evil:%201'),
    /x-svc-voice: UTF-8''a%0D%0Ax-evil%3A%201\r\n/],
  ['the same of an error', get('/failing'), /^HTTP\/1\.1 404 [^]*x-svc-voice: UTF-8''%C3%A9%00\r\n/],
  ['answers are kept by no cache', get('/node_id'), /cache-control: no-store\r\n/],
  ['refusals neither', get('/nothing'), /^HTTP\/1\.1 404 [^]*cache-control: no-store\r\n/],
  ['HEAD of the state', 'HEAD /state HTTP/1.1\r\nhost: HOST\r\n\r\n', /^HTTP\/1\.1 200 /],
  ['HEAD of a state that is followed', 'HEAD /state?follow=1 HTTP/1.1\r\nhost: HOST\r\n\r\n',
    /^HTTP\/1\.1 200 [^]*text\/event-stream/, /data:/],
  ['JSON without a type, where any will do', post('/any-type', ''), /^HTTP\/1\.1 200 /],
  ['JSON as curl -d sends it', post('/any-type', 'content-type: application/x-www-form-urlencoded\r\n'),
    /^HTTP\/1\.1 200 /],
  ['what is no JSON there', post('/any-type', '', 'n=1'), error(400, 'invalid_request')],
  ['JSON without a type elsewhere', post('/echo', ''), error(415, 'unsupported_media_type')],
  ['a foreign page\'s simple request', post('/any-type', 'content-type: text/plain\r\n' +
  'origin: https://evil.example\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n'),
  error(403, 'foreign_origin')],
  ['the same from a sandbox', post('/any-type', 'content-type: text/plain\r\norigin: null\r\n'),
    error(403, 'foreign_origin')],
  ['the same under a rebound name', post('/any-type', '').replace('HOST', 'evil.example'),
    error(421, 'misdirected')]
]

t.test('requests as they come over a socket', async (t) => {
  const rig = await startPlugin(t, probe, { clock: systemClock })
  const url = new URL(await rig.listen())
  for (const [title, sent, says, never] of rows) {
    const got = await ask(url, sent)
    t.match(got, says, title)
    if (never !== undefined) t.notMatch(got, never, title)
  }
})

t.test('of a thousand pipelined requests each is answered, and the next one hears why not', async (t) => {
  const rig = await startPlugin(t, probe, { clock: systemClock })
  const url = new URL(await rig.listen())
  const got = await ask(url, get('/healthz').repeat(1003))
  const answers = got.split('HTTP/1.1 ').slice(1)
  t.same(answers.slice(0, 1000).filter((answer) => !answer.startsWith('200')), [])
  t.match(answers[999], /connection: close/i)
  t.match(answers[1000], /^503 [^]*connection: close[^]*"reason":"connection_spent"[^]*"detail"/i)
})

t.test('bodies that are not taken say why', async (t) => {
  const rig = await startPlugin(t, probe)
  const send = async (payload: string | Buffer, headers = {}) => await rig.inject({
    method: 'POST', url: '/echo', payload, headers: { 'content-type': 'application/json', ...headers }
  })
  const packed = await send(gzipSync(body), { 'content-encoding': 'gzip' })
  t.equal(packed.statusCode, 415)
  t.match(packed.json(), { error: { message: /content-encoding gzip is not supported; send plain JSON/ } })
  t.equal(packed.headers['accept-encoding'], 'identity')
  t.equal((await send(body, { 'content-encoding': 'identity' })).statusCode, 200)
  t.equal((await send(`\ufeff${body}`)).statusCode, 200, 'a byte order mark is ignored')
  const keys: [text: string, param: string | null][] = [
    ['{"n":1,"__proto__":{"a":1}}', '__proto__'], ['{"n":1,"a":[{"\\u005f_proto__":1}]}', 'a.0.__proto__'],
    ['{"n":1,"a":{"constructor":{"prototype":{}}}}', 'a.constructor.prototype'],
    ['{"n":1,"constructor":"x","prototype":{}}', null], ['{"n":1,"constructor":{"name":"x"}}', null]
  ]
  for (const [text, param] of keys) {
    const answer = await send(text)
    t.equal(answer.statusCode, param === null ? 200 : 400, text)
    if (param !== null) t.match(answer.json(), { error: { param, message: /is a forbidden key/ } })
  }
})

t.test('a listed page, extension or app may send what headers it likes', async (t) => {
  const origins = ['https://ops.example', 'chrome-extension://abc', 'moz-extension://3f2a-11',
    'app://obsidian.md', 'tauri://localhost', 'vscode-webview://1ab2']
  const yaml = (list: string[]): unknown[] => resolveConfig(readConfigText(
    `api: { allowed_origins: ${JSON.stringify(list)} }`, null), { owners: [], env: {} }).problems
  t.same(yaml(origins), [])
  const wrong = ['*', 'null', 'file://x', 'file:///x', 'app:x', 'app://', 'app://x/y',
    'http://A.example', 'ws://x', 'app://u@x', 'data:x', 'javascript://x/%0a']
  for (const bad of wrong) t.equal(yaml([bad]).length, 1, bad)
  const rig = await startPlugin(t, probe, { allowedOrigins: origins })
  const sdk = 'authorization, content-type, x-stainless-lang, openai-beta, anthropic-version, ' +
    'anthropic-dangerous-direct-browser-access'
  const preflight = async (origin: string) => await rig.inject({
    method: 'OPTIONS', url: '/echo', headers: {
      origin, 'access-control-request-method': 'POST', 'access-control-request-headers': sdk
    }
  })
  for (const origin of origins) {
    const answer = await preflight(origin)
    t.match(answer.headers, {
      'access-control-allow-origin': origin, 'access-control-allow-headers': sdk,
      'access-control-allow-credentials': undefined
    }, origin)
    const sent = await rig.inject({ method: 'POST', url: '/echo', payload: { n: 1 }, headers: { origin } })
    t.equal(sent.statusCode, 200, origin)
    t.match(sent.headers, { 'access-control-allow-origin': origin, vary: /origin/i })
  }
  for (const origin of ['chrome-extension://abd', 'app://obsidian.md.evil', 'https://evil.example', 'null']) {
    const answer = await preflight(origin)
    t.equal(answer.statusCode, 403, origin)
    t.notOk(answer.headers['access-control-allow-headers'], origin)
  }
})

/** Sends raw bytes and collects the answer; a second request then closes the connection. */
function ask (url: URL, sent: string): Promise<string> {
  const end = `GET /the-end HTTP/1.1\r\nhost: ${url.host}\r\nconnection: close\r\n\r\n`
  return new Promise((resolve) => {
    let got = ''
    const socket = connect(Number(url.port), url.hostname)
    socket.once('data', () => { socket.write(end) })
      .on('data', (bytes) => { got += String(bytes) }).on('error', () => {})
      .on('close', () => { resolve(got.split(/HTTP\/1\.1 404 [^{]*\{"error":\{[^{]*the-end/)[0]!) })
    socket.write(sent.replaceAll('HOST', url.host))
  })
}
