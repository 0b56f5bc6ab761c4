import t, { type Test } from 'tap'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { packageRoot } from '../../../kernel/boot/package.js'

/** The compiled command line, as a user starts it. */
const main = join(packageRoot(), 'dist/kernel/cli/main.js')
const { NODE_OPTIONS: _, ...inherited } = process.env
const env = { ...inherited, SVC_PLUGINS_RUNNERS_ENABLED: 'false' }

interface Shown { nodes: { url: string, nodeId: string, pid: number, home: string, name: string }[]
  masterNodeId: string, sessionId: string }

interface Dev { child: ChildProcess, shown: Shown, home: string, err: () => string }

async function dev (t: Test, nodes = 1): Promise<Dev> {
  const home = join(mkdtempSync(join(tmpdir(), 'svc-dev-')), 'wörk space')
  const words = ['dev', '--nodes', `${nodes}`, '--base-port', '0', '--home', home, '--json']
  const child = spawn(process.execPath, [main, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let err = ''
  child.stderr.on('data', (part) => { err += String(part) })
  const over = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await over
    rmSync(dirname(home), { recursive: true, force: true, maxRetries: 5 })
  })
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), 'line'),
    over.then(() => { throw new Error(err) })]) as [string]
  return { child, home, shown: JSON.parse(line) as Shown, err: () => err }
}

const pidAt = (home: string): number =>
  (JSON.parse(readFileSync(join(home, 'run', 'node.json'), 'utf8')) as { pid: number }).pid

const svc = (...words: string[]): string =>
  spawnSync(process.execPath, [main, ...words], { env, encoding: 'utf8' }).stdout

async function until<T> (what: string, look: () => T | undefined): Promise<T> {
  for (let i = 0; i < 1200; i++) {
    const found = look()
    if (found !== undefined) return found
    await sleep(25)
  }
  throw new Error(`waited in vain for ${what}`)
}

t.test('the line that svc dev prints starts a killed node again as it was', async (t) => {
  const { child, shown: { nodes: [first] }, home, err } = await dev(t, 2)
  const known = (): { nodes: { name: string, live: boolean }[] } =>
    JSON.parse(svc('nodes', '--json', '--home', home, '--url', first!.url)) as ReturnType<typeof known>
  t.same(known().nodes.map(({ name }) => name).sort(), ['node1', 'node2'], 'the hint leads there')
  const before = await stateOf(first!)
  process.kill(first!.pid, 'SIGKILL')
  const line = await until('the hint', () => /node1: .*Restart it: (.*)/.exec(err())?.[1])
  const again = spawn('sh', ['-c', `exec ${line}`], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => { again.kill() })
  let said = ''
  again.stdout.on('data', (part) => { said += String(part) })
  again.stderr.on('data', (part) => { said += String(part) })
  const url = await until(`the node is up: ${line}`, () => /svc is up at (\S+)/.exec(said)?.[1])
  t.equal(url, first!.url)
  t.same(await stateOf(first!), before)
  again.kill('SIGTERM')
  t.same(await once(again, 'exit'), [0, null], said)
  child.kill('SIGTERM')
})

/** The parts of a node that must survive a restart: its store, its peers, its identity. */
async function stateOf ({ url, home }: { url: string, home: string }): Promise<unknown> {
  const token = readFileSync(join(home, 'operator.token'), 'utf8').trim()
  const get = async <A> (path: string): Promise<A> =>
    await (await fetch(url + path, { headers: { authorization: `Bearer ${token}` } })).json() as A
  const { entries } = await get<{ entries: { path: string, value: unknown }[] }>('/config')
  const { storePath } = await get<{ storePath: unknown }>('/store/health')
  return { storePath, kept: entries.filter(({ path }) =>
    /^(name|api\.port|cluster\.(port|peers|discovery)|model_store\.store_path)$/.test(path)) }
}

async function gone (pid: number): Promise<boolean> {
  for (let i = 0; i < 400; i++) {
    try { process.kill(pid, 0) } catch { return true }
    const stat = existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, 'utf8') : ''
    if (stat.includes(') Z ')) return true
    await sleep(25)
  }
  return false
}

t.test('svc dev starts real nodes, and they end with it, whatever ends it', async (t) => {
  const check = async (signal: NodeJS.Signals, expected: number | null): Promise<void> => {
    const { child, shown, home } = await dev(t)
    const [node] = shown.nodes as [Shown['nodes'][number]]
    t.match(node, { name: 'node1', home: join(home, 'dev', 'node1'), nodeId: shown.masterNodeId })
    t.equal(node.pid, pidAt(node.home), 'the pid of the node itself')
    const token = readFileSync(join(node.home, 'operator.token'), 'utf8').trim()
    const restart = await fetch(`${node.url}/admin/restart`, {
      method: 'POST', headers: { authorization: `Bearer ${token}` }
    })
    t.equal(restart.status, 200)
    let id = node.nodeId
    while (id === node.nodeId) {
      id = await fetch(`${node.url}/node_id`, { headers: { connection: 'close' } })
        .then(async (answer) => answer.ok ? await answer.json() as string : node.nodeId, () => node.nodeId)
    }
    const pid = pidAt(node.home)
    t.not(pid, node.pid)
    child.kill(signal)
    const [status] = await once(child, 'exit') as [number | null]
    t.equal(status, expected, signal)
    t.ok(await gone(pid), `no node after ${signal}`)
  }
  await check('SIGINT', 130)
  await check('SIGTERM', 0)
  await check('SIGKILL', null)
})
