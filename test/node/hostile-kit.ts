/** Generates hostile models and request bodies, and sends them to a cluster. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { seededRandom } from '../../plugins/llama-cpp/test/random.js'
import {
  config, decoder, field, gguf, graph, hostileArray, llama, onnx, u64, varint
} from '../../plugins/staging/test/cards-kit.js'
import { refusal, type Answer } from './http.js'
import { alive } from './proc.js'
import { folder, until } from './kit.js'
import type { Test } from 'tap'
import type { Member } from './cluster-kit.js'

export type Files = Record<string, string | Buffer>
export interface Body { path: string, raw: string }

const deep = (levels: number, open: string, inner: string, close: string): string =>
  open.repeat(levels) + inner + close.repeat(levels)

/** Makes pseudo-random numbers, choices and lists; the same seed gives the same sequence. */
function dice (seed: number) {
  const random = seededRandom(seed)
  const below = (most: number): number => Math.floor(random() * most)
  const one = <T>(list: readonly T[]): T => list[below(list.length)] as T
  const many = <T>(count: number, make: (i: number) => T): T[] =>
    Array.from({ length: count }, (_, i) => make(i))
  return { below, one, many }
}

/** Generates hostile inputs; a seed always gives the same inputs. */
export function generator (seed: number): { model: () => Files, body: () => Body } {
  const { below, one, many } = dice(seed)

  /** A chat template that is invalid, or that needs extreme nesting, memory or time. */
  const template = (): string => {
    const grown = `{%- set x = ${one(['"aaaaaaaa"', '[1, 2]', '"<b>"', 'messages', '{"a": 1}'])} -%}` +
      one(['{%- set x = x + x -%}', '{%- set x = x ~ x -%}', '{%- set x = x * 2 -%}']).repeat(below(40))
    const work = one(['x | upper', 'x | trim', 'x | replace("a", x)', 'x | tojson', 'x | length', 'x[::-1]',
      'x | indent(100000000)', 'x.split("a") | join(x)', 'x | list | sort', 'x ~ x', 'x == x', 'x | nothing'])
    return one([
      `${grown}{% for i in range(100000) %}{% set y = ${work} %}{% endfor %}`, `${grown}{{ ${work} }}`,
      `${deep(below(3000), '{% if true %}', 'x', '{% endif %}')}`,
      `{{ ${deep(below(20_000), '(', '1', ')')} }}`,
      '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}',
      '{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f("a") }}', '{{ range(1000000000000) | join(",") }}',
      `{{ ${'a.'.repeat(below(100_000))}b }}`, '{{ "a" * 1000000000 }}', '{{', '{% for %}', '{{ messages }}'
    ])
  }
  /** Truncates bytes or flips some of their bits. */
  const damaged = (bytes: Buffer): Buffer => {
    if (below(2) === 0) return bytes.subarray(0, below(bytes.length))
    const copy = Buffer.from(bytes)
    for (let i = 0; i <= below(12); i++) copy[below(copy.length)]! ^= 1 << below(8)
    return copy
  }
  const huge = (): bigint => one([2n ** 60n, 2n ** 63n - 1n, 2n ** 64n - 1n, 65_537n, 2n ** 32n])
  const { metadata = {} } = llama
  const ggufFile = (): Buffer => one<() => Buffer>([
    () => gguf({ ...llama, metadata: { ...metadata, 'tokenizer.chat_template': template() } }),
    () => gguf({ ...llama, metadata: { ...metadata, 'tokenizer.chat_template': template() } }),
    () => damaged(gguf(llama)),
    () => gguf({ ...llama, [one(['pairs', 'count'])]: huge() }),
    () => gguf({
      ...llama, metadata: { ...metadata, x: hostileArray(one([4, 8, 9]), huge(), u64(huge())) }
    }),
    () => gguf({ ...llama, metadata: { ...metadata, 'llama.block_count': below(2 ** 31) } }),
    () => gguf({
      ...llama, tensors: [{ name: 'w', dims: many(8, huge), type: below(40), offset: huge() }]
    })
  ])()
  const onnxFile = (): Buffer => one<() => Buffer>([
    () => damaged(onnx(decoder)), () => onnx(decoder),
    () => Buffer.concat([varint(7 * 8 + 2), varint(huge()), graph(decoder)]),
    () => onnx({
      ...decoder, nodes: [field(5, Buffer.concat(many(below(2000), () => field(6, graph({})))))]
    }),
    () => field(7, many(below(500), () => 0)
      .reduce((inner: Buffer) => field(1, field(5, field(6, inner))), graph({})))
  ])()
  const json = (): string => one<() => string>([
    () => deep(below(200_000), '[', '', ']'), () => deep(below(100_000), '{"a":', '1', '}'),
    () => JSON.stringify({ ...config, chat_template: template() }),
    () => `{"a":"${'\\u0000'.repeat(below(50_000))}"}`, () => '{', () => '{"__proto__":{"a":1}}',
    () => JSON.stringify(Object.fromEntries(many(below(50_000), (i) => [`k${i}`, i]))),
    () => `{"num_hidden_layers":${one(['1e999', '-1', '99999999999', '"x"', 'null'])}}`
  ])()
  const yaml = (): string => one<() => string>([
    () => many(12, (i) =>
      `a${i}: &a${i} [${many(9, () => i === 0 ? '"x"' : `*a${i - 1}`).join(',')}]`).join('\n'),
    () => deep(below(9000), '[', '', ']'), () => deep(below(9000), '{a: ', '', '}'),
    () => 'a: !<\u001b[31mx> 1', () => '%FOO \u001b[31m\n---\na: 1',
    () => `? ${'- '.repeat(below(9000))}x`, () => `a: "${'\\x1b[2J'.repeat(below(2000))}"`,
    () => 'modelId: acme/x\nfiles: ' +
      `[{ path: ${one(['/etc/passwd', '../x', '"\\u202e"'])}, role: x, bytes: 1 }]`
  ])()
  const model = (): Files => one<() => Files>([
    () => ({ 'model.gguf': ggufFile() }), () => ({ 'model.gguf': ggufFile() }),
    () => ({ 'card.yaml': yaml(), 'a.onnx': 'x' }),
    () => ({ 'a-00001-of-00002.gguf': ggufFile(), 'a-00002-of-00002.gguf': ggufFile() }),
    () => ({ 'config.json': below(2) === 0 ? JSON.stringify(config) : json(), 'onnx/model.onnx': onnxFile(),
      'tokenizer.json': json(), 'tokenizer_config.json': json(), 'onnx/tokenizer.json': json() }),
    () => ({
      'config.json': JSON.stringify(config), 'model.onnx': onnx(decoder), 'tokenizer.json': json(),
      'tokenizer_config.json': JSON.stringify({ chat_template: template() }),
      'chat_template.jinja': template()
    }),
    () => ({ 'genai_config.json': json(), 'model.onnx': onnxFile(), 'tokenizer.json': '{}' }),
    () => ({ 'a.onnx': onnxFile(), 'a.onnx.json': json() }),
    () => ({
      'a.onnx': onnx(decoder),
      'voices-v1.0.bin': damaged(Buffer.alloc(100 + below(5000), 'PK\u0005\u0006'))
    }),
    () => ({ 'model.safetensors': Buffer.concat([u64(huge()), Buffer.from(json())]), 'config.json': json() })
  ])()

  const pattern = (): string => one(['^(a|b){1,200}$', '^(a+)+$', '^(a|a)*b$', '^(.?){900}$', '(?=a)', '[',
    '^((a?){100}){100}$', '\\p{L}+', `[${'ab-z'.repeat(below(500))}]`, '('.repeat(below(300)),
    '(a|b)*a(a|b){12}$'])
  const schema = (): unknown => one<() => unknown>([
    () => ({ properties: Object.fromEntries(many(6, (i) => [`k${i}`, { pattern: pattern() }])) }),
    () => ({ oneOf: many(below(200), () => ({ pattern: pattern() })) }),
    () => ({ $ref: '#/$defs/k0', $defs: Object.fromEntries(many(30, (i) =>
      [`k${i}`, { [one(['anyOf', 'oneOf', 'allOf'])]: many(2, () => ({ $ref: `#/$defs/k${i + 1}` })) }])) }),
    () => JSON.parse(deep(below(400), '{"items":', '{}', '}')) as unknown,
    () => ({ enum: many(below(900), (i) => 'x'.repeat(i % 40)) }), () => ({ $ref: '#' }), () => 7
  ])()
  const tool = (i: number): object =>
    ({ type: 'function', function: { name: `f${i}`, parameters: schema() } })
  const format = (): object => ({ type: 'json_schema', json_schema: { name: 'x', schema: schema() } })
  const chat = (): object => ({
    model: 'acme/none',
    messages: [{ role: 'user', content: one(['x', '<think>', '</s>', 'x'.repeat(below(9000))]) }],
    ...below(2) === 0 ? { tools: many(one([1, 20, 128]), tool) } : {},
    ...below(2) === 0 ? { response_format: format() } : {}
  })
  const ROUTES: [string, () => object][] = [
    ['/v1/chat/completions', chat], ['/v1/chat/completions', chat],
    ['/v1/messages', () => ({
      ...chat(), max_tokens: 9, tools: many(20, (i) => ({ name: `f${i}`, input_schema: schema() }))
    })],
    ['/v1/responses', () => ({
      model: 'acme/none', input: 'x', text: { format: { type: 'json_schema', name: 'x', schema: schema() } }
    })],
    ['/ollama/api/chat', () => ({ ...chat(), format: schema(), stream: false })],
    ['/models/add', () => ({ card: one<unknown>([{}, [], { files: [{ path: '/etc/passwd' }] }]) })],
    ['/v1/audio/speech', () => ({ model: 'svc/voice-en', voice: 'x', input: '1,'.repeat(below(2000)) })],
    ['/v1/steward/ask', () => ({
      question: one(['why '.repeat(90), 'at 1/1/1 '.repeat(40), '(a'.repeat(100)])
    })],
    ['/mcp', () => ({ jsonrpc: '2.0', id: 1, method: one(['tools/call', 'x']), params: schema() })]
  ]
  const body = (): Body => {
    const [path, make] = one(ROUTES)
    return { path, raw: below(6) === 0 ? json() : JSON.stringify(make()) }
  }
  return { model, body }
}

