import t from 'tap'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { decodeUpdate } from 'yjs'
import { payloadOf, type DocMessage } from '../replicas/messages.js'
import { Replicas } from '../replicas/replicas.js'
import { keptLog } from './documents-kit.js'

interface Sent { readonly from: string, readonly to: string, readonly message: DocMessage }

/** Nodes whose messages arrive immediately, unless `lose` drops them. */
class Net {
  readonly clock: ManualClock = manualClock()
  readonly nodes = new Map<string, Replicas>()
  readonly sent: Sent[] = []
  readonly diverged: string[] = []
  readonly lines = new Map<string, string[]>()
  readonly verdicts: string[] = []
  lose: (sent: Sent) => boolean = () => false
  #queue: Sent[] = []

  add (id: string, nodeId = `${id}-boot`): Replicas {
    const log = keptLog()
    this.lines.set(id, log.lines)
    const replicas = new Replicas({
      installId: id,
      nodeId,
      send: (to, message) => this.#send({ from: id, to, message }),
      broadcast: (message) => { for (const to of this.nodes.keys()) this.#send({ from: id, to, message }) },
      clock: this.clock,
      log,
      diverged: (of) => { this.diverged.push(`${id}: ${of}`) }
    })
    this.nodes.set(id, replicas)
    return replicas
  }

  link (a: string, b: string): void {
    this.nodes.get(a)?.up(b)
    this.nodes.get(b)?.up(a)
    this.run()
  }

  run (): void {
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      if (this.lose(next)) continue
      this.verdicts.push(this.nodes.get(next.to)?.receive(next.from, next.message) ?? 'gone')
    }
  }

  async pass (ms = 10): Promise<void> {
    await this.clock.advance(ms)
    this.run()
  }

  kinds (): string[] { return this.sent.splice(0).map(({ message }) => message.kind) }

  #send (sent: Sent): boolean {
    if (sent.to === sent.from || !this.nodes.has(sent.to)) return false
    this.sent.push(sent)
    this.#queue.push(sent)
    return true
  }
}

function pair (): { net: Net, a: Replicas, b: Replicas } {
  const net = new Net()
  const a = net.add('a')
  const b = net.add('b')
  return { net, a, b }
}

const contents = (replicas: Replicas, of: string): Record<string, unknown> =>
  Object.fromEntries([...replicas.entries()].filter(({ installId }) => installId === of)
    .map(({ key, value }) => [key, value]))

t.test('changes leave together and arrive as they are', async (t) => {
  const { net, a, b } = pair()
  a.put('before', { link: false })
  net.link('a', 'b')
  t.same(contents(b, 'a'), { before: { link: false } })
  net.kinds()
  const seen: string[] = []
  b.observe(({ installId, keys }) => { seen.push(`${installId} ${[...keys].sort().join()}`) })
  const own: string[] = []
  a.observe(({ installId, keys }) => { own.push(`${installId} ${[...keys].join()}`) })
  a.put('x', 1)
  a.put('y', { deep: ['z'] })
  a.put('x', 2)
  a.put('x', 2)
  a.remove('before')
  a.remove('before')
  t.same(own, ['a x', 'a y', 'a x', 'a before'], 'seen at home at once')
  t.equal(a.get('x'), 2)
  await net.pass()
  t.same(net.kinds(), ['update'], 'one update for all of it')
  t.same(contents(b, 'a'), { x: 2, y: { deep: ['z'] } })
  t.same(seen, ['a before,x,y'])
  a.put('x', 3)
  a.put('x', 2)
  await net.pass()
  t.same([...b.entries()].map(({ key, value }) => [key, value]).sort(), [['x', 2], ['y', { deep: ['z'] }]])
  t.same([...a.entries()][0], { installId: 'a', nodeId: 'a-boot', key: 'x', value: 2, old: false })
  t.equal(a.digest().seq, 3)
  t.same(contents(b, 'nobody'), {})
  net.sent.length = 0
  b.compare('a', { boot: 'a-boot', ...a.digest() })
  t.same(net.kinds(), [], 'the same: nothing to do')
})

