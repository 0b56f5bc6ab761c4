/** Sends hostile tasks, as any caller with the authority `invoke` can, to real runners; no runner may end. */
import '../../runners/test/process-plain-spawn.js'
import { existsSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { systemClock } from '../../../kernel/api/clock.js'
import { kindOf } from '../../runners/process/states.js'
import { createSupervisor } from '../../runners/process/supervisor.js'
import { recordingLog, until } from '../../runners/test/process-kit.js'
import { embeddedSpec } from '../../capabilities-tts/test/engine-kit.js'
import { tinyCard } from '../../llama-cpp/test/embedded-kit.js'
import { tinyModel } from '../../llama-cpp/test/gguf-kit.js'
import { seededRandom } from '../../llama-cpp/test/random.js'
import { BODY_BYTES } from '../api/fields.js'
import { specOf, writeEncoder } from './embed-kit.js'
import { startReal } from './real-runner-kit.js'
import type { EngineTask, ModelSpec } from '../../../kernel/api/engine.js'

const TASKS = process.env['SVC_TEST_FULL'] === '1' ? 5000 : 200
const built = (path: string): string => new URL(`../../../dist/plugins/${path}`, import.meta.url).href
const [LM, VECTORS, TTS] = ['llama-cpp/embedded', 'chat/embed', 'capabilities-tts/engine']
  .map((path) => built(`${path}/index.js`)) as [string, string, string]
const skip = existsSync(fileURLToPath(LM)) ? false : 'needs the built engines: npm run build'
const WATCHED = new URL('fixtures/watched-engine.mjs', import.meta.url).href
/**
 * A runner's event loop may block for 250 ms of processor time, outside native runs. The test allows four
 * times that, since cold caches and shared cores slow down the same work.
 */
const HELD_MS = 4 * 250
/** Milliseconds after which to abort an answer; these tests only care how the request is handled. */
const ANSWER_MS = 300
const AT_ONCE = 8

const random = seededRandom(20_251_122)
const whole = (below: number): number => Math.floor(random() * below)
const one = <T>(list: readonly T[]): T => list[whole(list.length)] as T
const many = <T>(count: number, make: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i))
const named = (count: number, make: (i: number) => unknown): object =>
  Object.fromEntries(many(count, (i) => [`k${i}`, make(i)]))
const nested = (levels: number, word: string): unknown =>
  JSON.parse(`{"${word}":`.repeat(levels) + '{}' + '}'.repeat(levels)) as unknown

/** Texts that are long, repetitive, malformed or multi-byte. */
const text = (): string => one(['a', ' ', '\n', '👩‍👩‍👧', '日本', '<|end|>', '{{', 'ǅ',
  '\ud800', '\0', '(((', '1e9,']).repeat(1 + whole(one([10, 1000, 60_000])))
