import t, { type Test } from 'tap'
import { entryAfter, type Entry, type Position } from '../log/entries.js'
import { EventLog } from '../log/log.js'
import { ClusterTwin, readMessage } from './cluster-twin.js'
import type { Message } from '../replication/messages.js'

type T = Pick<Test, 'same' | 'ok' | 'equal' | 'match' | 'teardown'>

const ALL = ['a', 'b', 'c']

function three (make?: () => EventLog): ClusterTwin {
  const twin = new ClusterTwin(ALL, make)
  twin.connect(ALL)
  twin.elect('s1', 'a', ALL)
  twin.run(50)
  return twin
}

/** Checks that all nodes have the same log, each event once, and that indices and streamed ids rise. */
function agree (t: T, twin: ClusterTwin, ids: readonly string[] = ALL): void {
  const first = twin.node(ids[0]!).log.entries
  for (const id of ids) t.same(twin.node(id).log.entries, first, `${id} holds the same list`)
  t.same(first.map((e) => e.id).sort(), [...twin.submitted].sort(), 'each event is there once')
  t.ok(first.every((e, i) => i === 0 || e.idx > first[i - 1]!.idx), 'indices rise')
  for (const id of ids) {
    const { read, rising } = twin.node(id)
    t.equal(new Set(read).size, read.length, `the reader at ${id} had nothing twice`)
    t.same([...read].sort(), [...twin.submitted].sort(), `the reader at ${id} missed nothing`)
    t.ok(rising.every((idx, i) => i === 0 || idx > rising[i - 1]!), `its ids rise at ${id}`)
  }
}

t.test('every node has the events of all, in the order of the master', async (t) => {
  const twin = three()
  for (const id of ['b', 'a', 'c', 'b', 'b', 'a']) twin.happen(id)
  twin.run(100)
  agree(t, twin)
  t.same(twin.node('c').log.entries.map((e) => e.idx), [1, 2, 3, 4, 5, 6])
  t.same(twin.node('c').log.entries[0]!.origin, 'a', 'the master is the first to give one')
  t.equal(twin.node('b').machine.waiting, 0)
  t.equal(twin.node('b').machine.inStep, true)
})

t.test('a new master takes over what only its followers have of the old one', async (t) => {
  const twin = three()
  twin.happen('a')
  twin.run(50)
  // Only b receives the old master's last entries.
  twin.connect(['a', 'b'])
  twin.happen('a')
  twin.happen('b')
  twin.run(50)
  t.equal(twin.node('b').log.last.idx, 3)
  t.equal(twin.node('c').log.last.idx, 1)
  twin.connect(['b', 'c'])
  twin.happen('c')
  twin.elect('s2', 'c', ['b', 'c'])
  twin.run(100)
  agree(t, twin, ['b', 'c'])
  t.equal(twin.node('b').log.entries.at(-1)!.idx, 4, 'the new index is behind those of the old master')
  t.equal(twin.node('b').log.entries.at(-1)!.sid, 's2')
})

t.test('a peer that says nothing holds a new master up for half a second only', async (t) => {
  const twin = three()
  twin.connect(['b', 'c'])
  twin.fate = () => []
  twin.elect('s2', 'b', ['b', 'c'])
  twin.happen('b')
  twin.run(400)
  t.equal(twin.node('b').log.entries.length, 0)
  twin.run(200)
  t.equal(twin.node('b').log.entries.length, 1)
})

t.test('after a split the losing side gives its events to the winning one, and none is lost', async (t) => {
  const twin = three()
  for (let i = 0; i < 5; i++) twin.happen('a')
  twin.run(50)
  twin.connect(['a'], ['b', 'c'])
  twin.elect('s2', 'b', ['b', 'c'])
  for (let i = 0; i < 6; i++) twin.happen('a')
  const before = twin.now
  for (let i = 0; i < 4; i++) twin.happen(i % 2 === 0 ? 'b' : 'c')
  twin.run(100)
  twin.connect(ALL)
  twin.elect('s2', 'b', ALL)
  twin.run(3000)
  agree(t, twin)
  const back = twin.node('c').log.entries.filter((e) => e.origin === 'a' && e.sid === 's2')
  t.equal(back.length, 6)
  t.equal(back[0]!.at, new Date(before).toISOString(), 'with the time at which they happened')
  t.equal(back[0]!.idx, 12, 'above every index that any side gave')
})

