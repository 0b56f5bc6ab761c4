import t from 'tap'
import { acknowledged, HEARTBEAT_MS, quiet, sameState, SILENCE_MS, startCluster } from './cluster-kit.js'
import { figure, full, inTime, pick, secondsSince, sleep, until } from './kit.js'
import type { Member } from './cluster-kit.js'

t.test('three nodes behind proxies', async (t) => {
  const cluster = await startCluster(t, { config: quiet, heartbeatMs: HEARTBEAT_MS, proxied: true })

  /** Applies `act` to the open connections between two members; returns the number of connections. */
  const between = (a: Member, b: Member, act: {
    dialled: (proxy: NonNullable<Member['proxy']>, from: string) => number
    taken: (proxy: NonNullable<Member['proxy']>, from: string) => number
  }): number => act.dialled(b.proxy!, a.name) + act.taken(a.proxy!, b.name)

  const passed = (): number => cluster.members.reduce((sum, { proxy }) =>
    sum + proxy!.seen.up + proxy!.seen.down, 0)

  const damages: [string, (from: Member, to: Member) => number][] = [
    ['a byte is turned', (from, to) => between(from, to, {
      dialled: (proxy, name) => proxy.corrupt('up', 0, name),
      taken: (proxy, name) => proxy.corrupt('down', 0, name)
    })],
    ['bytes are lost', (from, to) => between(from, to, {
      dialled: (proxy, name) => proxy.drop('up', 64, name),
      taken: (proxy, name) => proxy.drop('down', 64, name)
    })],
    ['RST', (from, to) => between(from, to, {
      dialled: (proxy, name) => proxy.reset(name),
      taken: (proxy, name) => proxy.reset(name)
    })],
    ['half open', (from, to) => between(from, to, {
      dialled: (proxy, name) => proxy.halfOpen(name),
      taken: (proxy, name) => proxy.halfOpen(name)
    })]
  ]
  await t.test('T-Y05: damaged frames from a master to a follower', async (t) => {
    for (const [what, damage] of damages) {
      const before = await cluster.agreed()
      const [follower] = before.others
      const bytes = passed()
      t.ok(damage(before.master, follower!) > 0, `${what}: there was a connection to damage`)
      const start = performance.now()
      // Waits for an acknowledged command, which proves that the follower has the newest entry; /state shows
      // the links' round-trip times only later.
      await acknowledged([follower!])
      await cluster.agreed()
      const seconds = secondsSince(start)
      await sameState(cluster.members)
      const extra = passed() - bytes
      figure(t, 'T-Y05', t.passing() && inTime(seconds, what === 'half open' ? 10 : 2),
        { what, seconds, extraBytes: extra })
    }
  })

  await t.test('T-E07: a flapping link', async (t) => {
    const before = await cluster.agreed()
    const [follower] = before.others
    const half = HEARTBEAT_MS * 0.75
    for (let n = 0; n < pick(5, 20); n++) {
      cluster.cut(before.master, follower)
      await sleep(half)
      cluster.heal(before.master, follower)
      await sleep(half)
    }
    const after = await cluster.agreed()
    const elections = after.term - before.term
    await sameState(cluster.members)
    figure(t, 'T-E07', t.passing() && elections <= 1, { elections, flaps: pick(5, 20) })
  })

  await t.test('a broken link: a follower continues through the third node', async (t) => {
    const before = await cluster.agreed()
    const [follower] = before.others
    cluster.cut(before.master, follower)
    await sleep(SILENCE_MS + HEARTBEAT_MS)
    const receipt = await acknowledged([before.master])
    t.equal(receipt.sid, before.sessionId, 'the master goes on')
    cluster.heal(before.master, follower)
    const after = await cluster.agreed()
    t.equal(after.sessionId, before.sessionId, 'one lost link ends no session')
  })

  await t.test('quorum 1: a node that is cut off continues alone, and one session wins', async (t) => {
    const before = await cluster.agreed()
    const alone = before.master
    cluster.cut(alone)
    const side = await cluster.agreed({ on: before.others, not: before.sessionId })
    await until('the old master to notice that it is alone', async () => {
      const state = await alone.state()
      return state?.masterNodeId === state?.localNodeId && state?.cluster.liveNodes === 1 &&
        state.cluster.partition
    })
    t.equal((await acknowledged([alone])).sid, before.sessionId, 'it decides for itself')
    t.equal((await acknowledged(before.others)).sid, side.sessionId, 'and so do the others')
    // Drops the heartbeats held by the cut, which would still list followers that the master has lost.
    for (const m of cluster.members) m.proxy!.reset(m === alone ? undefined : alone.name)
    cluster.heal(alone)
    const after = await cluster.agreed()
    // When the sides meet, a master that seems to have been paused steps down, and with short timers a busy
    // machine can cause that, so either session may continue.
    if (full) t.equal(after.sessionId, side.sessionId, 'the side with more nodes keeps its session')
    else t.ok([side.sessionId, before.sessionId].includes(after.sessionId), 'one of the sessions goes on')
    await sameState(cluster.members)
  })
})
