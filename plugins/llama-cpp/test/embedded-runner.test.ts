import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { bench, hear } from '../../runners/test/process-kit.js'
import { HELLO, tinyCard, whole } from './embedded-kit.js'
import { SHAPE, tinyModel, type Tensor } from './gguf-kit.js'
import type { ModelSpec } from '../../../kernel/api/engine.js'
import type { Heard, TestCase } from '../../runners/test/process-kit.js'

const built = new URL('../../../dist/plugins/llama-cpp/embedded/index.js', import.meta.url)
/** A runner loads no TypeScript. */
const skip = existsSync(built) ? false : 'needs the built engine: npm run build'

/** A runner that loads a file. */
function runner (t: TestCase, file: Uint8Array): ReturnType<typeof bench> {
  // The kit empties the folder of the test.
  const directory = mkdtempSync(join(tmpdir(), 'svc-gguf-'))
  t.teardown(() => { rmSync(directory, { recursive: true }) })
  writeFileSync(join(directory, 'tiny.gguf'), file)
  const spec: ModelSpec = { card: tinyCard(), directory, backend: 'cpu', threads: 2, options: {} }
  return bench(t, {}, { spec, engineModule: built.href, limits: { breakerFailures: 1 } })
}

t.test('a runner serves the model, and an aborted answer leaves it serving', { skip }, async (t) => {
  const { supervisor, ready } = runner(t, tinyModel())
  await ready()
  const ask = async ({ id, ...payload }: Record<string, unknown>): Promise<Heard> => await hear(
    supervisor.open(String(id), { kind: 'chat', payload: { messages: HELLO, ...payload } },
      new AbortController().signal))
  const first = await ask({ id: 1, temperature: 0, max_tokens: 8 })
  t.equal(first.end, 'end')
  t.equal(whole(first.payloads).text.length, 8)
  const abort = new AbortController()
  const { signal } = abort
  await hear(supervisor.open('2', { kind: 'chat', payload: { messages: HELLO } }, signal), (index) => {
    if (index === 3) abort.abort()
  })
  const again = await ask({ id: 3, temperature: 0, max_tokens: 8 })
  t.equal(whole(again.payloads).text, whole(first.payloads).text)
  const refused = await ask({ id: 4, temperature: 9_000 })
  t.equal(refused.end, 'invalid_request')
})

const whole64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}
/** The file with other bytes at a place. */
function patched (at: number, bytes: Uint8Array): Buffer {
  const file = tinyModel()
  file.set(bytes, at)
  return file
}
/** The file with other bytes behind the first occurrence of a name. */
const behind = (name: string, skipped: number, bytes: Uint8Array): Buffer =>
  patched(tinyModel().indexOf(name) + name.length + skipped, bytes)
const without = (name: string): Buffer =>
  tinyModel({ change: (tensors) => { tensors.splice(tensors.findIndex((one) => one.name === name), 1) } })
const reshaped = (name: string, shape: number[]): Buffer => tinyModel({
  change: (tensors) => {
    const tensor = tensors.find((one) => one.name === name) as Tensor
    tensor.shape = shape
    tensor.values = new Float32Array(shape.reduce((a, b) => a * b))
  }
})
const FILE = tinyModel()

/** Kinds of damage: none of them is a model. */
const DAMAGED: Record<string, Buffer> = {
  'cut in its header': FILE.subarray(0, 500),
  'cut in its weights': FILE.subarray(0, FILE.length / 2),
  empty: FILE.subarray(0, 0),
  'another format': patched(0, Buffer.from('JUNK')),
  'version 99': patched(4, Buffer.from([99])),
  '2^60 tensors': patched(8, whole64(2n ** 60n)),
  '2^60 entries': patched(16, whole64(2n ** 60n)),
  'a name of 2^60 bytes': patched(24, whole64(2n ** 60n)),
  '2^60 tokens': behind('tokenizer.ggml.tokens', 8, whole64(2n ** 60n)),
  'an unknown type of metadata': behind('general.architecture', 0, Buffer.from([77])),
  'an unknown type of tensor': behind('token_embd.weight', 4 + 16, Buffer.from([200])),
  'a tensor behind the end': behind('token_embd.weight', 4 + 16 + 4, whole64(2n ** 40n)),
  'another architecture': tinyModel({ metadata: { 'general.architecture': 'unheard-of' } }),
  'no heads': tinyModel({ metadata: { 'llama.attention.head_count': 0 } }),
  'no heads of keys': tinyModel({ metadata: { 'llama.attention.head_count_kv': 0 } }),
  'seven heads': tinyModel({ metadata: { 'llama.attention.head_count': 7 } }),
  'a thousand layers': tinyModel({ metadata: { 'llama.block_count': 1000 } }),
  'no hidden size': tinyModel({ metadata: { 'llama.embedding_length': 0 } }),
  'no output norm': without('output_norm.weight'),
  'an output of another size': reshaped('output.weight', [SHAPE.hidden / 2, 261]),
  'no tokens': tinyModel({ metadata: { 'tokenizer.ggml.tokens': [] } }),
  'types for too few tokens': tinyModel({ metadata: { 'tokenizer.ggml.token_type': { i32: [1, 1] } } }),
  'an unknown tokenizer': tinyModel({ metadata: { 'tokenizer.ggml.model': 'unheard-of' } })
}

t.test('a damaged file gives one error that says so', { skip }, async (t) => {
  for (const [kind, file] of Object.entries(DAMAGED)) {
    const { failed, failures } = runner(t, file)
    const message = await failed()
    t.comment(`${kind}: ${message}`)
    t.equal(failures.length, 1, kind)
    t.match(message, /cannot load acme\/tiny|ended by SIG\w+ while loading/, kind)
    t.notMatch(message, /gives no reason/, kind)
    t.notMatch(message, /\/tiny\.gguf|\/tmp\//, kind)
  }
})
