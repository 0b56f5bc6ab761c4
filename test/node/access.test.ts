import t from 'tap'
import { createServer, request } from 'node:http'
import { networkInterfaces } from 'node:os'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { WebSocket } from 'ws'
import { ask, call, dial, refusal } from './http.js'
import { faultsConfig, figure, folder, startNode, svc, until, writeConfig } from './kit.js'
import type { AddressInfo } from 'node:net'
import type { Answer, Ask } from './http.js'
import type { TestNode } from './kit.js'
import type { Test } from 'tap'

const TTS = 'tts@1.0.0'
const SESSION = '/v1/capabilities/session'
const AUTHORITIES = ['read', 'invoke', 'cluster:write', 'operator', 'plugin:read', 'plugin:manage', 'approve'] as const

interface Route { method: string, path: string, authority: string | null, body: boolean }

/** Every route of the node, out of its own description, and the WebSocket. */
async function routesOf (node: TestNode): Promise<Route[]> {
  const { paths } = (await ask(node, '/openapi.json')).json as {
    paths: Record<string, Record<string, { 'x-authority'?: string | null, requestBody?: object }>> }
  const listed = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => ({
    method: method.toUpperCase(), path, authority: operation['x-authority'] as string | null, body: operation.requestBody !== undefined
  })))
  return listed.some((r) => r.path === SESSION) ? listed
    : [...listed, { method: 'GET', path: SESSION, authority: 'invoke', body: false }]
}

/** A path that fits the route and names nothing that is there. */
const concrete = ({ path }: Route): string => path.replaceAll(/\{\w+\}/g, 'nobody')

/** The routes that would end the node or pass any check are asked in a way that stops short of it. */
const harmless = (route: Route): { path: string, ask: Ask } => ({
  path: route.path === '/admin/restart' ? '/admin/restart?node_id=nobody' : concrete(route),
  ask: { method: route.method, ...(route.body ? { body: {} } : {}) }
})

/** Asks over HTTP, or for the WebSocket by its handshake. */
async function knock (node: TestNode, route: Route, token: string | null): Promise<{ status: number, reason: string | undefined }> {
  const { path, ask: options } = harmless(route)
  if (route.path !== SESSION) {
    const answer = await ask(node, path, { ...options, token })
    return { status: answer.status, reason: refusal(answer)?.reason }
  }
  const ws = new WebSocket(`${node.url.replace('http', 'ws')}${SESSION}`,
    token === null ? {} : { headers: { authorization: `Bearer ${token}` } })
  return await new Promise((resolve, reject) => {
    ws.on('error', () => {})
    ws.once('open', () => { ws.terminate(); resolve({ status: 101, reason: undefined }) })
    ws.once('unexpected-response', (_request, response) => {
      let text = ''
      response.on('data', (b: Buffer) => { text += b.toString() })
      response.on('end', () => {
        ws.terminate()
        try {
          resolve({ status: response.statusCode ?? 0, reason: refusal({ json: JSON.parse(text) as unknown })?.reason })
        } catch { reject(new Error(`the answer to a refused handshake is no error body: ${text}`)) }
      })
    })
  })
}

async function tokenWith (node: TestNode, authorities: readonly string[]): Promise<string> {
  const answer = await ask(node, '/v1/tokens', { body: { label: authorities.join('+'), authorities } })
  return (answer.json as { token: string }).token
}