const pattern = (): string => one([
  '^(a+)+$', '^(a|a)*b$', '(a|b)*a(a|b){12}$', '^(.?){900}$', '^((a?){100}){100}$', '(?=a)', '[', '\\p{L}+',
  '^[\\s\\S]{0,500}$', `[${'ab-z'.repeat(whole(500))}]`, '('.repeat(whole(300)), '^(\\d{1,3}\\.){3}\\d+$'
])
const ref = (word: string, levels: number): object => ({
  $ref: '#/$defs/k0', $defs: named(levels, (i) => i === levels - 1 ? { type: 'string' }
    : { [word]: many(2, () => ({ $ref: `#/$defs/k${i + 1}` })) })
})
const schema = (): unknown => one<() => unknown>([
  () => ref(one(['allOf', 'anyOf', 'oneOf']), 2 + whole(60)),
  () => ({ type: 'string', pattern: pattern(), enum: many(whole(20), (i) => `${'a'.repeat(30)}${i}`) }),
  () => ({ anyOf: many(whole(70), (i) => ({ type: 'string', pattern: `^(.{${i + 1}})+$` })) }),
  () => ({ anyOf: many(whole(70), (i) => ({ type: 'number', minimum: i, maximum: 10 ** (i % 15) })) }),
  () => ({ enum: many(whole(1200), (i) => 'x'.repeat(1 + i % 40) + i) }),
  () => ({ type: 'object', properties: named(whole(2500), () => ({})), required: ['k0', 'k1'] }),
  () => ({ type: 'object', minProperties: whole(400),
    properties: named(whole(400), () => ({ type: 'null' })) }),
  () => ({ type: 'array', minItems: whole(1100), items: { type: 'array', minItems: whole(1100) } }),
  () => nested(whole(3000), one(['items', 'not', 'x-a', 'const'])),
  () => ({ oneOf: many(whole(3000), (i) => ({ const: i })) }),
  () => ({ $ref: '#' }), () => 7, () => null
])()
const tool = (i: number): unknown => one<unknown>([null, 7, { type: 'function', function: {
  name: one(['f', '', text(), i]), strict: random() < 0.5, parameters: schema()
} }])
/** Constraints on an answer: a format, tools, or a GBNF grammar. */
const shape = (): object => one<() => object>([
  () => ({ response_format: { type: 'json_object' } }),
  () => ({ response_format: {
    type: 'json_schema', json_schema: { schema: schema(), strict: random() < 0.5 }
  } }),
  () => ({ tools: many(whole(140), tool),
    tool_choice: one([undefined, 'required', 'auto', { type: 'function' }, { function: { name: 'f' } }]) }),
  () => ({ response_format: { type: one(['none', '__proto__', 'constructor']) } }),
  () => ({ grammar: one(['root ::= root', 'root ::= "a"*', 'root ::= (', 'x ::= "a"',
    `root ::= ${'('.repeat(whole(500))}`, `root ::= [a-z]{${whole(5000)}}`, text().slice(0, 5000)]) })
])()
const params = (): object => one<() => object>([
  () => ({ ...shape(), temperature: one([0, 1, -1, 1e308]) }),
  () => ({ logit_bias: named(whole(500), () => 100), top_logprobs: whole(30), logprobs: true }),
  () => ({ repetition_penalty: random() * 100, seed: one([1, -1, 2 ** 60, 'x']) }),
  () => ({ chat_template_kwargs: nested(whole(3000), 'x') })
])()
const message = (): unknown => one<() => unknown>([
  () => ({ role: one(['user', 'system', 'tool', '', 'constructor', text()]), content: text() }),
  () => ({ role: 'assistant', content: null, tool_calls: many(whole(50), tool) }),
  () => ({ role: 'user', content: nested(whole(3000), 'x') }), () => null
])()
const writerTask = (): EngineTask => {
  const more = { max_tokens: one([1, 30, 1e9, -1]), ...params(), n: one([1, 1, 4, 128, 1e9]),
    ...random() < 0.1 ? { stop: many(whole(40), text) } : {} }
  return one<() => EngineTask>([
    () => ({ kind: 'chat', payload: { messages: [{ role: 'user', content: 'x' }], ...more } }),
    () => ({ kind: 'chat', payload: { messages: many(1 + whole(200), message), ...more,
      tools: many(whole(20), tool), chat_template_kwargs: one<unknown>([{}, { messages: 7 },
        nested(whole(2000), 'x'), { add_generation_prompt: text(), range: 1 }]) } }),
    () => ({ kind: 'completion',
      payload: { prompt: one<unknown>([text(), many(whole(9000), whole), 7]), ...more } }),
    () => ({ kind: 'tokenize', payload: { prompt: text() } }),
    () => ({ kind: 'detokenize', payload: { tokens: many(whole(50_000), () => whole(70)) } }),
    () => ({ kind: one(['', 'constructor', '__proto__', 'tts']), payload: {} })
  ])()
}
const speechTask = (): EngineTask => ({ kind: 'tts', payload: {
  text: one([text().slice(0, 4096), '1'.repeat(whole(4096)), '9,999.99$ '.repeat(whole(400)),
    'a.b.'.repeat(whole(1000)), 'https://a.b/'.repeat(whole(300)), 'Dr. '.repeat(whole(1000)), 7 as never]),
  speed: one([1, 0, -1, 1e9, 4]), voice: one([undefined, '', '__proto__', text()]),
  streaming_interval: one([1, 0.04, 1e9]), encoding: one(['mp3', 'pcm', 'wav', 'constructor'])
} })

const embedTask = (): EngineTask => ({ kind: one(['embed', 'embeddings', 'tokenize', 'chat']), payload: {
  input: one<() => unknown>([
    text, () => many(whole(300), () => text().slice(0, 1000)), () => many(whole(9000), () => whole(80)),
    () => nested(whole(400), 'x'), () => [], () => null, () => many(whole(2000), () => many(whole(20), whole))
  ])(),
  prompt: text(), dimensions: one([undefined, 1, -1, 1e9]),
  encoding_format: one(['float', 'base64', '__proto__'])
} })

/** Generates values until one fits into a request body. */
function fitting<T> (next: () => T): T {
  for (;;) {
    const made = next()
    if (Buffer.byteLength(JSON.stringify(made)) <= BODY_BYTES) return made
  }
}

/** Calls `once` `times` times in all, AT_ONCE at a time. Ignores errors, since most requests are refused. */
async function attack (
  times: number, once: (number: number, end: AbortSignal) => Promise<void>
): Promise<void> {
  let left = times
  await Promise.all(many(AT_ONCE, async () => {
    while (left-- > 0) await once(left, AbortSignal.timeout(ANSWER_MS)).catch(() => {})
  }))
}

