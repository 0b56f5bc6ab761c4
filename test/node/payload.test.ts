import t, { type Test } from 'tap'
import { ask, call, refusal, type Answer } from './http.js'
import { faultsConfig, figure, startNode, type TestNode } from './kit.js'
import { harmless, routesOf } from './routes.js'

const TTS = 'tts@1.0.0'
const GOOD = { model: 'test/ok', text: 'hello' }

/** Valid payloads according to interface.md 2.2, each with a field at a limit. */
const valid: readonly Record<string, unknown>[] = [
  {},
  { text: 'x' }, { voice: 'v' }, { response_format: 'mp3' },
  { streaming_interval: 5e-324 }, { streaming_interval: 1e308 }, { streaming_interval: 1 },
  { speed: 5e-324 }, { speed: 50 }, { speed: 1.5 },
  { lang_code: '' }, { lang_code: 'en' },
  { temperature: -1 }, { temperature: 0 }, { temperature: 1e300 }, { top_p: -5 }, { top_p: 2 },
  { top_k: 0 }, { top_k: 1 }, { top_k: 2 ** 40 }, { top_k: 1.0 },
  { repetition_penalty: 5e-324 }, { repetition_penalty: 2 },
  { max_tokens: 1 }, { max_tokens: 2 ** 40 },
  { seed: 0 }, { seed: 4294967295 }
]

/** Invalid values by field; undefined means that the field is missing. */
const wrong: Readonly<Record<string, readonly unknown[]>> = {
  model: [undefined, '', 5, null, ['test/ok']],
  text: [undefined, '', ['x'], 7],
  voice: ['', 1, null],
  response_format: ['wav', 'MP3', '', null],
  streaming_interval: [0, -1, '1'],
  speed: [0, -1, '1.5', true],
  instruct: [5, null],
  lang_code: [5],
  temperature: ['0'],
  top_p: [false],
  top_k: [-1, 1.5, '1'],
  repetition_penalty: [0, -2],
  max_tokens: [0, -1, 1.5],
  seed: [-1, 4294967296, 1.5, '1'],
  unknown: [1],
  Model: ['test/ok'],
  encoding: ['wav']
}

/** Payloads that are not valid, with the field at fault. */
const invalid: readonly [field: string, payload: unknown][] = [
  ...Object.entries(wrong).flatMap(([field, values]) => values.map((value): [string, unknown] =>
    [field, { ...GOOD, [field]: value }])),
  ['payload', null], ['payload', []], ['payload', 'text'], ['payload', 5]
]

const post = (node: TestNode, body: object): Promise<Answer> => ask(node, '/v1/capabilities/stream',
  { body, headers: { accept: 'audio/mpeg' } })

/** Checks that the answer is a refusal with this status and reason. */
function refused (t: Test, answer: Answer, status: number, reason: string, what: string): void {
  t.match([answer.status, refusal(answer)?.reason], [status, reason], `${what}: ${answer.text.slice(0, 200)}`)
}

