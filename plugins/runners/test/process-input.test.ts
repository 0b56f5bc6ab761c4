import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { kernelError } from '../../../kernel/index.js'
import { INPUT_AHEAD_BYTES, InputSender, TaskInput } from '../process/input.js'
import { TO_RUNNER } from '../process/protocol.js'
import { bench, hear, until, type Bench } from './process-kit.js'

const KIB = 1024

/** An input that a test fills; counts what was pulled, and whether its reader has closed it. */
class Source implements AsyncIterable<Uint8Array> {
  readonly pieces: Uint8Array[] = []
  pulled = 0
  closed = false
  ended = false
  error: Error | null = null
  wake = (): void => {}

  push (bytes: number, value = 1): void { this.pieces.push(new Uint8Array(bytes).fill(value)); this.wake() }
  end (error: Error | null = null): void { this.ended = true; this.error = error; this.wake() }

  [Symbol.asyncIterator] (): AsyncIterator<Uint8Array> {
    return {
      next: async () => {
        for (;;) {
          const value = this.pieces.shift()
          if (value !== undefined) { this.pulled += value.byteLength; return { done: false, value } }
          if (this.error !== null) throw this.error
          if (this.ended || this.closed) return { done: true, value: undefined }
          await new Promise<void>((resolve) => { this.wake = resolve })
        }
      },
      return: async () => { this.closed = true; this.wake(); return { done: true, value: undefined } }
    }
  }
}

async function ready (t: Parameters<typeof bench>[0], limits: object = {}): Promise<Bench> {
  const b = bench(t, {}, { limits })
  await b.ready()
  return b
}

t.test('an engine reads its input and returns it', async (t) => {
  const b = await ready(t)
  const source = new Source()
  const heard = hear(b.open({ mode: 'echo' }, undefined, source), (i) => {
    if (i === 0) source.push(700 * KIB, 2)
    if (i === 3) source.end()
  })
  source.push(10, 1)
  const { payloads, bytes, end } = await heard
  t.equal(end, 'end')
  t.equal(bytes, 700 * KIB + 10)
  t.same(payloads.map((p) => p['bytes']),
    [10, 256 * KIB + 10, 512 * KIB + 10, 700 * KIB + 10, 700 * KIB + 10], 'in pieces of at most 256 KiB')

  const tiny = new Source()
  for (let i = 0; i < 5_000; i++) tiny.push(1)
  tiny.end()
  t.match(await hear(b.open({ mode: 'echo' }, undefined, tiny)), { bytes: 5_000, end: 'end' },
    'many tiny pieces are no flood of control frames')
})

t.test('the ends of a task end its input', async (t) => {
  const b = await ready(t)
  const check = async (
    name: string, payload: object, act: (source: Source, stop: () => void) => unknown, expected: string,
    closed = true
  ): Promise<void> => {
    const source = new Source()
    const stop = new AbortController()
    source.push(5)
    const heard = hear(b.open({ mode: 'echo', ...payload }, stop.signal, source), async (i) => {
      if (i === 0) await act(source, () => { stop.abort() })
    })
    t.equal((await heard).end, expected, name)
    await until(`${name}: the end of the input`, () => source.closed || source.ended)
    t.equal(source.closed, closed, name)
    await until(`${name}: the end in the runner`, () => b.supervisor.report().inProgressTasks.length === 0)
    t.equal('RunnerReady' in b.supervisor.status, true, name)
  }
  await check('the engine stops reading', { limit: 5 }, () => {}, 'end')
  await check('a cancel while the engine waits for input', {}, (_, stop) => { stop() }, 'cancelled')
  await check('the client breaks off', {},
    (source) => { source.end(kernelError('cancelled', 'The client disconnected.')) }, 'cancelled', false)
  await check('the client sends too much', {},
    (source) => { source.end(kernelError('payload_too_large')) }, 'payload_too_large', false)
  await check('an error without a reason', {},
    (source) => { source.end(new Error('/secret')) }, 'cancelled', false)

  const unread = new Source()
  unread.push(5)
  t.equal((await hear(b.open({ mode: 'echo', refuse: true }, undefined, unread))).end, 'invalid_payload')
  t.same([unread.pulled, unread.closed], [0, false], 'an input that no engine reads stays as it was')

  const lost = new Source()
  lost.push(5)
  const heard = hear(b.open({ mode: 'echo' }, undefined, lost), () => { process.kill(b.pid(), 'SIGKILL') })
  t.equal((await heard).end, 'instance_lost')
  t.equal(lost.closed, true)
})

