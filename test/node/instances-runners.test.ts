import t, { type Test } from 'tap'
import { does, ready, report, TTS } from './engine.js'
import { call, dial, headOf, stream, streamed, type StreamResult } from './http.js'
import { figure, inTime, pick, secondsSince, sleep, until, type TestNode } from './kit.js'
import { askWithin, endWithin, instancesCluster, openEvents, openFrames, placeOn, outcomeOf, settled } from
  './instances-kit.js'
import { rss, sockets } from './proc.js'

const STALL_SECONDS = pick(2, 30)

/** Checks that the stream ended once with the retryable reason for a lost instance. */
function lost (t: Test, heard: StreamResult, what: string): void {
  t.equal(heard.terminals, 1, `${what}: exactly one terminal`)
  t.match(heard.last?.header, { kind: 'failed', error: { reason: 'instance_lost', retryable: true } }, what)
}

/** Samples resident memory until stopped; `most` is the largest growth over the first sample in bytes. */
function growth (pids: readonly number[]): { most: () => number, stop: () => void } {
  const first = pids.map(rss)
  let most = 0
  const timer = setInterval(() => {
    pids.forEach((pid, n) => { most = Math.max(most, rss(pid) - first[n]!) })
  }, 20)
  return { most: () => most, stop: () => { clearInterval(timer) } }
}

// The same faults as in runners.test.ts, but the client is connected to a node other than the runner's.
t.test('runners of another node that die, hang, flood and grow', async (t) => {
  const cluster = await instancesCluster(t, {
    nodes: 2,
    config: { limits: { stream_stall_seconds: STALL_SECONDS, calls_at_once: 256, streams_per_token: 256 },
      logging: { enabled: true, level: 'debug' } },
    plugins: { runners: { memory_limit_mb: 384, max_concurrent: 64 } }
  })
  const { master, others: [worker] } = await cluster.agreed()
  const [near, far] = [master.node, worker!.node]
  const ids: string[] = []
  for (const model of ['test/ok', 'test/b', 'test/c']) ids.push(await placeOn(cluster, worker!, model))
  for (const model of ['test/ok', 'test/b', 'test/c']) {
    await until(`${model} at the other node`, async () => await outcomeOf(near, model) === 'completed')
  }
  t.strictSame(near.runners(), [])
  const blocked = (async () => {
    const start = performance.now()
    // The node kills the runner after ten seconds of work, which may exceed the call's deadline.
    const heard = await streamed(near, TTS, does('test/c', 'block'), { extra: { timeout_seconds: 90 } })
    return { heard, seconds: secondsSince(start) }
  })()

  await t.test('T-R01: kill -9 of a runner', async (t) => {
    const errors: number[] = []
    const readies: number[] = []
    for (let n = 0; n < pick(1, 2); n++) {
      const { pid } = await ready(far, 'test/ok')
      const streams = [await openFrames(near, 'test/ok'), await openEvents(near, 'test/ok'),
        await openFrames(far, 'test/ok')]
      const bystander = await openFrames(near, 'test/b', { chunks: 40, delayMs: 25 })
      const start = performance.now()
      process.kill(pid!, 'SIGKILL')
      for (const each of streams) {
        const end = await endWithin(each, 10)
        t.match(end, { terminals: 1, reason: 'instance_lost', retryable: true, cut: false })
        if (end !== 'hangs') errors.push(Math.round(end.seconds * 1000 - start))
      }
      await until('speech again', async () => await outcomeOf(near, 'test/ok') === 'completed')
      readies.push(secondsSince(start))
      t.match(await endWithin(bystander, 10), { kind: 'completed', terminals: 1 }, 'others do not notice')
      const rings = await settled(cluster.members.filter((m) => m.up))
      t.strictSame(rings.map(({ instanceId }) => instanceId).sort(), [...ids].sort(), 'the same instances')
    }
    figure(t, 'T-R01', t.passing() && inTime(Math.max(...readies), 5), {
      errorMs: Math.max(...errors), readySeconds: Math.max(...readies) })
  })

  await t.test('T-R08: clients that disconnect', async (t) => {
    const took: number[] = []
    for (const way of ['close', 'reset'] as const) {
      for (let n = 0; n < pick(1, 20); n++) {
        const length = 1000 + took.length
        const opened = await stream(near, TTS, does('test/ok', 'count', { delayMs: 20 }, 'x'.repeat(length)))
        await opened.frames.next()
        const start = performance.now()
        if (way === 'close') opened.abort()
        else opened.response.socket.resetAndDestroy()
        await until(`the runner is notified of the ${way}`, () => far.child.stdout().split('\n')
          .some((line) => line.includes('a task is over') && line.includes(`"text":${length}`) &&
            line.includes('"aborted":true')), { everyMs: 10 })
        took.push(performance.now() - start)
        await until('its place is free',
          async () => (await report(far, 'test/ok')).inProgressTasks.length === 0)
      }
    }
    const most = Math.round(Math.max(...took))
    figure(t, 'T-R08', t.passing() && inTime(most, 1000), { runs: took.length, mostMs: most })
  })

  await t.test('T-R09: readers that do not read', async (t) => { await slowReaders(t, near, far) })

  await t.test('T-R07: a runner that floods its output, and its socket', async (t) => {
    const grown = growth([near.pid, far.pid])
    const slow: number[] = []
    const flood = streamed(near, TTS, does('test/b', 'flood', { seconds: pick(2, 10) }))
    let over = false
    void flood.finally(() => { over = true })
    while (!over) {
      const start = performance.now()
      await askWithin(near, '/healthz')
      slow.push(performance.now() - start)
      await sleep(20)
    }
    t.equal((await flood).last?.header.kind, 'completed', 'the task is not disturbed')
    lost(t, await streamed(near, TTS, does('test/b', 'control')), 'a flood of frames')
    await until('speech again', async () => await outcomeOf(near, 'test/b') === 'completed')
    grown.stop()
    const p99 = Math.round(slow.sort((a, b) => a - b)[Math.floor(slow.length * 0.99)] ?? 0)
    figure(t, 'T-R07', t.passing() && grown.most() < 60e6, { grownMB: Math.round(grown.most() / 1e6),
      apiP99Ms: p99 })
  })

  await t.test('T-R12: a runner that grows past its share', async (t) => {
    const others = [(await ready(far, 'test/ok')).pid]
    const heard = await streamed(near, TTS, does('test/b', 'grow', { mebibytes: 16 }))
    lost(t, heard, 'the runner that grew')
    t.match(heard.last?.header.error?.message, /memory|MiB|bytes/i, 'says that it was memory')
    t.strictSame([(await ready(far, 'test/ok')).pid], others, 'the others live on')
    figure(t, 'T-R12', t.passing(), { limitMB: 403 })
  })

  await t.test('T-R06: a blocked runner', async (t) => {
    const { heard, seconds } = await blocked
    lost(t, heard, 'the blocked runner')
    t.equal(heard.frames.filter((f) => f.header.kind === 'chunk').length, 1, 'what it had said was heard')
    await until('speech again', async () => await outcomeOf(near, 'test/c') === 'completed')
    figure(t, 'T-R06', t.passing() && inTime(seconds, 16), { seconds })
  })
})