t.test('valid and invalid calls', async (t) => {
  const node = await startNode(t, { config: faultsConfig() })

  t.test('T-H07: every row of the payload at, under and over its bound', async (t) => {
    for (const fields of valid) {
      const answer = await post(node, call(node, TTS, { ...GOOD, ...fields }))
      t.equal(answer.status, 200, `${JSON.stringify(fields)} is valid: ${answer.text.slice(0, 100)}`)
    }
    for (const [field, payload] of invalid) {
      const answer = await post(node, call(node, TTS, payload))
      const what = JSON.stringify(payload)
      refused(t, answer, 400, 'invalid_payload', what)
      const error = refusal(answer)
      const [issue] = error?.details['issues'] as { path: string, message: string }[]
      t.ok(error?.message.includes(field) && (field === 'payload' || issue?.path === field),
        `${what} names ${field}`)
    }
    figure(t, 'T-H07', t.passing(), { cases: valid.length + invalid.length })
  })

  t.test('numbers and texts with several JSON spellings', async (t) => {
    const body = JSON.stringify(call(node, TTS, GOOD))
    for (const [name, raw, status] of [
      ['1.0 is an integer', body.replace('"text":"hello"', '"text":"hello","seed":1.0'), 200],
      ['1e3 is an integer', body.replace('"text":"hello"', '"text":"hello","seed":1e3'), 200],
      ['a number past doubles', body.replace('"text":"hello"', '"text":"hello","speed":1e999'), 400],
      ['NaN is no JSON', body.replace('"text":"hello"', '"text":"hello","speed":NaN'), 400],
      ['cut short', body.slice(0, -1), 400],
      ['__proto__', body.replace('"text":"hello"', '"text":"hello","__proto__":{"speed":2}'), 400],
      ['constructor.prototype', body.replace('"text":"hello"',
        '"text":"hello","constructor":{"prototype":{}}'), 400],
      ['deep nesting', body.replace('"hello"', `${'['.repeat(50_000)}${']'.repeat(50_000)}`), 400]
    ] as const) {
      const answer = await ask(node, '/v1/capabilities/stream', { raw, headers: { accept: 'audio/mpeg' } })
      t.equal(answer.status, status, `${name}: ${answer.text.slice(0, 150)}`)
    }
  })

  t.test('a body of 10,000 levels is refused by every route that reads one', async (t) => {
    const deep = `{"x":${'['.repeat(10_000)}${']'.repeat(10_000)}}`
    const chat = `{"model":"x","messages":[{"role":"user","content":"x"}],"tools":[${deep}]}`
    for (const route of await routesOf(node)) {
      if (!['POST', 'PUT', 'PATCH'].includes(route.method)) continue
      const { path } = harmless(route)
      for (const raw of [deep, chat]) {
        const answer = await ask(node, path, { method: route.method, raw })
        t.ok(answer.status >= 400 && answer.status < 500, `${route.method} ${path}: ${answer.status}`)
        t.ok(refusal(answer)?.reason, path)
      }
    }
  })

  t.test('the order of the guards', async (t) => {
    const good = call(node, TTS, GOOD) as Record<string, unknown>
    const table: [string, Record<string, unknown>, number, string][] = [
      ['an unknown node', { target_node: 'nobody' }, 404, 'node_not_found'],
      ['an unknown id', { capability_id: 'ocr' }, 404, 'capability_not_found'],
      ['another version', { version: '2.0.0' }, 409, 'version_mismatch'],
      ['another revision', { descriptor_revision: '0123456789abcdef' }, 409, 'revision_mismatch'],
      ['node before id', { target_node: 'nobody', capability_id: 'ocr' }, 404, 'node_not_found'],
      ['id before revision', { version: '9.9.9', descriptor_revision: 'x' }, 409, 'version_mismatch'],
      ['revision before payload', { descriptor_revision: 'x', payload: null }, 409, 'revision_mismatch'],
      ['a model nobody has', { payload: { ...GOOD, model: 'no/model' } }, 404, 'no_instance'],
      ['a model id that is no id', { payload: { ...GOOD, model: '../../etc/passwd' } }, 404, 'no_instance'],
      ['timeout too long', { timeout_seconds: 301 }, 400, 'invalid_request'],
      ['timeout 0', { timeout_seconds: 0 }, 400, 'invalid_request'],
      ['timeout as text', { timeout_seconds: '5' }, 400, 'invalid_request'],
      ['call id too long', { call_id: 'x'.repeat(129) }, 400, 'invalid_request'],
      ['empty call id', { call_id: '' }, 400, 'invalid_request'],
      ['a field nobody knows', { priority: 1 }, 400, 'invalid_request']
    ]
    for (const [what, change, status, reason] of table) {
      const answer = await post(node, { ...good, ...change })
      refused(t, answer, status, reason, what)
      t.match(answer.headers['x-svc-request-id'], /^[0-9a-f-]{36}$/)
      t.equal(refusal(answer)?.requestId, answer.headers['x-svc-request-id'], `${what}: one request id`)
    }
    t.match(refusal(await post(node, { ...good, descriptor_revision: 'x' }))?.details,
      { revision: node.revision(TTS) }, 'the current revision is in the details')
    for (const here of [node.nodeId, 'local', null]) t.equal((await post(node,
      { ...good, target_node: here })).status, 200)
    refused(t, await ask(node, '/v1/capabilities/call', { body: good }), 400, 'invalid_request',
      'a stream through /call')
    for (const field of ['capability_id', 'version', 'descriptor_revision', 'payload']) {
      const { [field]: _, ...rest } = good
      const answer = await post(node, rest)
      refused(t, answer, 400, 'invalid_request', `without ${field}`)
      t.equal(refusal(answer)?.param, field)
    }
  })

  t.test('the size of a call: 1 MiB', async (t) => {
    const sized = (bytes: number): string => {
      const body = JSON.stringify(call(node, TTS, { ...GOOD, text: '@' }))
      return body.replace('@', 'x'.repeat(bytes - body.length + 1))
    }
    const at = async (bytes: number): Promise<Answer> => await ask(node, '/v1/capabilities/stream',
      { raw: sized(bytes), headers: { accept: 'audio/mpeg' } })
    const longest = await at(1024 * 1024)
    refused(t, longest, 400, 'invalid_payload', 'a longer text than is spoken')
    t.match(refusal(longest)?.message, /text/)
    refused(t, await at(1024 * 1024 + 1), 413, 'payload_too_large', 'one byte more')
    refused(t, await heard(() => at(3 * 1024 * 1024)), 413, 'payload_too_large', 'far more')
  })
})

/**
 * Retries a request that the node refuses before it has the whole body, because a client that keeps writing
 * may lose the answer.
 */
async function heard (attempt: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try { return await attempt() } catch (error) {
      const lost = ['EPIPE', 'ECONNRESET'].includes((error as NodeJS.ErrnoException).code ?? '')
      if (!lost || tries === 20) throw error
    }
  }
}
