import t from 'tap'
import { ask, call, refusal, type Answer, type Ask } from './http.js'
import { faultsConfig, figure, startNode, type TestNode } from './kit.js'
import { harmless, routesOf } from './routes.js'

const TTS = 'tts@1.0.0'

const FIELDS = ['message', 'type', 'param', 'code', 'reason', 'retryable', 'requestId', 'details']

/** Top-level fields that clients expect in an error body of this route; some APIs have their own format. */
function fieldsOf (what: string): string[] {
  if (/: dots$/.test(what)) return ['error', 'detail']
  if (/^[A-Z]+ \/v1\/messages(\/\S*)?: /.test(what)) return ['type', 'error', 'request_id', 'detail']
  if (/^[A-Z]+ \/ollama(?!\/v1\/)\S*: /.test(what)) return ['error', ...FIELDS.slice(1), 'detail']
  if (/^[A-Z]+ \/mcp: /.test(what)) return ['jsonrpc', 'id', 'error', 'detail']
  return ['error', 'detail']
}

t.test('T-H12: the errors of every route have one body and reveal no internals', async (t) => {
  const node = await startNode(t, { config: faultsConfig({ access: { local: [] } }) })
  const routes = await routesOf(node)
  let asked = 0
  const check = (answer: Answer, what: string): void => {
    asked++
    if (answer.status < 400) return
    t.strictSame(Object.keys(answer.json ?? {}), fieldsOf(what),
      `${what}: ${answer.status} ${answer.text.slice(0, 100)}`)
    const error = refusal(answer)
    t.strictSame(Object.keys(error ?? {}).sort(), [...FIELDS].sort())
    // OpenAI's `code` is a string, so it is not compared with the status.
    if (typeof error?.code === 'number') t.equal(error.code, answer.status)
    else t.match(error?.code, /^[a-z_]+$/)
    t.equal(error?.requestId, answer.headers['x-svc-request-id'], `${what}: the request id is the header's`)
    if (answer.status === 405) t.match(answer.headers['allow'], /^[A-Z]+(, [A-Z]+)*$/,
      `${what}: which methods are`)
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
      ['an empty body', path, { method: route.method, raw: '',
        headers: { 'content-type': 'application/json' } }],
      ['a list as the body', path, { method: route.method, body: [] }],
      ['another media type', path, { method: route.method, raw: 'a=b',
        headers: { 'content-type': 'application/x-www-form-urlencoded' } }],
      ['plain text', path, { method: route.method, raw: '{}', headers: { 'content-type': 'text/plain' } }],
      ['UTF-16', path, { method: route.method, raw: '{}',
        headers: { 'content-type': 'application/json; charset=utf-16' } }],
      ['another method', path, { method: route.method === 'PUT' ? 'DELETE' : 'PUT', body: {} }],
      ['PATCH', path, { method: 'PATCH', body: {} }],
      ['TRACE', path, { method: 'TRACE' }],
      ['no credential', path, { method: route.method, token: null }],
      ['a slash too many', `${path.split('?')[0]}/`, { method: route.method }],
      ['dots', `/x/..${path}`, { method: route.method }]
    ]
    for (const [what, at, options] of tries) check(await ask(node, at, options), `${title}: ${what}`)
  }
  for (const path of ['/', '/nothing', '/v1', '/%2e%2e/%2e%2e/etc/passwd', '/v1/tokens/%00', '/%c0%ae',
    '/a?b=%zz', '//evil.example/']) {
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

/** Matches paths of this machine, stack traces and source file names. */
function leaks (node: TestNode): RegExp {
  const escaped = [node.home, process.cwd()].map((path) => path.replaceAll(/[/.]/g, '\\$&')).join('|')
  return new RegExp(`node_modules|\\.[cm]?[jt]s:\\d|\\n\\s+at |file://|${escaped}`)
}