/** Clients that stop reading: the memory of both nodes stays bounded, then the clients are disconnected. */
async function slowReaders (t: Test, near: TestNode, far: TestNode): Promise<void> {
  const grown = growth([near.pid, far.pid])
  const start = performance.now()
  const body = JSON.stringify(call(near, TTS, does('test/ok', 'count', { bytes: 65536 })))
  const readers = await Promise.all(Array.from({ length: 5 }, () => dial(near.port)))
  for (const { socket } of readers) {
    socket.write(headOf(near, 'POST', '/v1/capabilities/stream',
      ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]) + body)
    socket.pause()
  }
  await until('the other node to work for them',
    async () => (await report(far, 'test/ok')).inProgressTasks.length === 5)
  const held = sockets(near.pid)
  const other = await streamed(near, TTS, does('test/b', 'count', { chunks: 50, delayMs: 10 }))
  t.equal(other.last?.header.kind, 'completed', 'other streams are not held up')
  await until('their places are free',
    async () => (await report(far, 'test/ok')).inProgressTasks.length === 0,
    { seconds: STALL_SECONDS + 30 })
  const seconds = secondsSince(start)
  await until('their sockets are closed', () => sockets(near.pid) <= held - 5)
  for (const { socket } of readers) socket.destroy()
  grown.stop()
  figure(t, 'T-R09', t.passing() && grown.most() < 100e6 && seconds >= STALL_SECONDS,
    { readers: 5, grownMB: Math.round(grown.most() / 1e6), seconds })
}