t.test('T-Y05: an update that is lost is made up for', async (t) => {
  const { net, a, b } = pair()
  net.link('a', 'b')
  a.put('x', 1)
  await net.pass()
  net.lose = ({ message }) => message.kind === 'update'
  a.put('y', 1)
  await net.pass()
  net.lose = () => false
  net.kinds()
  a.put('z', 1)
  await net.pass()
  t.same(net.kinds(), ['update', 'ask', 'state'])
  t.same(contents(b, 'a'), { x: 1, y: 1, z: 1 })
  const { hash } = a.digest()
  b.compare('a', { boot: 'a-boot', seq: 3, hash })
  t.same(net.diverged, [], 'and the hash is the same')

  net.lose = ({ message }) => message.kind === 'update'
  a.put('w', 1)
  await net.pass()
  net.lose = () => false
  net.sent.length = 0
  b.compare('a', { boot: 'a-boot', ...a.digest() })
  net.run()
  const [ask, state] = net.sent.map(({ message }) => message)
  t.match([ask, state], [{ kind: 'ask' }, { kind: 'state', whole: true }], 'a second gap in 10 s: all of it')
  t.same(contents(b, 'a'), { x: 1, y: 1, z: 1, w: 1 })
})

t.test('a question without an answer is asked again after 2 s', async (t) => {
  const { net, a, b } = pair()
  net.link('a', 'b')
  a.put('x', 1)
  await net.pass()
  net.lose = ({ message }) => message.kind !== 'ask'
  a.put('x', 2)
  await net.pass()
  const late = { boot: 'a-boot', ...a.digest() }
  net.kinds()
  b.compare('a', late)
  net.run()
  b.compare('a', late)
  t.same(net.kinds(), ['ask', 'state'], 'asked once')
  net.lose = () => false
  await net.pass(2000)
  b.compare('a', late)
  net.run()
  t.same(net.kinds(), ['ask', 'state'])
  t.same(contents(b, 'a'), { x: 2 })
})

t.test('the same number with other contents is told and mended', async (t) => {
  const { net, a, b } = pair()
  net.link('a', 'b')
  a.put('x', 1)
  await net.pass()
  b.compare('a', { boot: 'a-boot', seq: a.digest().seq, hash: 'another' })
  t.same(net.diverged, ['b: a'])
  t.same(contents(b, 'a'), { x: 1 }, 'what is known is shown meanwhile')
  net.run()
  t.same(contents(b, 'a'), { x: 1 })
  b.compare('a', { boot: 'a-boot', ...a.digest() })
  t.equal(net.diverged.length, 1)
  b.compare('a', { boot: 'a-boot', seq: 0, hash: 'old' })
  t.equal(net.diverged.length, 1, 'an older number says nothing')
})

t.test('down, up, a new start, gone', async (t) => {
  const { net, a, b } = pair()
  net.link('a', 'b')
  a.put('x', 1)
  await net.pass()
  b.down('a')
  t.match([...b.entries()], [{ key: 'x', old: true }])
  net.kinds()
  net.link('a', 'b')
  t.match([...b.entries()], [{ key: 'x', old: false }])
  t.same(net.kinds(), ['announce', 'announce'], 'nothing was missed, nothing is sent')
  a.close()
  const seen: string[] = []
  b.observe(({ installId, keys }) => { seen.push(`${installId} ${[...keys].join()}`) })
  const again = net.add('a', 'a-boot-2')
  again.put('y', 2)
  net.link('a', 'b')
  t.match([...b.entries()], [{ nodeId: 'a-boot-2', key: 'y', value: 2 }])
  t.same(seen, ['a x', 'a y'])
  b.drop('a')
  b.drop('a')
  t.same(contents(b, 'a'), {})
  t.same(seen, ['a x', 'a y', 'a y'])
  again.put('z', 3)
  await net.pass()
  t.same(contents(b, 'a'), { y: 2, z: 3 }, 'a message brings it back')
  b.up('unknown')
  b.down('unknown')
  b.close()
  b.close()
  t.equal(b.receive('a', null), 'ok', 'closed')
  t.not(net.verdicts.includes('protocol_error'), true)
})

