import t from 'tap'
import { CommandRouter } from '../commands.js'
import { kernelError, SvcError } from '../../../kernel/api/errors.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { coreCluster, failure } from './core-kit.js'
import type { Section } from '../../../kernel/api/plugin.js'
import type { ClusterCore } from '../cluster.js'
import type { Refusal } from '../election/protocol.js'
import type { CoreCluster, CoreNode, CoreOptions, Owner } from './core-kit.js'

const decl = { writer: 'master', summary: 'Numbers by name.', value: { type: 'integer' } } as const

const sections = new WeakMap<ClusterCore, Section<number>>()
const numbers = ({ core }: CoreNode): Section<number> => sections.get(core)!

/** `large` exceeds the limit, `add` counts up, `fail` writes and throws, `mute` returns nothing. */
function prepare (core: ClusterCore): void {
  const section = core.sections.section<number>('numbers', decl)
  sections.set(core, section)
  core.commands.handle('test.large', () => { core.commands.write('test/large', 'x'.repeat(300_000)) })
  core.commands.handle('test.add', (args) => {
    const { key } = args as { key: string }
    section.put(key, (section.get(key) ?? 0) + 1)
    return { now: section.get(key) }
  })
  core.commands.handle('test.fail', (args) => {
    section.put('half', 1)
    const { typed } = args as { typed: boolean }
    if (!typed) throw new Error('a secret of this node')
    throw kernelError('overloaded', 'Seven of seven.', { most: 7, retryAfterSeconds: 9 })
  })
  core.commands.handle('test.mute', () => {})
}

async function cluster (t: Owner, options: CoreOptions = {}): Promise<CoreCluster> {
  return await coreCluster(t, { prepare, ...options })
}

t.test('a command is carried out once, wherever it is sent', async (t) => {
  const c = await cluster(t, { nodes: 3 })
  const results: unknown[] = []
  for (const node of c.nodes) {
    const { result } = await c.settled(node.core.commands.run('test.add', { key: 'a' }))
    results.push(result)
    t.equal(numbers(node).get('a'), results.length, 'the asking node sees its own write')
  }
  t.strictSame(results, [{ now: 1 }, { now: 2 }, { now: 3 }])
  await c.agreed()
  for (const node of c.nodes) t.strictSame([...numbers(node).entries()].map(({ value }) => value), [3])
})

t.test('T-E18: the same id twice has one effect and one answer', async (t) => {
  const c = await cluster(t, { nodes: 3 })
  const [one, two] = [c.at(1), c.at(2)]
  const id = 'same-id'
  const both = await c.settled(Promise.all([one, two, one].map(async ({ core }) =>
    await core.commands.run('test.add', { key: 'a' }, id))))
  t.strictSame(both[1], both[0])
  t.strictSame(both[2], both[0])
  t.strictSame(both[0]?.result, { now: 1 })
  const master = await c.agreed()
  c.kill(master)
  const next = await c.agreed()
  t.not(next.core.session.sessionId, both[0]?.receipt.sid)
  for (const { core } of c.others(master)) {
    const again = await c.settled(core.commands.run('test.add', { key: 'a' }, id))
    t.strictSame(again, both[0], 'also after a failover')
  }
  t.equal(numbers(next).get('a'), 1)
})

t.test('a command that is under way while the master dies has one effect', async (t) => {
  const c = await cluster(t, { nodes: 3, delayMs: 15 })
  const master = await c.agreed()
  const [asking] = c.others(master)
  const answer = asking!.core.commands.run('test.add', { key: 'a' }, 'under-way')
  await c.run(20)
  c.kill(master)
  t.strictSame((await c.settled(answer)).result, { now: 1 })
  const next = await c.agreed()
  t.equal(numbers(next).get('a'), 1)
})

t.test('a refusal that comes at once is not asked about again without a pause', async (t) => {
  const clock = manualClock()
  const refusals: Refusal[] = ['stale_session', 'session_changed', 'stale_session']
  const at: number[] = []
  const commands = new CommandRouter({
    clock, log: { debug () {}, info () {}, warn () {}, error () {}, fatal () {} }, quorumLost: () => false,
    submit: async () => ({ ok: false, code: refusals[at.push(clock.mono()) % refusals.length]! })
  })
  const refused = failure(commands.run('test.add', {}))
  await clock.advance(0)
  await clock.advance(10_000)
  t.strictSame(at.slice(0, 5), [0, 20, 60, 140, 300])
  t.ok(at.length < 20, `${at.length} tries within 10 s`)
  await clock.advance(2000)
  t.match(await refused, { reason: 'session_changed' })
})

