import t from 'tap'
import { ask, call, dial, headOf, readStream, open, stream, streamed } from './http.js'
import { does, ready, report, runnerLogs, TTS } from './engine.js'
import { faultsConfig, figure, full, inTime, pick, secondsSince, sleep, startNode, until } from './kit.js'
import { oomScoreAdj, rss, sockets } from './proc.js'
import type { StreamResult, Raw } from './http.js'
import type { TestNode } from './kit.js'
import type { Test } from 'tap'

const VOICE = 'svc/voice-en'
const STALL_SECONDS = pick(2, 30)

/** Checks that the stream ended once with the retryable reason for a lost instance. */
function lost (t: Test, heard: StreamResult, what: string): void {
  t.equal(heard.terminals, 1, `${what}: exactly one terminal`)
  t.match(heard.last?.header, { kind: 'failed', error: { reason: 'instance_lost', retryable: true,
    code: 500 } }, what)
}

t.test('runners that die, hang, flood and grow', async (t) => {
  const node = await startNode(t, { config: faultsConfig({
    limits: { stream_stall_seconds: STALL_SECONDS }, logging: { enabled: true, level: 'debug' }
  }, { autoplace: ['test/ok', 'test/b', 'test/c', VOICE], memory_limit_mb: 384 }) })

  t.test('T-R01: kill -9 of a runner in the middle of speech', async (t) => {
    // A runner that fails three times within a minute is not restarted, so this test kills it at most twice.
    for (let n = 0; n < pick(1, 2); n++) {
      const { pid } = await ready(node, VOICE)
      const text = 'All work and no play makes a dull day. '.repeat(400)
      const framed = await stream(node, TTS, { model: VOICE, text })
      const events = await open(node, '/v1/capabilities/stream',
        { body: call(node, TTS, { model: VOICE, text }), headers: { accept: 'text/event-stream' } })
      const raw = await open(node, '/v1/capabilities/stream', { body: call(node, TTS, { model: VOICE, text }),
        headers: { accept: 'audio/mpeg' } })
      const bystander = streamed(node, TTS, does('test/b', 'count', { chunks: 40, delayMs: 25 }))
      await framed.frames.next()
      await framed.frames.next()
      const start = performance.now()
      process.kill(pid!, 'SIGKILL')
      const heard = await readStream(framed)
      const errorSeconds = secondsSince(start)
      lost(t, heard, 'frames')
      let text2 = ''
      for await (const part of events) text2 += String(part)
      t.equal(text2.match(/"kind":"(completed|failed|cancelled)"/g)?.length, 1,
        'events: exactly one terminal')
      t.match(text2, /"reason":"instance_lost"/)
      await t.rejects(async () => { for await (const part of raw) void part },
        'raw bytes end without a clean end')
      t.equal((await bystander).last?.header.kind, 'completed', 'other runners do not notice')
      await ready(node, VOICE)
      const readySeconds = secondsSince(start)
      t.equal((await streamed(node, TTS, { model: VOICE, text: 'Back again.' })).last?.header.kind,
        'completed')
      const { tasks } = (await ask(node, '/state')).json as { tasks: Record<string,
        { Inference: { modelId: string, status: string } }> }
      const mine = Object.values(tasks).filter(({ Inference: task }) => task.modelId === VOICE)
      t.strictSame([...new Set(mine.map(({ Inference: { status } }) => status))].sort(),
        ['Complete', 'Failed'])
      figure(t, 'T-R01', t.passing() && inTime(errorSeconds, 5), { errorSeconds, readySeconds })
    }
  })

  t.test('T-R06 and T-R09: a blocked runner, and readers that do not read', async (t) => {
    const blocked = (async () => {
      const start = performance.now()
      // The node kills the runner after ten seconds of work, which may exceed the call's deadline.
      const heard = await streamed(node, TTS, does('test/c', 'block'), { extra: { timeout_seconds: 90 } })
      return { heard, seconds: secondsSince(start) }
    })()
    await slowReaders(t, node)
    const { heard, seconds } = await blocked
    lost(t, heard, 'the blocked runner')
    t.equal(heard.frames.filter((f) => f.header.kind === 'chunk').length, 1, 'what it had said was heard')
    await ready(node, 'test/c')
    figure(t, 'T-R06', t.passing() && inTime(seconds, 14), { seconds })
  })

  t.test('raw sound waits for a paused player, and the runner does not', async (t) => {
    const response = await open(node, '/v1/capabilities/stream', { headers: { accept: 'audio/mpeg' },
      body: call(node, TTS, does('test/ok', 'count', { chunks: 110, bytes: 65536 })) })
    await until('the runner is free',
      async () => (await report(node, 'test/ok')).inProgressTasks.length === 0)
    let bytes = 0
    for await (const part of response) bytes += (part as Buffer).byteLength
    t.equal(bytes, 110 * 65536, 'the player still gets all of it')
  })

  t.test('T-R08: clients that disconnect in the middle', async (t) => {
    const ways: Record<string, (opened: Awaited<ReturnType<typeof stream>>) => void> = {
      close: (opened) => { opened.abort() },
      reset: (opened) => { opened.response.socket.resetAndDestroy() }
    }
    const took: number[] = []
    for (const [way, leave] of Object.entries(ways)) {
      for (let n = 0; n < pick(1, 20); n++) {
        // The engine logs the length of its text, so a distinct length identifies this task.
        const length = 1000 + took.length
        const opened = await stream(node, TTS, does('test/ok', 'count', { delayMs: 20 }, 'x'.repeat(length)))
        await opened.frames.next()
        await opened.frames.next()
        const start = performance.now()
        leave(opened)
        await until(`the runner is notified of the ${way}`, () => node.child.stdout().split('\n')
          .some((line) => line.includes('a task is over') && line.includes(`"text":${length}`) &&
            line.includes('"aborted":true')), { everyMs: 10 })
        took.push(performance.now() - start)
        await until('its place is free',
          async () => (await report(node, 'test/ok')).inProgressTasks.length === 0)
      }
    }
    const most = Math.round(Math.max(...took))
    figure(t, 'T-R08', inTime(most, 1000), { runs: took.length, mostMs: most })
  })

  t.test('T-R07: a runner that floods its output or its socket', async (t) => {
    const before = rss(node.pid)
    let most = before
    const slow: number[] = []
    const flood = streamed(node, TTS, does('test/b', 'flood', { seconds: pick(3, 10) }))
    let over = false
    void flood.finally(() => { over = true })
    while (!over) {
      const start = performance.now()
      await ask(node, '/healthz')
      slow.push(performance.now() - start)
      most = Math.max(most, rss(node.pid))
      await sleep(20)
    }
    const heard = await flood
    t.equal(heard.last?.header.kind, 'completed', 'the task is not disturbed')
    const megabytes = (heard.frames.at(-2)?.header.payload as { sample_rate: number }).sample_rate
    const logs = runnerLogs(node.home)
    t.ok(logs.some(({ text }) => /\[\d+ lines dropped: too many per second\]/.test(text)),
      'what was too much is counted')
    t.ok(logs.every(({ bytes }) => bytes <= 5_100_000), 'and kept small')
    const p99 = Math.round(slow.sort((a, b) => a - b)[Math.floor(slow.length * 0.99)] ?? 0)
    const { pid } = await ready(node, 'test/b')
    const control = await streamed(node, TTS, does('test/b', 'control'))
    lost(t, control, 'a flood of frames')
    t.not((await ready(node, 'test/b')).pid, pid)
    const grown = most - before
    figure(t, 'T-R07', t.passing() && grown < 60e6 && inTime(p99, 100), { floodedMB: megabytes,
      grownMB: Math.round(grown / 1e6), apiP99Ms: p99 })
  })

  t.test('T-R12: a runner that grows past its share', async (t) => {
    const others = [await ready(node, 'test/ok'), await ready(node, VOICE)].map((r) => r.pid)
    const { pid } = await ready(node, 'test/c')
    t.equal(oomScoreAdj(pid!), 500, 'the system takes a runner before the node')
    t.ok(oomScoreAdj(node.pid) < 500)
    let most = 0
    const watching = setInterval(() => { most = Math.max(most, rss(pid!)) }, 20)
    const heard = await streamed(node, TTS, does('test/c', 'grow', { mebibytes: 16 }))
    clearInterval(watching)
    lost(t, heard, 'the runner that grew')
    t.match(heard.last?.header.error?.message, /memory|MiB|bytes/i, 'says that it was memory')
    t.strictSame([await ready(node, 'test/ok'), await ready(node, VOICE)].map((r) => r.pid), others,
      'the others live on')
    await ready(node, 'test/c')
    figure(t, 'T-R12', t.passing(), { killedAtMB: Math.round(most / 1e6), limitMB: 403 })
  })

  t.test('an engine\'s exception is one terminal frame that reveals no internals', async (t) => {
    for (const [what, reason] of [['throws', 'provider_error'], ['offSchema', 'invalid_result']] as const) {
      const heard = await streamed(node, TTS, does('test/ok', what)).catch((error: { text?: string }) =>
        error.text ?? '')
      const seen = typeof heard === 'string' ? heard : JSON.stringify(heard.last?.header)
      t.match(seen, new RegExp(`"reason":"${reason}"`), what)
      t.notMatch(seen, /secret/)
      if (typeof heard !== 'string') t.equal(heard.terminals, 1)
    }
    t.equal((await streamed(node, TTS, does('test/ok', 'count', { chunks: 2 }))).last?.header.kind,
      'completed')
  })
})