t.test('T-Y07: nobody speaks for another, and nonsense is told', async (t) => {
  const { net, a, b } = pair()
  net.link('a', 'b')
  a.put('x', 1)
  await net.pass()
  a.put('x', 2)
  await net.pass()
  net.add('c')
  net.link('a', 'c')
  const messages = net.sent.filter(({ from }) => from === 'a').map(({ message }) => message)
  const of = (kind: string): DocMessage => messages.findLast((message) => message.kind === kind)!
  const update = of('update') as Extract<DocMessage, { kind: 'update' }>
  const state = of('state') as Extract<DocMessage, { kind: 'state' }>
  const check = (what: string, message: unknown, from = 'a', verdict = 'protocol_error'): void => {
    const refused = net.lines.get('b')!.length
    t.equal(b.receive(from, message), verdict, what)
    t.equal(net.lines.get('b')!.length, refused + (verdict === 'ok' ? 0 : 1), `${what}: told`)
    t.same(contents(b, 'a'), { x: 2 }, what)
  }
  for (const kind of ['announce', 'state', 'update']) {
    check(`${kind} of another`, of(kind), 'c')
    check(`${kind} of our own`, { ...of(kind), owner: 'b' })
  }
  check('a question for another', { kind: 'ask', owner: 'c', boot: 'x', gen: 0, sync: update.sync })
  check('a question that is none', { kind: 'ask', owner: 'b', boot: 'b-boot', gen: 0, sync: update.sync })
  check('a vector that is none',
    { kind: 'ask', owner: 'b', boot: 'b-boot', gen: 0, sync: Uint8Array.of(0, 2, 9, 9) })
  check('the same again', update, 'a', 'ok')
  for (const nonsense of [null, 7, 'text', [], {}, { kind: 'awareness' }, { ...update, seq: -1 },
    { ...update, sync: 'text' }, { ...update, owner: '' }, { ...state, whole: 1 }]) {
    check(`nonsense ${JSON.stringify(nonsense)?.slice(0, 40)}`, nonsense)
  }
  const next = { ...update, seq: update.seq + 1 }
  check('a state instead of an update', { ...next, sync: state.sync })
  check('a broken update', { ...next, sync: update.sync.subarray(0, -3) })
  check('bytes after the end', { ...next, sync: Uint8Array.of(...update.sync, 0) })
  check('a deletion of everything', { ...next, sync: Uint8Array.of(2, 6, 0, 1, 5, 1, 0, 127) })
  check('a whole of another client', { ...state, whole: true, gen: 9, client: 5 })
})

t.test('limits of what a node may put', async (t) => {
  const { net, a, b } = pair()
  net.link('a', 'b')
  const check = (key: string, value: unknown, error: { name: string, message: RegExp }): void => {
    t.throws(() => { a.put(key, value) }, error)
  }
  check('a b', 1, { name: 'TypeError', message: /"a b" must be/ })
  check('__proto__', 1, { name: 'TypeError', message: /"__proto__"/ })
  check('f', () => 1, { name: 'TypeError', message: /value of "f" has a function/ })
  check('u', undefined, { name: 'TypeError', message: /value of "u" has an undefined/ })
  check('large', 'x'.repeat(196_608), { name: 'RangeError', message: /"large".*at most 196608/ })
  a.put('half', 'x'.repeat(120_000))
  check('other', 'x'.repeat(120_000), { name: 'RangeError', message: /"other"/ })
  a.put('half', 'y'.repeat(150_000))
  a.remove('half')
  a.put('other', 'x'.repeat(180_000))
  await net.pass()
  t.same(Object.keys(contents(b, 'a')), ['other'])
  const value = { list: [1] }
  a.put('mine', value)
  value.list.push(2)
  t.same(a.get('mine'), { list: [1] }, 'a copy is kept')
})

t.test('a worn document is replaced, and all follow', async (t) => {
  const { net, a, b } = pair()
  net.link('a', 'b')
  const KEYS = 5600
  for (let i = 0; i < KEYS; i++) a.put(`k/${i}`, 0)
  await net.pass()
  net.kinds()
  // Change every other key, so that tombstones lie between live entries and cannot be merged.
  for (let n = 0; n < KEYS; n += 100) {
    for (let j = 0; j < 100; j += 2) a.put(`k/${n + j}`, 1)
    await net.pass()
  }
  const states = net.sent.splice(0).flatMap(({ message }) => message.kind === 'state' ? [message] : [])
  t.match(states, [{ whole: true, gen: 1 }], 'sent once, without being asked')
  const { structs } = decodeUpdate(payloadOf('step2', states[0]!.sync)!)
  t.ok(structs.length < 1000, `${structs.length} structs`)
  t.same(contents(b, 'a'), contents(a, 'a'))
  b.compare('a', { boot: 'a-boot', ...a.digest() })
  t.same(net.diverged, [])
  a.put('after', 1)
  await net.pass()
  t.equal(contents(b, 'a')['after'], 1)
})
