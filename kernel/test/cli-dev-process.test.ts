import t from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { packageRoot } from '../boot/package.js'
import type { ChildProcess } from 'node:child_process'
import type { Test } from 'tap'

/** The compiled command line, as a user starts it. */
const main = join(packageRoot(), 'dist/kernel/cli/main.js')
const { NODE_OPTIONS: _, ...inherited } = process.env
const env = { ...inherited, SVC_PLUGINS_RUNNERS_ENABLED: 'false' }

interface Shown { nodes: { url: string, nodeId: string, pid: number, home: string, name: string }[]
  masterNodeId: string, sessionId: string }

async function dev (t: Test): Promise<{ child: ChildProcess, shown: Shown, home: string }> {
  const home = mkdtempSync(join(tmpdir(), 'svc-dev-'))
  const words = ['dev', '--nodes', '1', '--base-port', '0', '--home', home, '--json']
  const child = spawn(process.execPath, [main, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let err = ''
  child.stderr.on('data', (part) => { err += String(part) })
  const over = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await over
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  })
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), 'line'),
    over.then(() => { throw new Error(err) })]) as [string]
  return { child, home, shown: JSON.parse(line) as Shown }
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
    const { pid } = JSON.parse(readFileSync(join(node.home, 'run', 'node.json'), 'utf8')) as { pid: number }
    t.doesNotThrow(() => process.kill(node.pid, 0), 'the process that was named is still there')
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
