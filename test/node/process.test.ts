import t from 'tap'
import { chmodSync, cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { Agent, request } from 'node:http'
import { ask, hear, refusal, stream, streamed } from './http.js'
import { faultsConfig, figure, folder, pick, sleep, startNode, svc, until } from './kit.js'
import { alive, cmdline, descendants } from './proc.js'
import type { Heard, Host } from './http.js'
import type { TestNode } from './kit.js'

const TTS = 'tts@1.0.0'
const does = (what: string, options: object = {}): object =>
  ({ model: 'test/ok', text: 'x', instruct: JSON.stringify({ do: what, ...options }) })
const secondsSince = (start: number): number => Math.round(performance.now() - start) / 1000

t.test('T-R02: kill -9 leaves nothing behind', async (t) => {
  const rows: [string, NodeJS.ProcessEnv['PATH'], (node: TestNode) => number][] = [
    ['the node', undefined, (node) => node.pid],
    ['the launcher', undefined, (node) => node.child.pid],
    ['the node, without setpriv', 'bare', (node) => node.pid],
    ['the launcher, without setpriv', 'bare', (node) => node.child.pid]
  ]
  const bare = pathWithout(t, 'setpriv')
  let slowest = 0
  for (const [who, path, victim] of rows) {
    for (let n = 0; n < pick(1, 5); n++) {
      const node = await startNode(t, { config: faultsConfig(), ...(path === undefined ? {} : { env: { PATH: bare } }) })
      const below = [node.pid, ...descendants(node.pid), node.child.pid]
      t.ok(node.runners().length === 1 && below.length >= 3)
      const opened = await stream(node, TTS, does('count', { delayMs: 10 }))
      await opened.frames.next()
      const start = performance.now()
      process.kill(victim(node), 'SIGKILL')
      await until(`all of it to end after kill -9 of ${who}`, () => below.every((pid) => !alive(pid)), { seconds: 15, everyMs: 5 })
        .catch((error: Error) => { t.fail(`${error.message}: left are ${below.filter(alive).map(cmdline).join(' | ')}`) })
      slowest = Math.max(slowest, performance.now() - start)
      await node.child.ended
      t.equal((await hear(opened)).terminals, 0, 'the stream is cut, not ended')
      // The home is usable again, and says nothing about the dead.
      const again = await startNode(t, { home: node.home })
      t.equal((await streamed(again, TTS, does('count', { chunks: 1 }))).last?.header.kind, 'completed', `after ${who}`)
      await again.kill()
    }
  }
  figure(t, 'T-R02', t.passing(), { orphans: 0, slowestMs: Math.round(slowest) })
})

/** A PATH with everything in the folders of ours but one program. */
function pathWithout (t: Parameters<typeof folder>[0], program: string): string {
  const where = folder(t)
  for (const dir of (process.env['PATH'] ?? '').split(delimiter)) {
    for (const name of existsSync(dir) ? readdirSync(dir) : []) {
      if (name !== program && !existsSync(join(where, name))) {
        try { symlinkSync(join(dir, name), join(where, name)) } catch { /* two of one name */ }
      }
    }
  }
  return where
}

/** Load on a node until told to stop: streams of about a second, and short requests over kept connections. */
function load (host: Host, streams: number): { stop: () => Promise<{ heard: Heard[], refused: number[], errors: string[] }>, statuses: Map<string, number> } {
  let on = true
  const heard: Heard[] = []
  const refused: number[] = []
  const errors: string[] = []
  const statuses = new Map<string, number>()
  const agent = new Agent({ keepAlive: true })
  const one = async (): Promise<void> => {
    while (on) {
      try {
        heard.push(await streamed(host, TTS, does('count', { chunks: 20, delayMs: 50 })))
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
  return { statuses, async stop () { on = false; await Promise.all(work); agent.destroy(); return { heard, refused, errors } } }
}

/** GET /node_id over a kept connection, as a word. */
function ping (host: Host, agent: Agent): Promise<string> {
  return new Promise((resolve) => {
    const req = request(`${host.url}/node_id`, { agent, headers: { authorization: `Bearer ${host.token ?? ''}` } }, (res) => {
      res.resume()
      res.on('end', () => { resolve(String(res.statusCode)) })
      res.on('error', () => { resolve('cut') })
    })
    req.on('error', (error: NodeJS.ErrnoException) => { resolve(error.code ?? 'error') })
    req.end()
  })
}

t.test('T-R14: stopping and restarting under load', async (t) => {
  t.test('SIGTERM: new requests are refused, each stream gets one terminal, the end comes in time', async (t) => {
    for (const to of ['node', 'launcher'] as const) {
      const node = await startNode(t, { config: faultsConfig() })
      const below = descendants(node.child.pid)
      // One would go on for ever, one ends by itself while the node drains.
      const endless = to === 'node' || pick(false, true)
      const streams = [await stream(node, TTS, does('count', { chunks: 30, delayMs: 50 })),
        ...endless ? [await stream(node, TTS, does('count', { delayMs: 20 }))] : []]
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
      const [short, long] = await Promise.all(streams.map(hear))
      t.match([short?.terminals, short?.last?.header.kind], [1, 'completed'], 'what ends in time is heard to its end')
      if (endless) {
        t.equal(long?.terminals, 1)
        t.match(long?.last?.header, { kind: 'failed', error: { reason: 'shutting_down', retryable: true } })
      }
      const status = await node.child.ended
      const seconds = secondsSince(start)
      t.equal(status, 0)
      t.ok(below.every((pid) => !alive(pid)), 'nothing is left')
      idle.destroy()
      figure(t, 'T-R14', t.passing() && seconds <= 15, { how: `SIGTERM to the ${to}`, seconds })
    }
  })

  t.test('POST /admin/restart: connections wait or are told, none is refused', async (t) => {
    const node = await startNode(t, { config: faultsConfig({ limits: { calls_at_once: 32 } }) })
    const { statuses, stop } = load(node, 6)
    await until('load', () => (statuses.get('200') ?? 0) > 10)
    const start = performance.now()
    const answer = await ask(node, '/admin/restart', { body: {} })
    t.match([answer.status, answer.json], [200, { status: 'restarting', node_id: node.nodeId }], answer.text)
    const second = await ask(node, '/admin/restart', { method: 'POST' }).catch(() => undefined)
    if (second !== undefined) t.ok([409, 503].includes(second.status) || (second.json as { node_id?: string }).node_id !== node.nodeId)
    const nodeId = await until('another node process', async () => {
      const now = await ask(node, '/node_id')
      return now.status === 200 && now.json !== node.nodeId && now.json as string
    })
    const answers = secondsSince(start)
    await until('/readyz', async () => (await ask(node, '/readyz')).status === 200)
    const ready = secondsSince(start)
    const { heard, refused, errors } = await stop()
    t.ok(heard.every((h) => h.terminals === 1), `${heard.length} streams, each with one terminal`)
    t.ok(heard.every((h) => h.last?.header.kind === 'completed' || h.last?.header.error?.reason === 'shutting_down'))
    t.ok(refused.every((status) => status === 503 || status === 404), `refusals say 503, or 404 before the runner is ready: ${String([...new Set(refused)])}`)
    t.strictSame(errors, [], 'no connection was refused or cut')
    t.strictSame([...statuses.keys()].filter((s) => s !== '200' && s !== '503' && s !== 'ECONNRESET'), [], 'kept connections get an answer, or were closed while idle')
    t.ok(!alive(node.pid) && alive(node.child.pid), 'the launcher is the same')
    t.not(nodeId, node.nodeId)
    t.match(node.child.stderr(), /restarted: http/)
    const home = JSON.parse(readFileSync(join(node.home, 'run/node.json'), 'utf8')) as { pid: number }
    t.ok(alive(home.pid), 'the home names the new process')
    node.child.process.kill('SIGTERM')
    t.equal(await node.child.ended, 0)
    figure(t, 'T-R14', t.passing(), { how: 'restart', answersSeconds: answers, readySeconds: ready, streams: heard.length })
  })
})

t.test('SIGSTOP and SIGCONT of the node', async (t) => {
  const node = await startNode(t, { config: faultsConfig() })
  const runner = node.runners()[0]!
  const opened = await stream(node, TTS, does('count', { chunks: 100, delayMs: 20 }))
  await opened.frames.next()
  process.kill(node.pid, 'SIGSTOP')
  const waiting = ask(node, '/node_id')
  await sleep(pick(4000, 20_000))
  t.equal(await Promise.race([waiting.then(() => 'answered'), sleep(50).then(() => 'waits')]), 'waits')
  process.kill(node.pid, 'SIGCONT')
  t.equal((await waiting).status, 200, 'what was asked meanwhile is answered')
  const heard = await hear(opened)
  t.match([heard.terminals, heard.last?.header.kind], [1, 'completed'], 'the stream goes on')
  t.equal((await ask(node, '/readyz')).status, 200)
  t.strictSame(node.runners(), [runner], 'no runner was given up for the time the node slept')
})

t.test('homes and ports in use, and homes of a later version', async (t) => {
  const node = await startNode(t, { config: faultsConfig() })
  const fresh = (): string => join(folder(t), 'home')

  const port = await svc(['up', '--json', '--home', fresh(), '--port', String(node.port)])
  t.equal(port.status, 1)
  t.match(port.stderr, new RegExp(`port ${node.port} is in use by .*--port`))
  t.equal(port.stdout, '')

  const home = await svc(['up', '--json', '--home', node.home, '--port', '0'])
  t.equal(home.status, 1)
  t.match(home.stderr, new RegExp(`the home ${node.home} is in use by process ${node.pid}.*--home`))
  t.equal((await ask(node, '/node_id')).json, node.nodeId, 'the first one is left alone')
  t.equal((await streamed(node, TTS, does('count', { chunks: 1 }))).last?.header.kind, 'completed')
  node.child.process.kill('SIGTERM')
  t.equal(await node.child.ended, 0)

  for (const file of ['node.json', 'state/tokens.json']) {
    const at = fresh()
    cpSync(node.home, at, { recursive: true })
    const path = join(at, file)
    const value = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) as object : { tokens: [] }
    for (const [format, message] of [[99, /has format 99, this svc reads up to 1; use the newer svc/], ['x', /has format x/]] as const) {
      writeFileSync(path, JSON.stringify({ ...value, format }))
      const { status, stderr } = await svc(['up', '--json', '--home', at, '--port', '0'])
      t.equal(status, 1, file)
      t.match(stderr, message)
      t.match(stderr, file)
    }
    writeFileSync(path, '{"format":1')
    t.match((await svc(['up', '--json', '--home', at, '--port', '0'])).stderr, /is not valid JSON; restore it/)
  }
  const open = fresh()
  cpSync(node.home, open, { recursive: true })
  chmodSync(join(open, 'operator.token'), 0o644)
  t.match((await svc(['up', '--home', open, '--port', '0'])).stderr, /operator\.token can be read by others; run: chmod 600/)
  const below = join(open, 'node.json', 'svc')
  const nowhere = await svc(['up', '--home', below, '--port', '0'])
  t.equal(nowhere.status, 1)
  t.match(nowhere.stderr, new RegExp(`cannot make the home ${below}: .*--home`))
})

const root = process.getuid?.() === 0 && process.platform === 'linux'
t.test('a home on a full disk', { skip: root ? false : 'mounting a small disk needs root on Linux' }, async (t) => {
  const where = mkdtempSync(join(tmpdir(), 'svc-disk-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', where])
  if (mounted.status !== 0) {
    rmSync(where, { recursive: true })
    t.skip('this system lets nobody mount a disk')
    return
  }
  t.teardown(() => { spawnSync('umount', ['-l', where]); rmSync(where, { recursive: true, force: true }) })
  const home = join(where, 'home')
  const node = await startNode(t, { home, config: faultsConfig() })
  const health = async (): Promise<{ level: string, reasons: { code: string, remediation: string }[] }> => {
    const { nodeHealth } = (await ask(node, '/state')).json as { nodeHealth: Record<string, Awaited<ReturnType<typeof health>>> }
    return nodeHealth[node.nodeId]!
  }
  t.match(await until('disk_full', async () => { const h = await health(); return h.reasons.some((r) => r.code === 'disk_full') && h }),
    { level: 'error', reasons: [{ remediation: String }] })
  for (const [n, size] of [1 << 20, 1 << 16, 1 << 12, 1].entries()) {
    try { for (let i = 0; ; i++) writeFileSync(join(where, `fill-${n}-${i}`), Buffer.alloc(size)) } catch { /* full */ }
  }
  const token = await ask(node, '/v1/tokens', { body: { label: 'x', authorities: ['read'] } })
  t.ok(token.status >= 500 || token.status === 200, `a token that cannot be kept: ${token.status} ${token.text.slice(0, 200)}`)
  if (token.status >= 500) {
    const { tokens } = (await ask(node, '/v1/tokens')).json as { tokens: unknown[] }
    t.equal(tokens.length, 0, 'a token that could not be kept is not there either')
  }
  t.notMatch(token.text, /ENOSPC.*\//, 'no path in the answer')
  t.equal((await streamed(node, TTS, does('count', { chunks: 3 }))).last?.header.kind, 'completed', 'speech goes on')
  const [runner] = node.runners()
  process.kill(runner!, 'SIGKILL')
  await until('the runner is back, or says why not', async () => {
    const { supervisorRunners } = (await ask(node, '/v1/diagnostics/node')).json as { supervisorRunners: { statusKind: string, pid: number | null }[] }
    return supervisorRunners.some((r) => r.pid !== runner && (r.statusKind === 'RunnerReady' || r.statusKind === 'RunnerFailed'))
  })
  t.equal((await ask(node, '/healthz')).status, 200)
  await node.kill()
  const again = await svc(['up', '--json', '--home', join(where, 'second'), '--port', '0'])
  t.equal(again.status, 1, 'a new home on it is refused')
  t.match(again.stderr, /ENOSPC|no space/i)
  t.notMatch(again.stderr, /\n\s+at /, 'without a stack')
  for (const name of readdirSync(where)) if (name.startsWith('fill-')) rmSync(join(where, name))
  const back = await startNode(t, { home })
  t.equal((await streamed(back, TTS, does('count', { chunks: 3 }))).last?.header.kind, 'completed', 'with space again, all is well')
})
