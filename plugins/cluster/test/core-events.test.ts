import t from 'tap'
import { digestOf, type WireEntry } from '../log/entries.js'
import { coreCluster, type CoreCluster, type CoreNode, type Frame, type Owner } from './core-kit.js'

/** A cluster with one master; clears the events so far. */
async function quiet (
  t: Owner, nodes = 3
): Promise<{ c: CoreCluster, master: CoreNode, others: CoreNode[] }> {
  const c = await coreCluster(t, { nodes })
  await c.run(10_000)
  const master = await c.agreed()
  c.forget()
  return { c, master, others: c.others(master) }
}

const by = (c: CoreCluster, kind: string): string[] =>
  c.events.filter((e) => e.kind === kind).map((e) => e.node)

t.test('a node alone elects itself', async (t) => {
  const c = await coreCluster(t, { nodes: 1 })
  const { sessionId, term } = c.at(0).core.session
  const said = { sessionId, term, masterNodeId: c.at(0).node.nodeId }
  t.strictSame(c.told('SessionChanged'), [{ ...said, previousSessionId: null }])
  t.strictSame(c.told('MasterElected'), [said])
})

t.test('who joins is told once, by the master', async (t) => {
  const { c, master } = await quiet(t)
  const joined = await c.join(c.at(0))
  await c.run(10_000)
  t.strictSame(c.told('NodeJoined'), [{ nodeId: joined.node.nodeId }])
  t.strictSame([...new Set(by(c, 'NodeJoined'))], [master.name])
  t.strictSame([c.told('NodeTimedOut'), c.told('SessionChanged'), c.told('MasterElected')], [[], [], []])
})

t.test('who is lost is told once, with what was seen of it', async (t) => {
  const { c, master, others } = await quiet(t)
  const [gone] = others
  c.kill(gone!)
  await c.run(10_000)
  t.strictSame(c.told('NodeTimedOut'), [{ nodeId: gone!.node.nodeId, evidence: 'closed' }])
  t.equal(by(c, 'NodeTimedOut').at(-1), master.name)
  c.forget()
  c.restart(gone!)
  await c.run(10_000)
  t.strictSame(c.told('NodeJoined'), [{ nodeId: gone!.node.nodeId }], 'and its return')
  c.forget()
  // The lost node's links stay open but carry no frames from it.
  c.filters.push((frame) => frame.from === gone!.installId ? null : frame.body)
  await c.run(20_000)
  t.strictSame(c.told('NodeTimedOut').filter((e) => e['nodeId'] === gone!.node.nodeId),
    [{ nodeId: gone!.node.nodeId, evidence: 'silent for three heartbeats' }])
})

t.test('the loss of a master is told by who has just begun to follow it', async (t) => {
  const { c, master, others: [other] } = await quiet(t, 2)
  c.kill(other!)
  await c.run(10_000)
  c.restart(other!)
  await c.agreed()
  c.forget()
  c.kill(master)
  await c.until('another master', () => by(c, 'MasterElected').includes(other!.name))
  t.match(c.told('NodeTimedOut'), [{ nodeId: master.node.nodeId, evidence: 'closed' }])
})

const signs: Record<string, (master: CoreNode, other: CoreNode) => void> = {
  'a channel or a document': () => {},
  'its readings': (master, other) => { master.core.recordContact(other.installId) },
  'an event that was indexed': (master, other) => { master.core.service.lives(other.node.nodeId) }
}
for (const [sign, show] of Object.entries(signs)) {
  t.test(`without heartbeats a node is kept by ${sign}`, async (t) => {
    const { c, master, others } = await quiet(t)
    const [mute] = others
    const all = sign !== 'a channel or a document'
    c.filters.push((frame) =>
      frame.from === mute!.installId && (all || frame.kind === 'election') ? null : frame.body)
    for (let i = 0; i < 10; i++) {
      await c.run(2_000)
      show(master, mute!)
    }
    t.strictSame(c.told('NodeTimedOut'), [])
    master.core.service.lives('somebody')
    if (!all) c.filters.push((frame) => frame.from === mute!.installId ? null : frame.body)
    await c.run(10_000)
    t.match(c.told('NodeTimedOut'), [{ nodeId: mute!.node.nodeId }], 'until that ends too')
  })
}

t.test('a node that stood still blames nobody', async (t) => {
  const checks: [what: string, ms: number, deposed: boolean][] = [
    ['too short for an election', 5_000, false], ['the others had one', 40_000, true]
  ]
  for (const [what, ms, deposed] of checks) {
    const { c, master, others } = await quiet(t)
    c.freeze(master)
    await c.run(ms)
    // The others have closed their links, which the master notices first when it resumes.
    if (deposed) c.cut([master], others)
    c.thaw(master)
    await c.run(300)
    c.heal()
    await c.run(30_000)
    t.strictSame(c.told('NodeTimedOut').filter(({ nodeId }) => nodeId !== master.node.nodeId), [], what)
    t.equal(master.core.session.isMaster, !deposed, what)
    c.forget()
    c.kill(others[0]!)
    await c.run(10_000)
    t.match(c.told('NodeTimedOut'), [{ nodeId: others[0]!.node.nodeId }], 'later losses are told')
  }
})

