import t from 'tap'
import { coreCluster, type CoreCluster, type CoreNode } from './core-kit.js'

const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8]

type Half = (c: CoreCluster, old: CoreNode, others: CoreNode[]) => void | Promise<void>

/** Isolates the master from the other two and reconnects it: the session of those two must continue. */
function check (
  what: string, part: Half, wait: (c: CoreCluster, others: CoreNode[]) => Promise<CoreNode>,
  join: (c: CoreCluster) => void
): void {
  t.test(`of two halves the larger one keeps its session: ${what}`, async (t) => {
    for (const seed of SEEDS) {
      const c = await coreCluster(t, { nodes: 3, seed })
      const old = await c.agreed()
      const before = old.core.session.sessionId
      const others = c.others(old)
      await part(c, old, others)
      const { sessionId } = (await wait(c, others)).core.session
      t.equal(old.core.session.sessionId, before)
      const told = c.events.length
      join(c)
      await c.agreed()
      await c.run(6000)
      t.equal((await c.agreed()).core.session.sessionId, sessionId, `seed ${seed}`)
      const refused = c.events.slice(told).filter(({ kind }) => kind === 'StaleDirectiveRefused')
      // With links left open, the old master is refused only if its frame arrives before the new one's.
      t.ok(refused.every(({ payload }) => [before, sessionId].includes(payload['sessionId'] as string)))
      if (part === closed) t.not(refused.length, 0, 'it is told that the old master was refused')
    }
  })
}

const closed: Half = (c, old, others) => { c.cut([old], others) }
const silent: Half = (c, old) => {
  c.filters.push(({ from, to, body }) => from === old.installId || to === old.installId ? null : body)
}
const settled = async (c: CoreCluster, others: CoreNode[]): Promise<CoreNode> => {
  const next = await c.agreed(others)
  await c.run(8000)
  return next
}
/** A master that was just elected; no follower has sent a heartbeat since. */
const fresh = async (c: CoreCluster, others: CoreNode[]): Promise<CoreNode> =>
  await c.until('a new master that is followed', () => {
    const next = others.find((node) => node.core.session.isMaster)
    const same = others.every((node) => node.core.session.sessionId === next?.core.session.sessionId)
    return same ? next : undefined
  })

check('links that closed', closed, settled, (c) => { c.heal() })
check('links that stood and carried nothing', silent, settled, (c) => { c.filters.length = 0 })
check('a master that has only just been elected', closed, fresh, (c) => { c.heal() })

t.test('a node cut from the master alone changes no session of the others', async (t) => {
  for (const seed of SEEDS) {
    const c = await coreCluster(t, { nodes: 4, seed })
    const master = await c.agreed()
    const { sessionId } = master.core.session
    const [cut, ...others] = c.others(master)
    c.cut([master], [cut!])
    await c.run(25_000)
    for (const { core } of [master, ...others]) {
      t.equal(core.session.sessionId, sessionId, `seed ${seed}`)
      t.equal(core.session.masterNodeId, master.node.nodeId)
    }
    c.heal()
    await c.run(8000)
    t.equal((await c.agreed()).core.session.sessionId, sessionId)
  }
})