t.test('what a handler throws is what the asking node gets', async (t) => {
  const c = await cluster(t, { nodes: 2 })
  for (const { core } of c.nodes) {
    const typed = await failure(c.settled(core.commands.run('test.fail', { typed: true })))
    t.ok(typed instanceof SvcError)
    t.match(typed, {
      reason: 'overloaded', status: 429, retryable: true, message: 'Seven of seven.', retryAfterSeconds: 9,
      details: { most: 7, remedy: 'Try again after the time in Retry-After.' }
    })
    const untyped = await failure(c.settled(core.commands.run('test.fail', { typed: false })))
    t.equal(untyped.reason, 'internal')
    t.notMatch(JSON.stringify(untyped), 'secret', 'a defect tells nothing of itself')
    const large = await failure(c.settled(core.commands.run('test.large', {})))
    t.match(large, { reason: 'payload_too_large', status: 413, message: /300\d{3} bytes, at most 262144/ })
    const unknown = await failure(c.settled(core.commands.run('test.none', {})))
    t.match(unknown, { reason: 'internal', message: /test\.none/ })
    t.equal((await c.settled(core.commands.run('test.mute', {}))).result, undefined, 'no result')
  }
  await c.agreed()
  for (const node of c.nodes) {
    t.equal(numbers(node).get('half'), undefined, 'nothing of a failed one is written')
  }
})

t.test('a section is written by commands only', async (t) => {
  const c = await cluster(t, { nodes: 1 })
  const section = numbers(c.at(0))
  t.match(await failure((async () => { section.put('a', 1) })()), { reason: 'not_master', status: 503 })
  t.throws(() => { section.put('a', 'x' as never) }, TypeError, 'and by what its schema allows')
  t.doesNotThrow(() => { section.remove('a') }, 'to remove nothing is nothing')
  t.throws(() => c.at(0).core.commands.handle('test.add', () => 1), /has a handler already/)
})

t.test('without a master a command waits, and then says so', async (t) => {
  const c = await cluster(t, { nodes: 2 })
  const master = await c.agreed()
  const [other] = c.others(master)
  c.kill(master)
  const waited = await c.settled(other!.core.commands.run('test.add', { key: 'a' }))
  t.strictSame(waited.result, { now: 1 }, 'it waits for the next master')

  const m = await cluster(t, { nodes: 3, quorum: 'majority' })
  const [a, b, last] = m.nodes as [CoreNode, CoreNode, CoreNode]
  m.kill(a)
  m.kill(b)
  const before = m.clock.mono()
  const refused = await failure(m.settled(last.core.commands.run('test.add', { key: 'a' })))
  t.match(refused, { reason: 'no_quorum', status: 503 })
  const took = m.clock.mono() - before
  t.ok(took < 10_000, `a bounded wait: ${took} ms`)
  t.equal(last.core.status().quorum, 'lost')
  m.restart(a)
  const { result } = await m.settled(last.core.commands.run('test.add', { key: 'a' }))
  t.strictSame(result, { now: 1 }, 'two of three decide')
})

t.test('with quorum 1 and no vote won nobody is master', async (t) => {
  const c = await cluster(t, { nodes: 2 })
  const master = await c.agreed()
  const [other] = c.others(master)
  // Drop all election messages except heartbeats, which show that the other node is alive.
  c.filters.push(({ kind, body }) => kind === 'election' && body['kind'] !== 'heartbeat' ? null : body)
  master.core.resign()
  await c.run(100)
  const refused = await failure(c.settled(other!.core.commands.run('test.add', { key: 'a' })))
  t.match(refused, { reason: 'no_master', status: 503 })
})

t.test('with a majority nothing that was acknowledged is lost', async (t) => {
  const c = await cluster(t, { nodes: 5, quorum: 'majority' })
  await c.until('five voters', () => c.at(0).core.control.voters().length === 5)
  const master = await c.agreed()
  const [one] = c.others(master)
  const small = [master, one!]
  c.cut(small, c.nodes.filter((n) => !small.includes(n)))
  const lost = failure(master.core.commands.run('test.add', { key: 'a' }, 'at the small side'))
  const big = await c.agreed(c.others(master).filter((n) => n !== one))
  t.strictSame((await c.settled(big.core.commands.run('test.add', { key: 'b' }))).result, { now: 1 })
  t.match(await c.settled(lost), { reason: /session_changed|no_quorum|no_master/ })
  c.heal()
  await c.agreed()
  for (const node of c.nodes) t.equal(numbers(node).get('b'), 1)
})

t.test('a command that went down with its link is sent again with the next one', async (t) => {
  const c = await cluster(t, { nodes: 3 })
  const master = await c.agreed()
  const [other] = c.others(master)
  const before = c.clock.mono()
  let lost = 0
  c.filters.push((frame) => {
    const { kind } = (frame.body ?? {}) as { kind?: string }
    if (kind !== 'command' || lost > 0) return frame.body
    lost++
    return null
  })
  const outcome = c.settled(other!.core.commands.run('test.add', { key: 'resent' }))
  await c.until('the command to be lost', () => lost === 1)
  c.cut([other!], [master])
  c.heal()
  t.strictSame((await outcome).result, { now: 1 })
  const took = c.clock.mono() - before
  t.ok(took < 2000, `before the next heartbeat: ${took} ms`)
})