t.test('who may do what', async (t) => {
  const node = await startNode(t, { config: faultsConfig({ access: { local: [] } }) })
  const routes = await routesOf(node)

  t.test('T-A01: every route for every authority', async (t) => {
    t.ok(routes.length >= 18, `${routes.length} routes`)
    t.ok(routes.every((r) => r.authority === null || (AUTHORITIES as readonly string[]).includes(r.authority)))
    const tokens = new Map<string | null, string | null>([[null, null]])
    for (const authority of AUTHORITIES) tokens.set(authority, await tokenWith(node, [authority]))
    let cells = 0
    for (const route of routes) {
      for (const [authority, token] of tokens) {
        const { status, reason } = await knock(node, route, token)
        const open = route.authority === null || route.authority === authority
        const got = status === 401 || status === 403 ? `${status} ${reason}` : 'let in'
        const wanted = open ? 'let in' : token === null ? '401 unauthenticated' : '403 missing_grant'
        t.equal(got, wanted, `${route.method} ${route.path} as ${authority ?? 'nobody'} (${status})`)
        cells++
      }
    }
    figure(t, 'T-A01', t.passing(), { routes: routes.length, cells })
  })

  t.test('tokens that are none', async (t) => {
    const good = await tokenWith(node, ['read'])
    const other = good.slice(0, -1) + (good.endsWith('0') ? '1' : '0')
    const listed = (await ask(node, '/v1/tokens')).json as { tokens: { id: string, label: string }[] }
    for (const [name, authorization] of [['a typo', `Bearer ${other}`], ['cut short', `Bearer ${good.slice(0, 20)}`],
      ['another scheme', `Basic ${good}`], ['no scheme', good], ['empty', 'Bearer '], ['twice', `Bearer ${good} ${good}`]] as const) {
      const answer = await ask(node, '/node_id', { headers: { authorization }, token: null })
      t.match([answer.status, refusal(answer)?.reason], [401, 'unauthenticated'], name)
    }
    for (const path of [`/node_id?token=${good}`, `/node_id?access_token=${good}`]) {
      t.equal((await ask(node, path, { token: null })).status, 401, 'never out of the address')
    }
    t.equal((await ask(node, '/node_id', { token: null, headers: { cookie: `token=${good}` } })).status, 401, 'nor out of a cookie')
    t.equal((await ask(node, '/node_id', { token: good })).status, 200)
    const { id } = listed.tokens.findLast((x) => x.label === 'read')!
    t.equal((await ask(node, `/v1/tokens/${id}`, { method: 'DELETE' })).status, 200)
    t.equal((await ask(node, '/node_id', { token: good })).status, 401, 'revoked at once')
    const past = await ask(node, '/v1/tokens', { body: { label: 'x', authorities: ['read'], expires: '2020-01-01T00:00:00Z' } })
    t.equal(past.status, 400)
    const made = (await ask(node, '/v1/tokens', { body: { label: 'short', authorities: ['read'],
      expires: new Date(Date.now() + 1500).toISOString() } })).json as { token: string }
    t.equal((await ask(node, '/node_id', { token: made.token })).status, 200)
    await until('the token to expire', async () => (await ask(node, '/node_id', { token: made.token })).status !== 200)
    const guess = async (): Promise<Answer> => await ask(node, '/node_id', { token: other })
    const late = await until('too many wrong tokens', async () => { const answer = await guess(); return answer.status === 429 && answer })
    t.ok(Number(late.headers['retry-after']) >= 1)
    t.equal((await ask(node, '/node_id')).status, 200, 'who has a good token is not held back')
  })

  t.test('T-H12: the errors of every route have one body and show nothing of the inside', async (t) => {
    let asked = 0
    const check = (answer: Answer, what: string): void => {
      asked++
      if (answer.status < 400) return
      const body = answer.json as { error: Record<string, unknown>, detail: unknown } | undefined
      t.strictSame(Object.keys(body ?? {}), ['error', 'detail'], `${what}: ${answer.status} ${answer.text.slice(0, 100)}`)
      t.strictSame(Object.keys(body?.error ?? {}), ['message', 'type', 'param', 'code', 'reason', 'retryable', 'requestId', 'details'])
      t.equal(body?.error['code'], answer.status)
      t.equal(body?.error['requestId'], answer.headers['x-svc-request-id'], `${what}: the request id is the header's`)
      t.match(answer.headers['content-type'], /^application\/json/)
      t.notMatch(answer.text, leaks(node), what)
      if (answer.status === 429 || answer.status === 503) t.ok(Number(answer.headers['retry-after']) >= 1)
    }
    for (const route of routes) {
      const { path } = harmless(route)
      const sep = path.includes('?') ? '&' : '?'
      const title = `${route.method} ${route.path}`
      const tries: [string, string, Ask][] = [
        ['a query nobody knows', `${path}${sep}nonsense=1`, { method: route.method, body: {} }],
        ['a body that is no JSON', path, { method: route.method, raw: '{"a":' }],
        ['an empty body', path, { method: route.method, raw: '', headers: { 'content-type': 'application/json' } }],
        ['a list as the body', path, { method: route.method, body: [] }],
        ['another media type', path, { method: route.method, raw: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } }],
        ['plain text', path, { method: route.method, raw: '{}', headers: { 'content-type': 'text/plain' } }],
        ['UTF-16', path, { method: route.method, raw: '{}', headers: { 'content-type': 'application/json; charset=utf-16' } }],
        ['another method', path, { method: route.method === 'PUT' ? 'DELETE' : 'PUT', body: {} }],
        ['PATCH', path, { method: 'PATCH', body: {} }],
        ['TRACE', path, { method: 'TRACE' }],
        ['no credential', path, { method: route.method, token: null }],
        ['a slash too many', `${path.split('?')[0]}/`, { method: route.method }],
        ['dots', `/x/..${path}`, { method: route.method }]
      ]
      for (const [what, at, options] of tries) check(await ask(node, at, options), `${title}: ${what}`)
    }
    for (const path of ['/', '/nothing', '/v1', '/%2e%2e/%2e%2e/etc/passwd', '/v1/tokens/%00', '/%c0%ae', '/a?b=%zz', '//evil.example/']) {
      check(await ask(node, path), path)
      check(await ask(node, path, { method: 'POST', body: {} }), `POST ${path}`)
    }
    for (const what of ['throws', 'offSchema', 'exit']) {
      for (const accept of ['audio/mpeg', 'text/event-stream', 'application/vnd.svc.frames', 'image/png']) {
        const answer = await ask(node, '/v1/capabilities/stream', { headers: { accept }, body: call(node, TTS,
          { model: 'test/ok', text: 'x', instruct: JSON.stringify({ do: what }) }) }).catch(() => undefined)
        t.notMatch(answer?.text ?? '', leaks(node), `${what} as ${accept}`)
        t.notMatch(answer?.text ?? '', /secret/, 'the cause stays in the log')
      }
    }
    figure(t, 'T-H12', t.passing(), { asked })
  })
})