t.test('a lost message is made up for', async (t) => {
  const twin = three()
  const lose = (happens: string): void => {
    twin.fate = () => []
    twin.happen(happens)
    twin.run(1)
    twin.fate = () => [1]
  }
  lose('b')
  twin.run(1500)
  agree(t, twin)
  t.equal(twin.submitted.length, 1, 'a submission is sent again after a second')
  lose('a')
  twin.run(6000)
  agree(t, twin)
  t.equal(twin.submitted.length, 2, 'a follower hears where the log ends, and asks')
})

t.test('events that come together travel together', async (t) => {
  const twin = three()
  const sent = twin.posted.length
  for (let i = 0; i < 2500; i++) twin.happen('a')
  twin.run(100)
  agree(t, twin)
  const pages = twin.posted.slice(sent).filter(({ to, type }) => to === 'b' && type === 'page')
  t.same(pages.map(({ entries }) => entries!.length), [500, 500, 500, 500, 500])
})

t.test('a peer whose link is full goes on where it was, and holds nobody up', async (t) => {
  const twin = three()
  twin.full.add('c')
  for (let i = 0; i < 50; i++) {
    twin.happen('a')
    twin.run(20)
  }
  t.equal(twin.node('c').log.entries.length, 0)
  t.same(twin.ids('b'), twin.submitted)
  const sent = twin.posted.length
  twin.full.clear()
  twin.run(1_100)
  agree(t, twin)
  const toC = twin.posted.slice(sent).filter(({ to, type }) => to === 'c' && type === 'page')
  t.same(toC.map(({ entries }) => entries?.length), [50], 'it asks again after a second')
})

t.test('a follower far behind asks for page after page, and is sent nothing unasked', async (t) => {
  const twin = three()
  twin.connect(['a', 'b'], ['c'])
  for (let i = 0; i < 4_000; i++) twin.happen('a')
  twin.run(100)
  twin.fate = () => [400]
  const sent = twin.posted.length
  twin.connect(ALL)
  twin.run(7_000)
  agree(t, twin)
  const posted = twin.posted.slice(sent)
  t.equal(posted.filter(({ to, type }) => to === 'a' && type === 'want').length, 8)
  t.equal(posted.filter(({ to, type }) => to === 'c' && type === 'page').length, 8)
})

t.test('what the ring no longer has comes from the store, also in the middle of it', async (t) => {
  const twin = three(() => new EventLog(600))
  const all: Entry[] = []
  twin.node('a').log.onChange((change) => { if (change.type === 'append') all.push(change.entry) })
  twin.stored.set('a', ([position]) => ({ base: position!,
    entries: all.filter(({ idx }) => idx > position!.idx).slice(0, 500) }))
  twin.full.add('c')
  for (let i = 0; i < 3_000; i++) twin.happen('a')
  twin.run(100)
  twin.full.clear()
  twin.run(1_200)
  t.same(twin.node('c').log.last, twin.node('a').log.last)
  t.same(twin.node('c').read.length, 3_000, 'its reader missed nothing')
})

t.test('a follower that is seconds behind is fed from memory, beyond the entries kept there', async (t) => {
  const twin = three(() => new EventLog(50, 1e6, 4_000))
  twin.full.add('c')
  for (let i = 0; i < 3_000; i++) twin.happen('a')
  twin.run(100)
  twin.stored.set('a', () => { throw new Error('the store is asked') })
  twin.full.clear()
  twin.run(1_200)
  const { log } = twin.node('a')
  t.same(twin.node('c').log.last, log.last)
  t.equal(log.base.idx, 2_950)
  t.equal(log.oldest.idx, 0)
  for (let i = 0; i < 2_500; i++) twin.happen('a')
  const { idx, chain } = log.oldest
  t.ok(idx <= 1_500 && idx >= 1_000, 'at least 4,000 of 5,500, and not many more')
  t.equal(log.page({ idx: idx - 1, chain }), null)
  t.equal(log.page({ idx, chain: 'another' }), null)
  const { base, entries } = log.page(log.oldest)!
  t.equal(base.idx, idx)
  t.equal((JSON.parse(entries) as Entry[]).at(-1)!.idx, idx + 500)
})

