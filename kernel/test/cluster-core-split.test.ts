import t from 'tap'
import { coreCluster } from './cluster-core-kit.js'

t.test('of two halves the larger one keeps its session: links that closed', async (t) => {
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    const c = await coreCluster(t, { nodes: 3, seed })
    const old = await c.agreed()
    const before = old.core.session.sessionId
    const others = c.others(old)
    c.cut([old], others)
    const next = await c.agreed(others)
    await c.run(8000)
    t.equal(old.core.session.sessionId, before)
    c.heal()
    await c.agreed()
    await c.run(6000)
    t.equal((await c.agreed()).core.session.sessionId, next.core.session.sessionId, `seed ${seed}`)
  }
})

t.test('of two halves the larger one keeps its session: links that stood and carried nothing', async (t) => {
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    const c = await coreCluster(t, { nodes: 3, seed })
    const old = await c.agreed()
    const before = old.core.session.sessionId
    const others = c.others(old)
    c.filters.push(({ from, to, body }) =>
      from === old.installId || to === old.installId ? null : body)
    const next = await c.agreed(others)
    await c.run(8000)
    t.equal(old.core.session.sessionId, before)
    c.filters.length = 0
    await c.agreed()
    await c.run(6000)
    t.equal((await c.agreed()).core.session.sessionId, next.core.session.sessionId, `seed ${seed}`)
  }
})

t.test('a master that has just been elected counts those who follow it', async (t) => {
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    const c = await coreCluster(t, { nodes: 3, seed })
    const old = await c.agreed()
    const others = c.others(old)
    c.cut([old], others)
    const next = await c.agreed(others)
    const { sessionId } = next.core.session
    c.heal()
    await c.run(6000)
    t.equal((await c.agreed()).core.session.sessionId, sessionId, `seed ${seed}`)
  }
})