/** Paths of this machine, stack traces, names of source files. */
function leaks (node: TestNode): RegExp {
  const escaped = [node.home, process.cwd()].map((path) => path.replaceAll(/[/.]/g, '\\$&')).join('|')
  return new RegExp(`node_modules|\\.[cm]?[jt]s:\\d|\\n\\s+at |file://|${escaped}`)
}

/** A request with a Host of its own; the connection goes to loopback all the same. */
function hosted (node: TestNode, method: string, path: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const req = request({ host: '127.0.0.1', port: node.port, method, path, headers, agent: false, setHost: false }, (res) => {
      res.resume()
      resolve(res.statusCode ?? 0)
    })
    req.on('upgrade', (_res, socket) => { socket.destroy(); resolve(101) })
    req.on('error', reject)
    req.end()
  })
}

t.test('where a request comes from', async (t) => {
  const outside = Object.values(networkInterfaces()).flat().find((i) => i?.family === 'IPv4' && !i.internal)?.address
  const node = await startNode(t, { config: faultsConfig({ api: { allowed_hosts: ['svc.example'] } }) })
  const { port } = node

  t.test('T-A04: Host names, on every method and on WebSockets', async (t) => {
    const good = [`127.0.0.1:${port}`, '127.0.0.1', `localhost:${port}`, 'LOCALHOST', 'svc.example', `Svc.Example:${port}`]
    const bad = ['evil.example', `evil.example:${port}`, 'localhost.evil', `[::1]:${port}`, '[::1]', '0.0.0.0', `0.0.0.0:${port}`,
      'localhost.', '127.0.0.1.', `127.0.0.1:${port + 1}`, '127.1', '2130706433', '0x7f000001', '127.0.0.2', 'a@127.0.0.1',
      '127.0.0.1:evil', '', 'localhost:', 'svc.example.evil', '127.0.0.1, evil.example']
    const upgrade = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' }
    for (const [hosts, allowed] of [[good, true], [bad, false]] as const) {
      for (const host of hosts) {
        for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
          const status = await hosted(node, method, '/healthz', { host })
          t.equal(status !== 421, allowed, `${method} with Host "${host}": ${status}`)
        }
        const status = await hosted(node, 'GET', SESSION, { host, ...upgrade })
        t.equal(status, allowed ? 101 : 421, `WebSocket with Host "${host}"`)
        t.equal(await hosted(node, 'GET', '/no/such/route', { host }), allowed ? 404 : 421, 'also where there is no route')
      }
    }
    const none = await dial(port)
    none.socket.write('GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n')
    await none.closed
    t.match(none.text(), /^HTTP\/1\.1 400 /, 'no Host at all')
    const old = await dial(port)
    old.socket.write('GET /healthz HTTP/1.0\r\n\r\n')
    await old.closed
    t.match(old.text(), /^HTTP\/1\.1 421 /, 'HTTP/1.0 without Host')
    const absolute = await dial(port)
    absolute.socket.write(`GET http://evil.example/healthz HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n`)
    await absolute.closed
    t.match(absolute.text(), /^HTTP\/1\.1 421 /, 'an absolute address does not help')
    figure(t, 'T-A04', t.passing(), { hosts: good.length + bad.length })
  })

  t.test('pages of other sites', async (t) => {
    const host = `127.0.0.1:${port}`
    for (const [headers, status] of [
      [{ origin: 'https://evil.example' }, 403], [{ origin: 'null' }, 403], [{ origin: `http://127.0.0.1:${port + 1}` }, 403],
      [{ 'sec-fetch-site': 'cross-site' }, 403], [{ 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' }, 403],
      [{ origin: `http://${host}` }, 200], [{ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }, 200], [{ 'sec-fetch-site': 'none' }, 200]
    ] as const) t.equal(await hosted(node, 'GET', '/healthz', { host, ...headers }), status, JSON.stringify(headers))
    for (const method of ['POST', 'DELETE']) {
      t.equal(await hosted(node, method, '/v1/tokens', { host, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }), 403)
    }
    t.equal(await hosted(node, 'GET', SESSION, { host, origin: 'https://evil.example', connection: 'Upgrade', upgrade: 'websocket',
      'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' }), 403, 'nor over a WebSocket')
  })

  t.test('T-A09: forwarded addresses are not believed',
    { skip: outside === undefined ? 'this machine has only loopback' : false }, async (t) => {
      const open = await startNode(t, { config: faultsConfig(), args: ['--host', '0.0.0.0'] })
      const claims = ['x-forwarded-for', 'x-real-ip', 'forwarded', 'x-client-ip', 'true-client-ip', 'x-forwarded-host', 'via']
      for (const name of claims) {
        const value = name === 'forwarded' ? 'for=127.0.0.1' : '127.0.0.1'
        const away = await ask({ url: `http://${outside}:${open.port}` }, '/node_id', { headers: { [name]: value } })
        t.match([away.status, refusal(away)?.reason], [401, 'unauthenticated'], `${name} from outside`)
        const here = await ask(open, '/node_id', { token: null, headers: { [name]: '203.0.113.9' } })
        t.equal(here.status, 200, `${name} takes nothing away either`)
      }
      t.equal((await ask({ url: `http://${outside}:${open.port}`, token: open.token }, '/node_id')).status, 200)
      t.equal((await ask({ url: `http://${outside}:${open.port}` }, '/healthz')).status, 200)
      figure(t, 'T-A09', t.passing(), { headers: claims.length })
    })

  t.test('T-A07: nothing is ever granted to strangers', async (t) => {
    const home = join(folder(t), 'home')
    writeConfig(home, { access: { remote: ['read'] } })
    for (const args of [['up', '--host', '0.0.0.0', '--port', '0'], ['up', '--port', '0'], ['config', 'check']]) {
      const { status, stderr, stdout } = await svc([...args, '--home', home])
      t.equal(status, 1, args.join(' '))
      t.match(stdout + stderr, /access\.remote: nothing is granted to a remote request without a credential/)
    }
    figure(t, 'T-A07', t.passing(), {})
  })
})

t.test('T-H13: tokens, prompts and keys are nowhere to be found afterwards', async (t) => {
  const received: string[] = []
  const sink = createServer((req, res) => {
    req.on('data', (b: Buffer) => { received.push(b.toString()) })
    req.on('end', () => { res.end('{}') })
  })
  await new Promise<void>((resolve) => { sink.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { sink.close(); sink.closeAllConnections() })
  const { port } = sink.address() as AddressInfo
  const node = await startNode(t, { env: { CANARY_KEY: 'canarykey0987654321', SVC_LOGGING_LEVEL: 'trace' },
    config: faultsConfig({ logging: { enabled: true, ingest_url: `http://127.0.0.1:${port}/in` } }, { autostart: ['test/ok', 'svc/voice-en'] }) })
  const prompt = 'canaryprompt1234567890'
  const app = await tokenWith(node, ['read', 'invoke'])
  const secrets = { prompt, app, operator: node.token, key: 'canarykey0987654321', typo: `${app.slice(0, -2)}xx` }
  const wrong = await svc(['status', '--home', node.home, '--token', secrets.typo])
  t.equal(wrong.status, 5)
  t.notMatch(wrong.stderr + wrong.stdout, new RegExp(secrets.typo), 'the CLI does not print what it was given')
  const bodies = [
    { model: 'svc/voice-en', text: prompt }, { model: prompt, text: prompt }, { model: 'test/ok', text: prompt, speed: prompt },
    { model: 'svc/voice-en', text: `${prompt} 今日` , voice: prompt },
    ...['throws', 'offSchema', 'exit', 'count'].map((what) => ({ model: 'test/ok', text: prompt, instruct: JSON.stringify({ do: what, chunks: 1 }) }))
  ]
  for (const payload of bodies) {
    await ask(node, '/v1/capabilities/stream', { token: app, body: call(node, TTS, payload), headers: { accept: 'text/event-stream' } }).catch(() => {})
    await ask(node, '/v1/audio/speech', { token: app, body: { model: payload.model, input: payload.text, instructions: prompt } }).catch(() => {})
  }
  await until('the runner is back', async () => (await ask(node, '/readyz')).status === 200)
  for (const route of await routesOf(node)) {
    const { path, ask: options } = harmless(route)
    if (route.path === SESSION) continue
    await ask(node, path, { ...options, headers: { authorization: `Bearer ${secrets.typo}` }, token: null })
    await ask(node, path, { ...options, token: app, headers: { 'x-api-key': secrets.key, cookie: `sid=${secrets.key}` } })
    await ask(node, `${path}${path.includes('?') ? '&' : '?'}prompt=${prompt}&key=${secrets.key}`, { ...options, token: node.token })
    await ask(node, path, { ...options, raw: `{"token":"${app}","prompt":"${prompt}"`, token: app })
  }
  const said = await svc(['say', prompt, '-o', join(folder(t), 'x.mp3'), '--home', node.home, '--token', app])
  t.equal(said.status, 0)
  await until('log lines at the receiver', () => received.join('').includes('a task failed'))
  node.child.process.kill('SIGTERM')
  t.equal(await node.child.ended, 0)
  const places: Record<string, string> = { stdout: node.child.stdout(), stderr: node.child.stderr(), receiver: received.join(''), ...filesOf(node.home) }
  let looked = 0
  for (const [place, text] of Object.entries(places)) {
    for (const [name, secret] of Object.entries(secrets)) {
      looked++
      t.notOk(text.includes(secret), `${name} in ${place}: ${around(text, secret)}`)
    }
  }
  t.ok(places['stdout']!.split('\n').length > 20 && places['receiver']!.length > 1000, 'there was something to look through')
  t.notOk(Object.keys(places).some((p) => p.includes(prompt)), 'no file is named after it')
  figure(t, 'T-H13', t.passing(), { places: Object.keys(places).length, looked })
})

const around = (text: string, secret: string): string => {
  const at = text.indexOf(secret)
  return at < 0 ? 'absent' : JSON.stringify(text.slice(Math.max(0, at - 120), at + 40))
}

/** Every file below a folder but the operator's token. */
function filesOf (home: string): Record<string, string> {
  const found: Record<string, string> = {}
  for (const name of readdirSync(home, { recursive: true }) as string[]) {
    const path = join(home, name)
    if (name === 'operator.token' || !statSync(path, { throwIfNoEntry: false })?.isFile()) continue
    found[name] = readFileSync(path, 'latin1')
  }
  return found
}

