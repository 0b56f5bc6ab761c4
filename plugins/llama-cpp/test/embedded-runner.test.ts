import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { bench, hear, type Heard, type TestCase } from '../../runners/test/process-kit.js'
import { DAMAGED } from './damaged.js'
import { HELLO, tinyCard, whole } from './embedded-kit.js'
import { tinyModel } from './gguf-kit.js'
import type { ModelSpec } from '../../../kernel/api/engine.js'

const built = new URL('../../../dist/plugins/llama-cpp/embedded/index.js', import.meta.url)
/** Runners load compiled JavaScript only. */
const skip = existsSync(built) ? false : 'needs the built engine: npm run build'

const never = new AbortController().signal

/** Starts a runner process that loads the model file. */
function runner (t: TestCase, file: Uint8Array): ReturnType<typeof bench> {
  // Use a separate folder, because `bench` empties the test's folder.
  const directory = mkdtempSync(join(tmpdir(), 'svc-gguf-'))
  t.teardown(() => { rmSync(directory, { recursive: true }) })
  writeFileSync(join(directory, 'tiny.gguf'), file)
  const spec: ModelSpec = { card: tinyCard(), directory, backend: 'cpu', threads: 2, options: {} }
  return bench(t, {}, { spec, engineModule: built.href, limits: { breakerFailures: 1 } })
}

t.test('a runner serves the model, and an aborted answer leaves it serving', { skip }, async (t) => {
  const { supervisor, ready, pid } = runner(t, tinyModel())
  await ready()
  const ask = async ({ id, ...payload }: Record<string, unknown>): Promise<Heard> => await hear(
    supervisor.open(String(id), { kind: 'chat', payload: { messages: HELLO, ...payload } }, never))
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
  const killed = await hear(supervisor.open('5', { kind: 'chat', payload: { messages: HELLO } }, never),
    () => { process.kill(pid(), 'SIGKILL') })
  t.match(killed.error, { reason: 'instance_lost', details: {},
    message: 'The instance serving this task was lost: its program ended.' })
  t.match(killed.error?.cause, /ended by SIGKILL/, 'for the log')
})

t.test('a damaged file gives one error that says so', { skip }, async (t) => {
  for (const [kind, file] of Object.entries(DAMAGED)) {
    const { failed, failures } = runner(t, file)
    const message = await failed()
    t.comment(`${kind}: ${message}`)
    t.match(failures, [{ errorCode: 'load_failed' }], kind)
    t.match(message, /cannot load acme\/tiny|ended by SIG\w+ while loading/, kind)
    t.notMatch(message, /gives no reason/, kind)
    t.notMatch(message, /\/tiny\.gguf|\/tmp\//, kind)
  }
})
