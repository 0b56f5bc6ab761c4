import t from 'tap'
import { createCommands } from '../../../kernel/plugins/commands.js'
import { coreCluster, type CoreCluster, type CoreNode, type Owner } from './core-kit.js'
import type { ClusterCore } from '../cluster.js'
import type { Section, SectionDecl } from '../../../kernel/api/plugin.js'

const value = { type: 'string' } as const
const decls = {
  kept: { writer: 'master', summary: 'Goes on.', value },
  brief: { writer: 'master', carry: false, summary: 'Ends with its session.', value },
  own: { writer: 'node', summary: 'What a node says.', value }
} as const satisfies Record<string, SectionDecl>
type Name = keyof typeof decls

const opened = new WeakMap<ClusterCore, Record<Name, Section<string>>>()
const section = (node: CoreNode, name: Name): Section<string> => opened.get(node.core)![name]

function prepare (core: ClusterCore): void {
  const made = Object.fromEntries(Object.entries(decls).map(([name, decl]) =>
    [name, core.sections.section<string>(name, decl)])) as Record<Name, Section<string>>
  opened.set(core, made)
  core.commands.handle('test.put', (args) => {
    const { name, key, text } = args as { name: 'kept' | 'brief', key: string, text: string }
    made[name].put(key, text)
  })
  core.commands.handle('test.plant', (args) => {
    for (const [key, planted] of Object.entries(args as object)) core.commands.write(key, planted)
  })
  core.commands.handle('test.swap', () => {
    const { kept } = made
    kept.put('b', kept.get('a') ?? '')
    kept.remove('a')
    return { within: [...kept.entries()].map(({ key }) => key), a: kept.get('a') ?? null }
  })
}

async function start (
  t: Owner, nodes = 3
): Promise<{ c: CoreCluster, master: CoreNode, others: CoreNode[] }> {
  const c = await coreCluster(t, { nodes, prepare })
  const master = await c.agreed()
  return { c, master, others: c.others(master) }
}

/** Ends a node, and delays the election until all others see no master. */
async function killSlowly (c: CoreCluster, node: CoreNode): Promise<void> {
  c.filters.push((frame) => frame.body['kind'] === 'ballot' ? null : frame.body)
  c.kill(node)
  await c.until('no master', () => c.others(node).every(({ core }) => core.session.masterNodeId === null))
  c.filters.length = 0
}

const contents = (node: CoreNode, name: Name): string[] =>
  [...section(node, name).entries()].map(({ key, value }) => `${key}=${value}`).sort()

t.test('open streams end once when their session does', async (t) => {
  const { c, master, others } = await start(t)
  const ended: string[] = []
  const open = (node: CoreNode, id: string): (() => void) =>
    node.core.openStream(id, () => { ended.push(id) })
  for (const node of others) open(node, `at ${node.name}`)
  const close = open(others[0]!, 'ends by itself')
  close()
  await c.run(20_000)
  t.strictSame(ended, [], 'a session that goes on ends none')
  await killSlowly(c, master)
  // A stream that begins between two sessions belongs to the next one.
  for (const node of others) open(node, `between at ${node.name}`)
  const gone = open(others[0]!, 'between, and over before')
  gone()
  const next = await c.agreed()
  t.strictSame([...ended].sort(), others.map(({ name }) => `at ${name}`).sort(), 'each once')
  c.restart(master)
  await c.agreed()
  await c.run(20_000)
  t.equal(ended.length, others.length, 'and no other')
  c.kill(next)
  await c.agreed()
  const [left] = others.filter((node) => node !== next)
  t.strictSame(ended.slice(others.length), [`between at ${left!.name}`], 'one session later')
})

t.test('commands of a node end with the session', async (t) => {
  const { c, master, others: [node] } = await start(t, 2)
  const commands = createCommands((id, end) => node!.core.openStream(id, end))
  const caller = { id: 'ann', mode: 'direct', authorities: new Set<string>() } as const
  const reasons: string[] = []
  const track = (commandId: string): (() => void) => commands.track({
    commandId, caller, abort: (reason) => { reasons.push(`${commandId} ${reason}`) }
  })
  track('open')
  track('done')()
  c.kill(master)
  await c.agreed()
  t.strictSame(reasons, ['open session_changed'])
})

t.test('the session as plugins see it', async (t) => {
  const { c, master, others } = await start(t)
  const [node] = others
  const { session } = node!.core
  const before = session.sessionId
  const seen: string[] = []
  const stop = session.onChange(() => {
    const whose = session.sessionId === before ? 'old' : 'new'
    seen.push(`${whose} ${session.masterNodeId === null ? 'none' : 'master'}`)
  })
  await killSlowly(c, master)
  t.equal(session.isMaster, false)
  const next = await c.agreed()
  t.equal(seen[0], 'old none', 'the loss of the master is news')
  t.equal(seen.at(-1), 'new master')
  t.equal(session.before, before)
  t.equal(session.masterNodeId, next.node.nodeId)
  t.equal(session.term, next.core.status().leader?.term)
  stop()
  const count = seen.length
  c.restart(master)
  await c.agreed()
  t.equal(seen.length, count)
})

