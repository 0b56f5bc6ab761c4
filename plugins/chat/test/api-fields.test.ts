/**
 * Every field of the public APIs: what is ignored changes nothing, what is refused is a 400 that names it.
 */
import t from 'tap'
import { routes } from '../routes.js'
import { hello, MODEL, startChat } from './api-kit.js'
import type { RouteDecl } from '../../../kernel/index.js'
import type { Refusal } from '../../../kernel/api/validate.js'

type Schema = Readonly<Record<string, unknown>>
interface Field { path: string[], schema: Schema }

/** The fields that have a word about them, also those within objects and lists. */
function wordedFields (schema: Schema, path: string[] = []): Field[] {
  const inner = Object.entries((schema['properties'] ?? {}) as Record<string, Schema>)
    .flatMap(([key, field]) => wordedFields(field, [...path, key]))
  const items = schema['items'] === undefined ? [] : wordedFields(schema['items'] as Schema, [...path, '0'])
  const own = 'x-refused' in schema || 'x-ignored' in schema
  return own ? [{ path, schema }, ...inner, ...items] : [...inner, ...items]
}

/** A body of each route that is taken, and objects in it where fields need more beside them. */
const bodies: Readonly<Record<string, object>> = {
  chat: hello, completions: { model: MODEL, prompt: 'Hi' }, embeddings: { model: MODEL, input: 'Hi' },
  messages: { ...hello, max_tokens: 5, tools: [{ name: 'f' }], thinking: { type: 'enabled' } },
  countMessages: { ...hello, tools: [{ name: 'f' }], thinking: { type: 'enabled' } },
  responses: { model: MODEL, input: 'Hi' }, inputTokens: { model: MODEL, input: 'Hi' },
  ollamaChat: hello, ollamaGenerate: { model: MODEL, prompt: 'Hi' },
  ollamaEmbed: { model: MODEL, input: 'Hi' }, ollamaEmbeddings: { model: MODEL, prompt: 'Hi' },
  ollamaShow: { model: MODEL }, ollamaPull: { model: 'a/b' },
  ollamaDelete: { model: 'a/b' }, ollamaCopy: { source: 'acme/none', destination: 'x' },
  ollamaCreate: { model: 'x', from: 'acme/none', messages: [{ role: 'user' }] }
}

/** The body with a value at a path. */
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
      const refusal = schema['x-refused'] as Refusal | undefined
      if (refusal === undefined) {
        // It may be of a type, too; a value of that is ignored.
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
  }
})
