import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { TextReader } from '../embed/reader.js'
import { readTokenizer } from '../embed/tokenizer.js'
import { writeEncoder } from './embed-kit.js'

/** Threads need the built file, because they cannot load TypeScript. */
const entry = new URL('../../../dist/plugins/chat/embed/thread.js', import.meta.url)
const skip = existsSync(entry) ? false : 'needs the built thread: npm run build'
const never = new AbortController().signal

async function reader (
  t: { testdir: () => string, teardown: (end: () => Promise<void>) => unknown }, longestMs = 60_000
): Promise<TextReader> {
  const folder = t.testdir()
  await writeEncoder(folder)
  const files = { tokenizer: join(folder, 'tokenizer.json'), config: undefined, special: undefined }
  const made = new TextReader(await readTokenizer(files), files, { entry, longestMs })
  t.teardown(async () => { await made.close() })
  return made
}

/** Number of threads of this process; 0 on systems other than Linux. */
const threads = (): number => process.platform === 'linux' ? readdirSync('/proc/self/task').length : 0

t.test('a long text is read by a thread, with the ids of the short ones', { skip }, async (t) => {
  const texts = await reader(t)
  const before = threads()
  const [plain] = await texts.read({ texts: ['hello'], special: false }, never)
  t.equal(threads(), before, 'no thread for short ones')
  const many = await texts.read({ texts: ['hello', 'y'.repeat(9_000)], special: false }, never)
  t.ok(threads() > before || process.platform !== 'linux')
  t.same(many.map(({ length }) => length), [5, 9_000])
  t.same(many[0], plain)
})

t.test('one that takes too long is refused, one that is cancelled is not waited for', { skip }, async (t) => {
  const texts = await reader(t, 1)
  const long = { texts: ['x'.repeat(200_000)], special: true }
  await t.rejects(texts.read(long, never), { reason: 'invalid_request', message: /longer than 0.001 s/ })
  const abort = new AbortController()
  const waiting = texts.read(long, never)
  const cancelled = texts.read(long, abort.signal)
  abort.abort(new Error('gone'))
  await t.rejects(cancelled, { message: 'gone' })
  await t.rejects(waiting, { reason: 'invalid_request', message: /longer than/ })
  t.equal((await texts.read({ texts: ['short'], special: true }, never)).length, 1, 'others are read')
})