const writer = { modelId: 'test/tiny' }

const RUNNERS: [string, string, (folder: string) => Promise<ModelSpec>, () => EngineTask][] = [
  ['a model that writes', LM, async (folder) => {
    writeFileSync(`${folder}/tiny.gguf`, tinyModel())
    return { card: tinyCard(writer), directory: folder, backend: 'cpu', threads: 1, options: {} }
  }, writerTask],
  ['an encoder', VECTORS, async (folder) => {
    await writeEncoder(folder)
    return await specOf(folder)
  }, embedTask],
  ['a voice', TTS, async () => await embeddedSpec(), speechTask]
]
for (const [name, engineModule, specIn, next] of RUNNERS) {
  t.test(`hostile tasks end no runner of ${name}`, { skip, timeout: 3_600_000 }, async (t) => {
    const folder = t.testdir()
    const { log, lines } = recordingLog()
    const spec = await specIn(folder)
    const supervisor = createSupervisor({
      runnerId: 'R', instanceId: 'I', engineModule: WATCHED, scratch: `${folder}/scratch`,
      spec: { ...spec, options: { ...spec.options, watched: engineModule } },
      clock: systemClock, log, maxConcurrent: AT_ONCE, onStatus: () => {}, onFailed: () => {}
    })
    t.teardown(async () => { await supervisor.stop() })
    supervisor.start()
    await until('it is ready', () => kindOf(supervisor.status) === 'RunnerReady', 60_000)
    await attack(TASKS / RUNNERS.length, async (number, end) => {
      for await (const chunk of supervisor.open(`hostile ${number}`, fitting(next), end)) void chunk
    })
    t.equal(supervisor.report().restarts, 0, 'no restart')
    t.same(lines.filter(({ message }) => /lost|given up/.test(message)), [])
    t.ok(supervisor.report().processAlive)
    const held = lines.filter(({ message }) => message === 'held').map(({ fields }) => Number(fields['ms']))
    t.comment(`${name}: ${held.length} stretches over 50 ms, the longest ${Math.max(0, ...held)} ms`)
    t.ok(Math.max(0, ...held) <= HELD_MS, `its loop stood for ${Math.max(0, ...held)} ms`)
  })
}

const shaped = (): unknown => one<unknown>([
  undefined, { type: 'json_schema', json_schema: { name: 'x', strict: true, schema: schema() } }
])
/** Only 30% of the bodies may have invalid fields; otherwise few requests would reach a runner. */
const chatBody = (): Record<string, unknown> => ({
  messages: [{ role: 'user', content: text() }], stream: random() < 0.5, max_tokens: 30,
  response_format: shaped(), ...random() < 0.5 ? { n: 4 } : {},
  ...random() < 0.3 ? { stop: many(whole(6), text), logprobs: true, top_logprobs: whole(22) } : {},
  ...random() < 0.3 ? { tools: many(whole(20), tool), tool_choice: 'required' } : {},
  ...random() < 0.3 ? { messages: many(1 + whole(50), message), ...writerTask().payload } : {}
})
const ROUTES: [string, () => Record<string, unknown>][] = [
  ['/v1/chat/completions', chatBody],
  ['/v1/completions', () => ({ prompt: text(), max_tokens: 30, stop: many(whole(6), text) })],
  ['/v1/messages', () => ({ ...chatBody(), max_tokens: 30 })],
  ['/v1/responses', () => ({ ...chatBody(), input: one<() => unknown>([text, () => many(9, message)])() })],
  ['/ollama/api/chat', () => ({ ...chatBody(), format: one<() => unknown>([schema, () => 'json'])() })],
  ['/ollama/api/generate', () => ({ prompt: text(), format: schema(), options: params() })],
  ['/v1/tokenize', () => ({ prompt: text() })],
  ['/v1/embeddings', () => embedTask().payload]
]
t.test('hostile bodies over HTTP end no runner', { skip, timeout: 3_600_000 }, async (t) => {
  const directory = t.testdir()
  writeFileSync(`${directory}/tiny.gguf`, tinyModel())
  const real = await startReal(t, { card: tinyCard(writer), directory })
  await real.ready()
  const pid = real.pid()
  const odd: string[] = []
  await attack(TASKS / 5, async (_number, signal) => {
    const [url, body] = one(ROUTES)
    const sent = fitting(() => JSON.stringify({ ...body(), model: 'test/tiny' }))
    const answer = await fetch(`${real.url}${url}`, {
      method: 'POST', signal, headers: { 'content-type': 'application/json' }, body: sent
    })
    if (answer.status >= 500) odd.push(`${url} ${answer.status} ${(await answer.text()).slice(0, 300)}`)
    await answer.arrayBuffer()
  })
  t.same(odd, [], 'each is served or refused')
  t.equal(real.pid(), pid, 'by one process')
})
