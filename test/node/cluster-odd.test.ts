import t, { type Test } from 'tap'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { heapOf, inspectable } from '../tools/heap.js'
import {
  acknowledged, HEARTBEAT_MS, quiet, sameState, SILENCE_MS, skewed, startCluster
} from './cluster-kit.js'
import { freePorts } from './ports.js'
import { figure, pick, sleep, until } from './kit.js'
import { rss } from './proc.js'

const HOUR_MS = 3_600_000

t.test('T-E11: wall clocks that are wrong, and that jump', async (t) => {
  const clock = skewed(t, 0)
  const cluster = await startCluster(t, { config: quiet, heartbeatMs: HEARTBEAT_MS, env: clock.env })
  const before = await cluster.agreed()
  const seconds = async (): Promise<number> => {
    const { lastSeen, localNodeId } = (await before.master.state())! as unknown as
      { lastSeen: Record<string, string>, localNodeId: string }
    return (Date.parse(lastSeen[localNodeId]!) - Date.now()) / 1000
  }
  for (const offset of [HOUR_MS, -HOUR_MS, 24 * HOUR_MS, 0]) {
    clock.set(offset)
    await until('the clocks to have jumped', async () => Math.abs(await seconds() - offset / 1000) < 30)
    await sleep(pick(HEARTBEAT_MS, SILENCE_MS))
    await acknowledged(cluster.members)
  }
  const after = await cluster.agreed()
  t.equal(after.sessionId, before.sessionId, 'the same session')

  // The clock of one node is a year ahead, later a year behind.
  const other = skewed(t, 365 * 24 * HOUR_MS)
  const [strange] = after.others
  await strange!.kill()
  await strange!.start({ env: other.env })
  const joined = await cluster.agreed()
  other.set(-365 * 24 * HOUR_MS)
  await sleep(SILENCE_MS)
  const last = await cluster.agreed()
  t.equal(last.sessionId, before.sessionId)
  await sameState(cluster.members)
  figure(t, 'T-E11', t.passing(), { elections: last.term - before.term, jumps: 5, joined: joined.term })
})

/** Makes a folder read-only for all users; returns the undo function, or the reason if that is impossible. */
function freeze (t: Test, path: string): (() => void) | string {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'a read-only mount needs root on Linux'
  const mount = (...args: string[]): string | undefined => {
    const { status, stderr } = spawnSync('mount', args, { encoding: 'utf8' })
    return status === 0 ? undefined : stderr.trim()
  }
  const problem = mount('--bind', path, path)
  if (problem !== undefined) return `no mounts here: ${problem}`
  const thaw = (): void => { spawnSync('umount', ['-l', path]) }
  t.teardown(thaw)
  const readOnly = mount('-o', 'remount,ro,bind', path)
  if (readOnly === undefined) return thaw
  thaw()
  return `no read-only mounts here: ${readOnly}`
}

t.test('T-E12 and T-Y09: a full disk, and many sessions', async (t) => {
  const cluster = await startCluster(t, { config: quiet, heartbeatMs: HEARTBEAT_MS })

  await t.test('T-E12: a node that cannot write its promise is not elected', async (t) => {
    const before = await cluster.agreed()
    const [frozen, other] = before.others
    const thaw = freeze(t, join(frozen!.home, 'state'))
    if (typeof thaw === 'string') {
      t.pass('a disk that takes nothing', { skip: thaw })
      return
    }
    await before.master.kill()
    const next = await cluster.agreed({ not: before.sessionId, seconds: 60 })
    t.equal(next.master.name, other!.name, 'the node that can write')
    await acknowledged(cluster.up())
    const codes = async (): Promise<string[]> => {
      const { nodeHealth } = (await other!.state())!
      return nodeHealth[frozen!.node.nodeId]?.reasons.map(({ code }) => code) ?? []
    }
    await until('nodeHealth to report it on the other node, too', async () =>
      (await codes()).includes('state_not_durable'))
    thaw()
    await before.master.start()
    await cluster.agreed()
    await until('its health to be good again', async () => !(await codes()).includes('state_not_durable'))
    figure(t, 'T-E12', t.passing(), {})
  })

  await t.test('T-Y09: session after session', async (t) => {
    // The witness is never killed, so that its heap can be compared: as master it is only paused.
    const [port] = await freePorts(1)
    const { others: [witness] } = await cluster.agreed()
    await witness!.kill()
    await witness!.start({ env: inspectable(port!) })
    const sessions = pick(4, 200)
    const settled = pick(1, 5)
    let early = 0
    for (let n = 1; n <= sessions; n++) {
      const { sessionId, master, others } = await cluster.agreed({ seconds: 60 })
      if (master === witness) {
        master.pause()
        await cluster.agreed({ on: others, not: sessionId, seconds: 60 })
        master.cont()
      } else {
        await master.kill()
        await cluster.agreed({ not: sessionId, seconds: 60 })
        await master.start()
      }
      await cluster.agreed({ seconds: 60 })
      if (n === settled) early = await heapOf(witness!.pid(), port!)
    }
    const late = await heapOf(witness!.pid(), port!)
    const grown = (late - early) / early
    // The few sessions of the short form only show that no large object leaks per session.
    figure(t, 'T-Y09', t.passing() && grown <= pick(0.25, 0.1), { sessions, earlyMB: early / 1e6,
      lateMB: late / 1e6, grownPercent: Math.round(grown * 1000) / 10, rssMB: rss(witness!.pid()) / 1e6 })
  })
})
