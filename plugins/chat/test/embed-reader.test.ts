import { readdirSync } from 'node:fs'
import t from 'tap'
import { Prompts } from '../engine/prompts.js'
import { loadText } from '../text/index.js'
import { writeModel } from './engine-kit.js'
import { withoutBuild } from './real-runner-kit.js'

/** A thread loads no TypeScript. */
const entry = new URL('../../../dist/plugins/chat/engine/prompts-thread.js', import.meta.url)
const skip = withoutBuild
const never = new AbortController().signal
const talk = (content: unknown): { messages: Record<string, unknown> } =>
  ({ messages: { messages: [{ role: 'user', content }] } })

async function reader (t: { testdir: () => string, teardown: (end: () => Promise<void>) => unknown },
  longestMs = 60_000): Promise<Prompts> {
  const folder = t.testdir()
  await writeModel(folder)
  const prompts = new Prompts(await loadText(folder), { folder }, { entry, longestMs })
  t.teardown(async () => { await prompts.close() })
  return prompts
}

/** Threads of this process, as Linux counts them. */
const threads = (): number => process.platform === 'linux' ? readdirSync('/proc/self/task').length : 0

t.test('a long prompt is read by a thread, with the ids of the short ones', { skip }, async (t) => {
  const prompts = await reader(t)
  const before = threads()
  const [short] = await prompts.read(talk('x'.repeat(100)), never)
  const [plain] = await prompts.read({ texts: ['hello'], special: false }, never)
  t.equal(threads(), before, 'no thread for short ones')
  const [long] = await prompts.read(talk('x'.repeat(20_000)), never)
  t.ok(threads() > before || process.platform !== 'linux')
  t.equal(long?.length, (short?.length ?? 0) + 19_900)
  const many = await prompts.read({ texts: ['hello', 'y'.repeat(9_000)], special: false }, never)
  t.same(many[0], plain)
})

t.test('what the template refuses is refused from there too', { skip }, async (t) => {
  const prompts = await reader(t)
  await t.rejects(prompts.read(talk([{ long: 'x'.repeat(9_000) }]), never),
    { reason: 'invalid_request', message: /messages takes/ })
  const deep = JSON.parse('['.repeat(20_000) + ']'.repeat(20_000)) as unknown
  await t.rejects(prompts.read(talk(deep), never), { reason: 'invalid_request', message: /cannot be read/ })
})

t.test('one that takes too long is refused, one that is cancelled is not waited for', { skip }, async (t) => {
  const prompts = await reader(t, 1)
  const long = talk('x'.repeat(200_000))
  await t.rejects(prompts.read(long, never), { reason: 'invalid_request', message: /longer than 0.001 s/ })
  const abort = new AbortController()
  const waiting = prompts.read(long, never)
  const cancelled = prompts.read(long, abort.signal)
  abort.abort(new Error('gone'))
  await t.rejects(cancelled, { message: 'gone' })
  await t.rejects(waiting, { reason: 'invalid_request', message: /longer than/ })
  t.equal((await prompts.read(talk('short'), never)).length, 1, 'others are read')
})
