/**
 * All request fields that the schemas mark as ignored or refused: ignored fields change nothing, and refused
 * fields cause a 400 that names the field.
 */
import t from 'tap'
import { routes } from '../routes.js'
import { keepAliveSeconds } from '../api/ollama/load.js'
import { hello, MODEL, namesField, startChat } from './api-kit.js'
import type { RouteDecl } from '../../../kernel/index.js'
import type { RefusedField } from '../../../kernel/api/validate.js'

type Schema = Readonly<Record<string, unknown>>
interface Field { path: string[], schema: Schema }

/** Fields with `x-ignored` or `x-refused`, including those nested in objects and lists. */
function wordedFields (schema: Schema, path: string[] = []): Field[] {
  const inner = Object.entries((schema['properties'] ?? {}) as Record<string, Schema>)
    .flatMap(([key, field]) => wordedFields(field, [...path, key]))
  const items = schema['items'] === undefined ? [] : wordedFields(schema['items'] as Schema, [...path, '0'])
  const own = 'x-refused' in schema || 'x-ignored' in schema
  return own ? [{ path, schema }, ...inner, ...items] : [...inner, ...items]
}

/** A valid body per route, with the parent objects that nested fields are put into. */
const bodies: Readonly<Record<string, object>> = {
  chat: hello, completions: { model: MODEL, prompt: 'Hi' }, embeddings: { model: MODEL, input: 'Hi' },
  rerank: { model: MODEL, query: 'Hi', documents: ['a'] },
  messages: { ...hello, max_tokens: 5, tools: [{ name: 'f' }], thinking: { type: 'enabled' } },
  countMessages: { ...hello, tools: [{ name: 'f' }], thinking: { type: 'enabled' } },
  responses: { model: MODEL, input: 'Hi' }, inputTokens: { model: MODEL, input: 'Hi' },
  ollamaChat: hello, ollamaGenerate: { model: MODEL, prompt: 'Hi' },
  ollamaEmbed: { model: MODEL, input: 'Hi' }, ollamaEmbeddings: { model: MODEL, prompt: 'Hi' },
  ollamaShow: { model: MODEL }, ollamaPull: { model: 'a/b' },
  ollamaDelete: { model: 'a/b' }
}

/** A copy of the body with the value set at the path. */
function put (body: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value
  if (Array.isArray(body)) return body.map((one, i) => String(i) === key ? put(one, rest, value) : one)
  const fields = (body ?? {}) as Record<string, unknown>
  return { ...fields, [key]: put(fields[key] ?? (rest[0] === '0' ? [{}] : {}), rest, value) }
}

const STRANGE = { strange: ['value'] }

t.test('fields of every route', async (t) => {
  const { rig } = await startChat(t)
  const ask = async ({ method, url }: RouteDecl, payload: unknown) =>
    await rig.inject({ method, url, payload: payload as object })
  const declared = Object.entries(routes as Record<string, RouteDecl>)
    .filter(([, { api }]) => api !== undefined)
  t.same(declared.map(([name]) => name).sort(), Object.keys(bodies).sort(), 'each has a body here')
  for (const [name, decl] of declared) {
    const usual = (await ask(decl, bodies[name])).statusCode
    for (const { path, schema } of wordedFields(decl.body!)) {
      const at = `${name} ${path.join('.')}`
      const answer = await ask(decl, put(bodies[name], path, STRANGE))
      const refusal = schema['x-refused'] as RefusedField | undefined
      if (refusal === undefined) {
        // An ignored field must accept any value, unless its schema declares a type.
        if (schema['type'] === undefined) t.equal(answer.statusCode, usual, at)
        continue
      }
      t.equal(answer.statusCode, 400, at)
      t.ok(answer.body.includes(JSON.stringify(`${path.join('.')} ${refusal.why}`).slice(1, -1)), answer.body)
      for (const harmless of [null, ...refusal.unless ?? []]) {
        const taken = await ask(decl, put(bodies[name], path, harmless))
        t.equal(taken.statusCode, usual, `${at} ${JSON.stringify(harmless)}`)
      }
    }
    const unknown = await ask(decl, { ...bodies[name], svc_unknown: 1 })
    t.equal(unknown.statusCode, usual, `${name}: an unknown field is ignored`)
    t.equal(unknown.headers['x-svc-ignored'], 'svc_unknown', `${name}: and named`)
    const pinned = await ask(decl, { ...bodies[name], target_node: 'n' })
    t.match([pinned.statusCode, pinned.body], [400, /target_node/], `${name}: it would change the answer`)
  }
  const odd = { stream_options: { odd: 1 }, 'm\u00fcll\r\n': 1, metadata: { a: 1 } }
  const nested = await ask(routes.chat, { ...hello, ...odd })
  t.match([nested.statusCode, nested.headers['x-svc-ignored']], [200, 'stream_options.odd, m?ll??'])
  t.equal((await ask(routes.chat, hello)).headers['x-svc-ignored'], undefined)
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`x${i}`, 1]))
  const named = (await ask(routes.chat, { ...hello, ...many, stream: true })).headers['x-svc-ignored']
  t.equal(String(named).split(', ').length, 16, 'also of a stream, and not without end')
  t.match(await ask(routes.chat, { ...hello, guided_json: {} }), { statusCode: 400, body: /response_format/ })
})

t.test('texts of any length cost no more than their length', async (t) => {
  const { post } = await startChat(t)
  const answer = await post('/ollama/api/chat', { ...hello, keep_alive: '0'.repeat(200_000) })
  t.match([answer.statusCode, answer.json()], [400, { error: /keep_alive must have at most 64 characters/ }])
  // Without the length limit of the schema, parsing must still take linear time.
  for (const hostile of ['0'.repeat(2_000_000), '1s'.repeat(1_000_000) + 'x', '1.'.repeat(1_000_000)]) {
    namesField(t, () => keepAliveSeconds(hostile), 'keep_alive')
  }
  t.equal(keepAliveSeconds('-1h30m'), null)
  t.equal(keepAliveSeconds('1h1.5m'), 3690)
})

t.test('Ollama\'s routes read JSON whatever its type, and of no foreign page', async (t) => {
  const { rig } = await startChat(t)
  const payload = JSON.stringify({ ...hello, stream: false })
  const send = async (headers: Record<string, string>) =>
    (await rig.inject({ method: 'POST', url: '/ollama/api/chat', payload, headers })).statusCode
  t.equal(await send({ 'content-type': 'application/x-www-form-urlencoded' }), 200, 'curl -d')
  t.equal(await send({}), 200)
  t.equal(await send({ 'content-type': 'text/plain', origin: 'https://evil.example' }), 403)
  t.equal(await send({ 'content-type': 'text/plain', 'sec-fetch-site': 'cross-site' }), 403)
})