t.test('at most 1 MiB is sent ahead of a slow engine', async (t) => {
  const b = await ready(t)
  const source = new Source()
  for (let i = 0; i < 64; i++) source.push(64 * KIB)
  source.end()
  let most = 0
  const { bytes } = await hear(b.open({ mode: 'echo', delayMs: 5 }, undefined, source), (_, chunk) => {
    most = Math.max(most, source.pulled - Number(chunk.payload['bytes']))
  })
  t.equal(bytes, 64 * 64 * KIB)
  t.ok(most <= INPUT_AHEAD_BYTES + 64 * KIB, `${most} bytes ahead`)
  t.ok(most > INPUT_AHEAD_BYTES / 2, `${most} bytes ahead: enough to keep an engine busy`)
})

t.test('silence of the client is no silence of the engine', async (t) => {
  const b = await ready(t, { chunkIdleMs: 200 })
  const source = new Source()
  source.push(5)
  const heard = hear(b.open({ mode: 'echo' }, undefined, source), async (i) => {
    if (i !== 0) return
    await sleep(800)
    source.push(6)
    await sleep(50)
    source.end()
  })
  t.match(await heard, { end: 'end', bytes: 11 }, 'the client was silent for four times the limit')

  for (const mode of ['readOnce', 'ignoreInput']) {
    const idle = new Source()
    idle.push(5)
    idle.push(5)
    const stuck = await ready(t, { chunkIdleMs: 200 })
    t.equal((await hear(stuck.open({ mode }, undefined, idle))).end, 'timeout', mode)
  }
})

t.test('a hostile runner gets no more than it may', async (t) => {
  for (const total of [1e15, Number.MAX_SAFE_INTEGER, -1]) {
    const b = await ready(t)
    const source = new Source()
    source.push(5)
    const heard = await hear(b.open({ mode: 'claim', task: 1, total }, undefined, source))
    t.equal(heard.end, 'instance_lost', String(total))
    t.match(b.supervisor.report().flightRecorder.map(({ what }) => what).join(), /broke the frame protocol/)
  }
})

t.test('sender and reader', async (t) => {
  const sent: [number, number][] = []
  const source = new Source()
  let now = 0
  const sender = new InputSender(source, (kind, _header, media) => {
    sent.push([kind, media?.byteLength ?? 0])
  }, () => ++now)
  for (let i = 0; i < 40; i++) source.push(100 * KIB)
  source.end()
  await sleep(5)
  t.same([sent, source.pulled, sender.starved, sender.movedAt], [[], 0, false, null], 'nobody has asked')
  sender.onRead(0)
  await sleep(5)
  const ahead = sent.reduce((sum, [, bytes]) => sum + bytes, 0)
  t.ok(ahead <= INPUT_AHEAD_BYTES && ahead > INPUT_AHEAD_BYTES - 101 * KIB, `${ahead} bytes`)
  t.throws(() => { sender.onRead(INPUT_AHEAD_BYTES + 1) }, { name: 'ProtocolError' })
  for (let read = 0; read < 40; read++) { sender.onRead(read * 101 * KIB); await sleep(1) }
  await sleep(5)
  t.same(sent.at(-1), [TO_RUNNER.inputEnd, 0])
  t.throws(() => { sender.onRead(0) }, { name: 'ProtocolError' }, 'a count does not go back')

  const input = new TaskInput(() => {})
  const frame = { kind: TO_RUNNER.input, task: 0, header: {}, media: new Uint8Array(512 * KIB), bytes: 0 }
  input.onFrame(frame)
  t.throws(() => { input.onFrame(frame) }, { name: 'ProtocolError' }, 'more than was asked for')
  t.throws(() => { input.onFrame({ ...frame, kind: TO_RUNNER.spec }) }, { name: 'ProtocolError' })
})