t.test('a gap in the master\'s store is passed, also by one that has some of what is missing', async (t) => {
  const twin = three(() => new EventLog(50))
  for (let i = 0; i < 100; i++) twin.happen('a')
  twin.run(100)
  twin.connect(['a'], ['b'], ['c'])
  const stored = twin.node('a').log.entries.slice(0, 30)
  // The master's store ends at entry 30, and the follower has some of the entries that it lacks.
  twin.stored.set('a', (have) => {
    const base = have.find(({ idx }) => idx <= stored.at(-1)!.idx && idx > stored[0]!.idx) ?? null
    return { base, entries: stored.filter(({ idx }) => base !== null && idx > base.idx) }
  })
  for (let i = 0; i < 200; i++) twin.happen('a')
  twin.connect(['a', 'c'])
  twin.run(5_000)
  t.same(twin.node('c').log.last, twin.node('a').log.last)
})

t.test('a gap in the master\'s store right behind what a node has is passed at once', async (t) => {
  const twin = three(() => new EventLog(50))
  for (let i = 0; i < 50; i++) twin.happen('a')
  twin.run(100)
  twin.connect(['a'], ['b'], ['c'])
  const stored = [...twin.node('a').log.entries]
  twin.stored.set('a', (have) => {
    const base = have.find(({ idx }) => idx <= stored.at(-1)!.idx && idx >= stored[0]!.idx) ?? null
    return { base, entries: stored.filter(({ idx }) => base !== null && idx > base.idx) }
  })
  for (let i = 0; i < 200; i++) twin.happen('a')
  twin.connect(['a', 'c'])
  twin.run(500)
  t.same(twin.node('c').log.last, twin.node('a').log.last)
})

t.test('a node that was away catches up in pages', async (t) => {
  const twin = three()
  twin.connect(['a', 'b'], ['c'])
  for (let i = 0; i < 700; i++) twin.happen(i % 2 === 0 ? 'a' : 'b', { text: 'x'.repeat(1000) })
  twin.run(3000)
  twin.connect(ALL)
  twin.run(100)
  agree(t, twin)
})

t.test('a process that starts anew gets the whole log, also when it is made the master', async (t) => {
  const twin = three()
  for (let i = 0; i < 300; i++) twin.happen('b')
  twin.run(2000)
  for (const id of ['c', 'a']) {
    const others = ALL.filter((other) => other !== id)
    twin.connect(others)
    twin.start(id)
    twin.elect(`s-${id}`, id, [id])
    twin.happen(id)
    twin.connect(ALL)
    twin.elect(`t-${id}`, id === 'c' ? 'a' : 'a', ALL)
    twin.run(3000)
  }
  const list = twin.ids('a')
  t.equal(list.length, 302)
  for (const id of ALL) t.same(twin.ids(id), list)
})

t.test('a node that was away for longer than the ring begins where the others do', async (t) => {
  const twin = three(() => new EventLog(50))
  twin.happen('c')
  twin.run(50)
  twin.connect(['a', 'b'], ['c'])
  for (let i = 0; i < 200; i++) twin.happen('a')
  twin.run(100)
  twin.connect(ALL)
  twin.run(2000)
  t.same(twin.ids('c'), twin.ids('a'))
  t.equal(twin.node('c').log.entries.length, 50)
  t.equal(twin.node('c').read.length, 51)
  twin.start('b', new EventLog(50))
  twin.connect(['a', 'c'])
  twin.connect(ALL)
  twin.elect('s2', 'b', ALL)
  twin.happen('b')
  twin.run(2000)
  t.equal(twin.node('b').log.last.idx, 202, 'an empty master goes on behind the others')
  t.same(twin.ids('c'), twin.ids('b'))
  t.equal(twin.ids('b').length, 50)
})

