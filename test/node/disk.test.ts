import t, { type Test } from 'tap'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ask, streamed } from './http.js'
import { acknowledged, sameState, startCluster } from './cluster-kit.js'
import { does, TTS } from './engine.js'
import { cli, faultsConfig, run, startNode, svc, until } from './kit.js'
import { hardKill } from './proc.js'

const root = process.getuid?.() === 0 && process.platform === 'linux'
const skip = root ? false : 'mounting a small disk needs root on Linux'

/** Mount point of a small disk; undefined if this system cannot mount one. */
function smallDisk (t: Test): string | undefined {
  const where = mkdtempSync(join(tmpdir(), 'svc-disk-'))
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', where]).status !== 0) {
    rmSync(where, { recursive: true })
    t.comment('skipped: this system does not allow mounting a disk')
    return undefined
  }
  t.teardown(() => { spawnSync('umount', ['-l', where]); rmSync(where, { recursive: true, force: true }) })
  return where
}

/** Fills the disk to the last byte. */
function fill (where: string): void {
  for (const [n, size] of [1 << 20, 1 << 16, 1 << 12, 1].entries()) {
    try {
      for (let i = 0; ; i++) writeFileSync(join(where, `fill-${n}-${i}`), Buffer.alloc(size))
    } catch { /* full */ }
  }
}

function clear (where: string): void {
  for (const name of readdirSync(where)) if (name.startsWith('fill-')) rmSync(join(where, name))
}

t.test('a home on a full disk', { skip },
  async (t) => {
    const where = smallDisk(t)
    if (where === undefined) return
    const home = join(where, 'home')
    const node = await startNode(t, { home, config: faultsConfig() })
    const health = async (): Promise<{ level: string, reasons: { code: string, remediation: string }[] }> => {
      const { nodeHealth } = (await ask(node, '/state')).json as { nodeHealth: Record<string,
        Awaited<ReturnType<typeof health>>> }
      return nodeHealth[node.nodeId]!
    }
    t.match(await until('disk_full', async () => {
      const h = await health(); return h.reasons.some((r) =>
        r.code === 'disk_full') && h
    }),
    { level: 'error', reasons: [{ remediation: String }] })
    t.match((await ask(node, '/store/storage')).json, { eventLogMode: 'counting-only' }, 'below the floor')
    fill(where)
    const token = await ask(node, '/v1/tokens', { body: { label: 'x', authorities: ['read'] } })
    t.ok(token.status >= 500 || token.status === 200,
      `a token that cannot be kept: ${token.status} ${token.text.slice(0, 200)}`)
    if (token.status >= 500) {
      const { tokens } = (await ask(node, '/v1/tokens')).json as { tokens: unknown[] }
      t.equal(tokens.length, 0, 'a token that could not be kept is not there either')
      t.match(token.text, /tokens\.json .*ENOSPC/, 'the file is named')
    }
    const heardNode = await streamed(node, TTS, does('test/ok', 'count', { chunks: 3 }))
    t.equal(heardNode.last?.header.kind, 'completed',
      'speech goes on')
    const [runner] = node.runners()
    process.kill(runner!, 'SIGKILL')
    await until('the runner is back or reports the reason', async () => {
      const { supervisorRunners } = (await ask(node,
        '/v1/diagnostics/node')).json as { supervisorRunners: { statusKind: string, pid: number | null }[] }
      return supervisorRunners.some((r) => r.pid !== runner && (r.statusKind === 'RunnerReady' ||
        r.statusKind === 'RunnerFailed'))
    })
    t.equal((await ask(node, '/healthz')).status, 200)
    await node.kill()
    const again = await svc(['up', '--json', '--home', join(where, 'second'), '--port', '0'])
    t.equal(again.status, 1, 'a new home on it is refused')
    t.match(again.stderr, /ENOSPC|no space/i)
    t.notMatch(again.stderr, /\n\s+at /, 'without a stack')
    clear(where)
    const back = await startNode(t, { home })
    const heardBack = await streamed(back, TTS, does('test/ok', 'count', { chunks: 3 }))
    t.equal(heardBack.last?.header.kind, 'completed',
      'with space again, all is well')
  })

t.test('a node that starts on a full disk serves and reports it, without a restart loop', {
  skip
}, async (t) => {
  const where = smallDisk(t)
  if (where === undefined) return
  const home = join(where, 'home')
  await (await startNode(t, { home, config: faultsConfig() })).kill()
  fill(where)
  const up = [cli, 'up', '--json', '--home', home, '--port', '0']
  const child = run(process.execPath, up, { env: { HOME: home } })
  t.teardown(() => { hardKill(child.pid) })
  const line = await until('it to listen', () =>
    child.stdout().split('\n').find((text) => text.startsWith('{"url"')))
  const { url, nodeId, pid } = JSON.parse(line) as { url: string, nodeId: string, pid: number }
  t.teardown(() => { hardKill(pid) })
  const at = { url, token: readFileSync(join(home, 'operator.token'), 'utf8').trim() }
  await until('it to be ready or report the reason', async () => {
    const { status, text } = await ask(at, '/readyz')
    return status === 200 || text.includes('the disk is full (ENOSPC)')
  })
  t.match(child.stderr(), /events are counted but not stored; free disk space/)
  const { stdout } = await svc(['doctor', '--home', home, '--url', url])
  t.match(stdout, /fail +disk .*\n +Free disk space/)
  t.match(stdout, /\[disk_full\]/)
  t.notOk(child.over())
  t.match((await ask(at, '/state')).json, { localNodeId: nodeId }, 'still the first start')
})

t.test('the master\'s disk is full: the cluster keeps working, and doctor names the node', { skip },
  async (t) => {
    const disks = [smallDisk(t), smallDisk(t), smallDisk(t)]
    if (disks.includes(undefined)) return
    const cluster = await startCluster(t, { homeOf: (n) => join(disks[n - 1]!, 'home') })
    const { master } = await cluster.agreed()
    const where = disks[master.number - 1]!
    fill(where)
    const [other, third] = cluster.members.filter((member) => member !== master)
    await until('the doctor to name the node', async () => {
      await acknowledged([other!, third!])
      const { stdout } = await svc(['doctor', '--home', other!.home, '--url', other!.node.url])
      return stdout.split('\n').some((line) => line.includes(`health of ${master.name} `) &&
        line.includes('[state_not_durable]'))
    })
    await until('another master, as this one cannot keep its votes',
      async () => (await cluster.agreed()).master !== master)
    t.equal((await master.ask('/healthz'))?.status, 200)
    clear(where)
    await acknowledged([master])
    await cluster.agreed()
    await sameState(cluster.members)
  })
