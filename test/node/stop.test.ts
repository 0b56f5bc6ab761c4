import t from 'tap'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { ask, readStream, refusal, stream, streamed, type StreamResult, type Host } from './http.js'
import { does, TTS } from './engine.js'
import { faultsConfig, figure, inTime, pick, secondsSince, sleep, startNode, until } from './kit.js'
import { alive, descendants } from './proc.js'

/** Keeps load on a node until stopped: streams of about a second, and short keep-alive requests. */
function load (host: Host, streams: number): { stop: () => Promise<{ heard: StreamResult[], refused: number[],
  errors: string[] }>, statuses: Map<string, number> } {
  let on = true
  const heard: StreamResult[] = []
  const refused: number[] = []
  const errors: string[] = []
  const statuses = new Map<string, number>()
  const agent = new Agent({ keepAlive: true })
  const one = async (): Promise<void> => {
    while (on) {
      try {
        heard.push(await streamed(host, TTS, does('test/ok', 'count', { chunks: 20, delayMs: 50 })))
      } catch (error) {
        const { status, message } = error as { status?: number, message: string }
        if (status === undefined) errors.push(message)
        else refused.push(status)
        await sleep(20)
      }
    }
  }
  const pings = async (): Promise<void> => {
    while (on) {
      const outcome = await ping(host, agent)
      statuses.set(outcome, (statuses.get(outcome) ?? 0) + 1)
      await sleep(10)
    }
  }
  const work = [...Array.from({ length: streams }, one), pings()]
  return { statuses, async stop () {
    on = false; await Promise.all(work); agent.destroy(); return { heard,
      refused, errors }
  } }
}

/** Result of GET /node_id over a keep-alive connection, such as `200` or `cut`. */
function ping (host: Host, agent: Agent): Promise<string> {
  return new Promise((resolve) => {
    const req = request(`${host.url}/node_id`,
      { agent, headers: { authorization: `Bearer ${host.token ?? ''}` } }, (res) => {
        res.resume()
        res.on('end', () => { resolve(String(res.statusCode)) })
        res.on('error', () => { resolve('cut') })
      })
    req.on('error', (error: NodeJS.ErrnoException) => { resolve(error.code ?? 'error') })
    req.end()
  })
}

t.test('T-R14: stopping and restarting under load', async (t) => {
  t.test('SIGTERM: new requests are refused, each stream gets one terminal, the end comes in time',
    async (t) => {
      for (const to of ['node', 'launcher'] as const) {
        const node = await startNode(t, { config: faultsConfig() })
        const below = descendants(node.child.pid)
        // One stream is endless, and one ends by itself while the node drains.
        const endless = to === 'node' || pick(false, true)
        const streams = [await stream(node, TTS, does('test/ok', 'count', { chunks: 30, delayMs: 50 })),
          ...endless ? [await stream(node, TTS, does('test/ok', 'count', { delayMs: 20 }))] : []]
        for (const { frames } of streams) await frames.next()
        const idle = new Agent({ keepAlive: true })
        t.equal(await ping(node, idle), '200')
        const start = performance.now()
        process.kill(to === 'node' ? node.pid : node.child.pid, 'SIGTERM')
        await until('refusals', async () => {
          const answer = await ask(node, '/node_id')
          if (answer.status !== 503) return false
          t.equal(refusal(answer)?.reason, 'shutting_down')
          t.ok(Number(answer.headers['retry-after']) >= 1)
          return true
        }, { everyMs: 5 })
        t.equal(await ping(node, idle), '503', 'a connection that was kept open is answered too')
        const [short, long] = await Promise.all(streams.map(readStream))
        t.match([short?.terminals, short?.last?.header.kind], [1, 'completed'],
          'what ends in time is heard to its end')
        if (endless) {
          t.equal(long?.terminals, 1)
          t.match(long?.last?.header, { kind: 'failed', error: { reason: 'shutting_down', retryable: true } })
        }
        const status = await node.child.ended
        const seconds = secondsSince(start)
        t.equal(status, 0)
        t.ok(below.every((pid) => !alive(pid)), 'nothing is left')
        idle.destroy()
        figure(t, 'T-R14', t.passing() && inTime(seconds, 15), { how: `SIGTERM to the ${to}`, seconds })
      }
    })

  t.test('POST /admin/restart: connections wait or get an answer, none is refused', async (t) => {
    const node = await startNode(t, { config: faultsConfig({ limits: { calls_at_once: 32 } }) })
    const { statuses, stop } = load(node, 6)
    await until('load', () => (statuses.get('200') ?? 0) > 10)
    const start = performance.now()
    const answer = await ask(node, '/admin/restart', { body: {} })
    t.match([answer.status, answer.json], [200, { status: 'restarting', node_id: node.nodeId }], answer.text)
    const second = await ask(node, '/admin/restart', { method: 'POST' }).catch(() => undefined)
    if (second !== undefined) t.ok([409, 503].includes(second.status) ||
      (second.json as { node_id?: string }).node_id !== node.nodeId)
    const nodeId = await until('another node process', async () => {
      const now = await ask(node, '/node_id')
      return now.status === 200 && now.json !== node.nodeId && now.json as string
    })
    const answers = secondsSince(start)
    await until('/readyz', async () => (await ask(node, '/readyz')).status === 200)
    const ready = secondsSince(start)
    const { heard, refused, errors } = await stop()
    t.ok(heard.every((h) => h.terminals === 1), `${heard.length} streams, each with one terminal`)
    t.ok(heard.every((h) => h.last?.header.kind === 'completed' ||
      h.last?.header.error?.reason === 'shutting_down'))
    t.ok(refused.every((status) => status === 503 || status === 404),
      `refusals say 503, or 404 before the runner is ready: ${String([...new Set(refused)])}`)
    t.strictSame(errors, [], 'no connection was refused or cut')
    t.strictSame([...statuses.keys()].filter((s) => s !== '200' && s !== '503' && s !== 'ECONNRESET'), [],
      'kept connections get an answer, or were closed while idle')
    t.ok(!alive(node.pid) && alive(node.child.pid), 'the launcher is the same')
    t.not(nodeId, node.nodeId)
    t.match(node.child.stderr(), /restarted: http/)
    const home = JSON.parse(readFileSync(join(node.home, 'run/node.json'), 'utf8')) as { pid: number }
    t.ok(alive(home.pid), 'the home names the new process')
    node.child.process.kill('SIGTERM')
    t.equal(await node.child.ended, 0)
    figure(t, 'T-R14', t.passing(), { how: 'restart', answersSeconds: answers, readySeconds: ready,
      streams: heard.length })
  })
})

t.test('SIGSTOP and SIGCONT of the node', async (t) => {
  const node = await startNode(t, { config: faultsConfig() })
  const runner = node.runners()[0]!
  const opened = await stream(node, TTS, does('test/ok', 'count', { chunks: 100, delayMs: 20 }))
  await opened.frames.next()
  process.kill(node.pid, 'SIGSTOP')
  const waiting = ask(node, '/node_id')
  await sleep(pick(4000, 20_000))
  t.equal(await Promise.race([waiting.then(() => 'answered'), sleep(50).then(() => 'waits')]), 'waits')
  process.kill(node.pid, 'SIGCONT')
  t.equal((await waiting).status, 200, 'what was asked meanwhile is answered')
  const heard = await readStream(opened)
  t.match([heard.terminals, heard.last?.header.kind], [1, 'completed'], 'the stream continues')
  t.equal((await ask(node, '/readyz')).status, 200)
  t.strictSame(node.runners(), [runner], 'no runner was given up for the time the node slept')
})