t.test('too many events and one too large are dropped, counted and reported', async (t) => {
  const twin = new ClusterTwin(['a'])
  for (let i = 0; i < 1005; i++) twin.happen('a')
  t.equal(twin.node('a').machine.waiting, 1000)
  twin.elect('s1', 'a', ['a'])
  t.equal(twin.node('a').dropped, 5)
  t.equal(twin.node('a').log.entries.length, 1000)
  twin.happen('a', { text: 'x'.repeat(20_000) })
  t.equal(twin.node('a').dropped, 6)
  t.equal(twin.node('a').log.entries.length, 1000)
})

t.test('what is no message is refused, and an answer that nobody asked for does nothing', async (t) => {
  const twin = three()
  twin.happen('a')
  twin.run(50)
  const b = twin.node('b')
  const before = [...b.log.entries]
  const text = JSON.stringify([{ ...before[0]!, event: { Happened: { x: 'X' } } }])
  const odd = text.replace('"x":"X"', '"__proto__":{"polluted":1}')
  const deep = text.replace('"X"', '['.repeat(100) + ']'.repeat(100))
  const junk: unknown[] = [null, 7, 'x', [], {}, { type: 'toString', sid: 's1' }, { type: 'head', sid: 's1' },
    { type: 'append', sid: 's1', entries: [{ idx: -1 }] }, { type: 'append', sid: 's1', entries: '[' },
    { type: 'append', sid: 's1', entries: '{}' }, { type: 'append', sid: 's1', entries: odd },
    { type: 'append', sid: 's1', entries: deep }, { type: 'submit', sid: 's1', events: [{}] },
    { type: 'want', sid: 's1', n: 1, learn: true, have: 'all' },
    { type: 'head', sid: 's1', last: { idx: 2 ** 53, chain: '' } }]
  for (const message of junk) t.equal(readMessage(message), null, JSON.stringify(message)?.slice(0, 80))
  const forged: Message = { type: 'page', sid: 's1', n: 1, base: { idx: 0, chain: '' }, entries: [],
    last: { idx: 0, chain: '' } }
  for (const from of ['c', 'a']) twin.step('b', { type: 'message', from, message: forged })
  t.same(b.log.entries, before)
})

t.test('answers that come later than a question is repeated are taken all the same', async (t) => {
  const twin = new ClusterTwin(['a', 'b'])
  twin.elect('s1', 'a', ['a', 'b'])
  for (let i = 0; i < 600; i++) twin.happen('a')
  twin.fate = () => [700]
  twin.connect(['a', 'b'])
  twin.run(8000)
  t.same(twin.ids('b'), twin.ids('a'))
  t.equal(twin.node('b').machine.inStep, true)
})

t.test('a master and a follower of an older version are understood', async (t) => {
  const twin = new ClusterTwin(['a', 'b'])
  twin.connect(['a', 'b'])
  twin.elect('s1', 'a', ['a', 'b'])
  for (let i = 0; i < 600; i++) twin.happen('a')
  twin.run(100)
  const { entries, last } = twin.node('a').log
  const types = (to: string, from: number): string[] =>
    twin.posted.slice(from).filter((one) => one.to === to).map(({ type }) => type)
  let sent = twin.posted.length
  twin.step('a', { type: 'message', from: 'b', message: { type: 'took', sid: 's1', last: entries[9]! } })
  twin.step('a', { type: 'message', from: 'b', message: { type: 'took', sid: 's1', last } })
  t.same(types('b', sent), ['head'], 'one that took a page and waits for the next one asks for it')
  sent = twin.posted.length
  const next = (after: Position, idx: number): Entry =>
    entryAfter(after, idx, 's1', { id: `x${idx}`, at: '', origin: 'a', event: { Happened: {} } })
  const first = next(last, 601)
  for (const entry of [first, next({ idx: 602, chain: 'other' }, 603)]) {
    twin.step('b', { type: 'message', from: 'a', message: { type: 'append', sid: 's1', entries: [entry] } })
  }
  t.same(twin.node('b').log.last, first)
  t.same(types('a', sent), ['want'], 'one that does not fit is asked for')
})