/** The reason for a refusal; the JSON-RPC code if MCP itself refused. */
function reasonOf (answer: Answer): string | undefined {
  const { error, jsonrpc } = answer.json as { jsonrpc?: string, error?: { code?: number, data?: unknown } }
  return jsonrpc !== undefined && error?.data === undefined ? String(error?.code) : refusal(answer)?.reason
}

/** Counts of inputs, models and refusals; `odd` describes missing or untyped answers and internal errors. */
export interface Outcome { asked: number, models: number, refused: number, odd: string[] }

/** MODELS: share of models among the inputs. AT_ONCE: number of models, and of bodies, sent concurrently. */
const MODELS = 0.3
const AT_ONCE = 2

/** Sends `times` hostile inputs to a node with a store. */
export async function attack (t: Test, at: Member, times: number, seed: number): Promise<Outcome> {
  const { model, body } = generator(seed)
  const outcome: Outcome = { asked: 0, models: 0, refused: 0, odd: [] }
  const odd = (what: string, why: unknown): void => {
    outcome.odd.push(`${what}: ${JSON.stringify(why)?.slice(0, 300)}`)
  }
  const below = folder(t)
  const send = async (): Promise<void> => {
    const { path, raw } = body()
    const answer = await at.ask(path, { method: 'POST', raw, ms: 60_000 })
    const reason = answer === undefined ? undefined : reasonOf(answer)
    const typed = answer !== undefined && (answer.status < 400 || typeof reason === 'string')
    if (!typed || reason === 'internal') odd(`${path} ${raw.slice(0, 200)}`, answer?.text ?? 'no answer')
    if ((answer?.status ?? 0) >= 400) outcome.refused++
  }
  const pull = async (number: number): Promise<void> => {
    const where = join(below, String(number))
    const files = Object.entries(model())
    for (const [path, content] of files) {
      mkdirSync(dirname(join(where, path)), { recursive: true })
      writeFileSync(join(where, path), content)
    }
    const download = `/store/models/hostile/m${number}/download`
    const body = { source: pathToFileURL(where).href }
    const begun = await at.ask(download, { method: 'POST', body, ms: 60_000 })
    if (begun?.status !== 200) { odd('a pull', begun?.text); return }
    const end = await until('the end of a hostile pull', async () => {
      const state = (await at.ask(`${download}/status`, { ms: 60_000 }))?.json as
        { status: string, reason: string | null, error: string | null } | undefined
      return state !== undefined && !['pending', 'downloading'].includes(state.status) && state
    }, { seconds: 120 })
    const fine = end.status === 'complete' ||
      (end.status === 'failed' && ['unusable_model', 'bad_source'].includes(end.reason ?? ''))
    if (!fine) odd(`model of ${files.map(([path]) => path).join(' ')}`, end)
    if (end.status === 'failed') outcome.refused++
    outcome.models++
    rmSync(where, { recursive: true })
    await at.ask(`/store/models/hostile/m${number}`, { method: 'DELETE', ms: 60_000 })
  }
  const each = async (count: number, work: (number: number) => Promise<void>): Promise<void> => {
    let left = count
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      while (left > 0 && alive(at.pid())) {
        const number = left--
        outcome.asked++
        await work(number)
      }
    }))
  }
  const models = Math.round(times * MODELS)
  await Promise.all([each(models, pull), each(times - models, send)])
  return outcome
}