t.test('a lost master is told by the next one', async (t) => {
  const { c, master } = await quiet(t)
  const before = master.core.session.sessionId
  c.kill(master)
  const next = await c.agreed()
  await c.run(10_000)
  const { sessionId, term } = next.core.session
  const said = { sessionId, term, masterNodeId: next.node.nodeId }
  t.strictSame(c.told('SessionChanged'), [{ ...said, previousSessionId: before }])
  t.strictSame(c.told('MasterElected'), [said])
  t.strictSame(c.told('NodeTimedOut'), [{ nodeId: master.node.nodeId, evidence: 'closed' }])
  t.strictSame(c.told('NodeJoined'), [])
  t.strictSame(by(c, 'NodeTimedOut'), [next.name])
})

t.test('a cluster that starts as a whole tells who is there', async (t) => {
  const { c } = await quiet(t)
  for (const node of c.nodes) c.kill(node)
  for (const node of c.nodes) c.restart(node)
  const master = await c.agreed()
  await c.run(10_000)
  t.equal(c.told('MasterElected').length, 1)
  t.strictSame(c.told('NodeJoined').map((e) => e['nodeId']).sort(),
    c.others(master).map((n) => n.node.nodeId).sort())
  t.strictSame(c.told('NodeTimedOut'), [])
})

function tampered (bytes: Uint8Array): Uint8Array {
  const copy = Buffer.from(bytes)
  const at = copy.indexOf('original')
  if (at >= 0) copy.write('tampered', at)
  return new Uint8Array(copy)
}

/** Changes entries and recomputes their digests, so that the digest check does not refuse them at once. */
function tamperEntries ({ body }: Frame): void {
  const part = body['body'] as { base: { digest: string } | null, entries: WireEntry[] } | undefined
  if (body['kind'] !== 'append' || part?.base == null) return
  let { digest } = part.base
  part.entries = part.entries.map((entry) => {
    const changed = { ...entry, update: tampered(entry.update) }
    digest = digestOf(digest, changed)
    return { ...changed, digest }
  })
}

t.test('a peer that breaks the protocol is told of by its node id', async (t) => {
  const c = await coreCluster(t, { nodes: 2 })
  const master = await c.agreed()
  const [other] = c.others(master) as [CoreNode]
  c.forget()
  other.core.violation(master.installId, 'bad_frame')
  t.strictSame(c.told('ProtocolViolation'), [{ nodeId: master.node.nodeId, reason: 'bad_frame' }])
})

t.test('a copy of the control data that differs is seen once, and mended', async (t) => {
  const c = await coreCluster(t, {
    nodes: 3,
    prepare: ({ commands }) => { commands.handle('test.put', (value) => { commands.write('test/a', value) }) }
  })
  await c.run(10_000)
  const master = await c.agreed()
  const [victim, other] = c.others(master) as [CoreNode, CoreNode]
  c.forget()
  c.filters.push((frame) => {
    if (frame.to === victim.installId) tamperEntries(frame)
    return frame.body
  })
  await c.settled(other.core.commands.run('test.put', 'original'))
  await c.until('the wrong copy', () => victim.core.control.get('test/a') === 'tampered')
  c.filters.length = 0
  await c.until('the right copy', () => victim.core.control.get('test/a') === 'original')
  await c.run(10_000)
  t.strictSame(c.told('StateDiverged'), [{ nodeId: master.node.nodeId, document: 'control' }])
  t.strictSame(by(c, 'StateDiverged'), [victim.name], 'told by who held it')
  await c.agreed()
})

t.test('an observed document that differs is seen once, and mended', async (t) => {
  const { c, master, others: [reader] } = await quiet(t)
  c.filters.push(({ to, body }) => {
    const { kind, sync } = body as { kind: string, sync: Uint8Array }
    return to !== reader!.installId || kind !== 'update' ? body : { ...body, sync: tampered(sync) }
  })
  master.core.replicas.put('test/a', 'original')
  const seen = (): unknown => reader!.core.replicas.documentOf(master.node.nodeId)?.get('test/a')
  await c.until('the wrong copy', () => seen() === 'tampered')
  c.filters.length = 0
  await c.until('the right copy', () => seen() === 'original')
  await c.run(10_000)
  t.strictSame(c.told('StateDiverged'), [{ nodeId: master.node.nodeId, document: 'observed' }])
  t.strictSame(by(c, 'StateDiverged'), [reader!.name])
})