t.test('what a node says of itself is seen on the others while it is there', async (t) => {
  const { c, others: [writer, reader] } = await start(t)
  let changes = 0
  const stop = section(reader!, 'own').observe(() => { changes++ })
  section(writer!, 'own').put('a', 'here')
  section(writer!, 'own').put('b', 'too')
  section(reader!, 'own').put('a', 'mine')
  await c.until('both keys', () => contents(reader!, 'own').join() === 'a=here,a=mine,b=too')
  t.equal(section(reader!, 'own').get('a'), 'mine', 'its own without a node id')
  t.equal(section(reader!, 'own').get('a', writer!.node.nodeId), 'here')
  t.equal(section(reader!, 'own').get('a', 'nobody'), undefined)
  t.ok(changes > 0)
  stop()
  section(writer!, 'own').remove('b')
  await c.until('one less', () => contents(reader!, 'own').length === 2)
  c.kill(writer!)
  t.strictSame(contents(reader!, 'own'), ['a=mine'], 'gone with its link')
  t.equal(section(reader!, 'own').get('a', writer!.node.nodeId), 'here', 'by its id what was last known')
  c.restart(writer!)
  section(writer!, 'own').put('a', 'again')
  await c.until('its new start', () => contents(reader!, 'own').join() === 'a=again,a=mine')
  t.throws(() => { section(writer!, 'own').put('a', 7 as never) },
    /section "own", key "a".*string/)
})

t.test('a new session carries what it may', async (t) => {
  const { c, master, others: [node] } = await start(t)
  const put = async (name: string, key: string): Promise<void> => {
    await c.settled(node!.core.commands.run('test.put', { name, key, text: 'x' }))
  }
  await put('kept', 'a')
  await put('brief', 'a')
  await c.agreed()
  t.strictSame([contents(master, 'kept'), contents(master, 'brief')], [['a=x'], ['a=x']])
  t.strictSame([...section(node!, 'kept').entries()].map((e) => e.nodeId), [master.node.nodeId])
  c.kill(master)
  await c.agreed()
  for (const left of c.others(master)) {
    t.strictSame([contents(left, 'kept'), contents(left, 'brief')], [['a=x'], []])
  }
})

t.test('a command sees its own writes, and they come together', async (t) => {
  const { c, others: [node] } = await start(t)
  await c.settled(node!.core.commands.run('test.put', { name: 'kept', key: 'a', text: 'x' }))
  const states: string[] = []
  node!.core.control.observe(() => { states.push(contents(node!, 'kept').join()) })
  const { result } = await c.settled(node!.core.commands.run('test.swap', {}))
  t.strictSame(result, { within: ['b'], a: null })
  t.ok(states.every((state) => state === 'b=x'), 'nobody saw half of it')
})

t.test('what is decided survives the whole cluster', async (t) => {
  const { c, master } = await start(t)
  await c.settled(master.core.commands.run('test.put', { name: 'kept', key: 'a', text: 'x' }))
  await c.run(6000)
  for (const node of c.nodes) c.kill(node)
  for (const node of c.nodes) c.restart(node)
  const next = await c.agreed()
  t.strictSame(contents(next, 'kept'), ['a=x'])
})

t.test('an entry that is not as its section says is left out alone, and told once', async (t) => {
  const { c, master, others } = await start(t, 2)
  const [other] = others as [CoreNode]
  let calls = 0
  section(other, 'own').observe(() => {
    calls++
    throw new Error('an observer that fails')
  })
  other.core.session.onChange(() => { throw new Error('another one') })
  other.core.service.onPeers(() => { throw new Error('a third one') })
  for (const wrong of [7, null, { deep: ['x'] }]) {
    await c.settled(master.core.commands.run('test.plant', { 'kept/wrong': wrong, 'kept/right': 'yes' }))
    master.core.replicas.put('own/wrong', wrong)
    section(master, 'own').put('right', 'yes')
    await c.agreed()
    await c.until('the replica', () => section(other, 'own').get('right', master.node.nodeId))
    for (const name of ['kept', 'own'] as const) {
      t.strictSame(contents(other, name), ['right=yes'], `${name}: ${JSON.stringify(wrong)}`)
    }
    t.equal(section(other, 'kept').get('wrong'), undefined)
    t.equal(section(other, 'own').get('wrong', master.node.nodeId), undefined)
  }
  t.ok(calls > 0)
  const told = other.lines.filter((line) => line.includes('does not match its schema'))
  t.equal(told.length, 2, 'once for each entry')
  await c.settled(master.core.commands.run('test.put', { name: 'kept', key: 'wrong', text: 'mended' }))
  await c.agreed()
  t.equal(section(other, 'kept').get('wrong'), 'mended')
  c.cut([master], [other])
  await c.run(20_000)
  c.heal()
  await c.agreed()
  t.ok(other.lines.includes('an observer of a section failed'), 'observers that throw are told of, no more')
})