/**
 * Clients that stop reading: memory stays bounded, other clients are not slowed down, and then these clients
 * are disconnected.
 */
async function slowReaders (t: Test, node: TestNode): Promise<void> {
  const before = rss(node.pid)
  const start = performance.now()
  const body = JSON.stringify(call(node, TTS, does('test/ok', 'count', { bytes: 65536 })))
  const readers: Raw[] = await Promise.all(Array.from({ length: 5 }, () => dial(node.port)))
  for (const { socket } of readers) {
    socket.write(headOf(node, 'POST', '/v1/capabilities/stream',
      ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]) + body)
    socket.pause()
  }
  if (full) {
    // Reads 1 KB a second for a while, then stops reading.
    for (let n = 0; n < 30; n++) { for (const { socket } of readers) socket.read(1024); await sleep(1000) }
  }
  let most = 0
  await until('the node to wait for them',
    async () => (await report(node, 'test/ok')).inProgressTasks.length === 5)
  const held = sockets(node.pid)
  const other = await streamed(node, TTS, does('test/b', 'count', { chunks: 50, delayMs: 10 }))
  t.equal(other.last?.header.kind, 'completed', 'other streams are not held up')
  await until('the slow readers are cut off', () => {
    most = Math.max(most, rss(node.pid))
    return node.child.stdout().split('"reason":"slow_consumer"').length > 5
  }, { seconds: 2 * STALL_SECONDS + 30 })
  const seconds = secondsSince(start)
  await until('their sockets are closed', () => sockets(node.pid) <= held - 5)
  await until('their places are free',
    async () => (await report(node, 'test/ok')).inProgressTasks.length === 0)
  for (const { socket } of readers) socket.destroy()
  const grown = most - before
  figure(t, 'T-R09', t.passing() && grown < 100e6 && seconds >= STALL_SECONDS,
    { readers: 5, grownMB: Math.round(grown / 1e6), seconds })
}
