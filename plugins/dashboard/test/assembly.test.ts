import fc from 'fast-check'
import t from 'tap'
import { Doc, applyUpdate, type Item } from 'yjs'
import { KvDoc } from '../../../kernel/state/documents/kv-doc.js'
import { stateOf } from '../../../kernel/test/state-entries.js'
import type { Entry } from '../../../kernel/state/entries.js'
import { Assembly } from '../page/assembly.js'

const contents = (items: Iterable<Item>): Entry[] =>
  [...items].flatMap(({ content }) => content.getContent() as Entry[])

t.test('whatever is written, it is the state that all entries make', (t) => {
  const key = fc.constantFrom('a', 'b', 'b/1', 'b/2', 'b/x/y', 'c/1', 'b/__proto__')
  const value = fc.oneof(fc.constant(undefined), fc.integer(), fc.constant({}), fc.constant([1]))
  const writes = fc.array(fc.array(fc.tuple(key, value), { maxLength: 4 }), { maxLength: 12 })
  fc.assert(fc.property(writes, (transactions) => {
    const writer = new KvDoc()
    const doc = new Doc()
    const entries = doc.getArray<Entry>('entries')
    const assembly = new Assembly()
    entries.observe(({ changes }) => { assembly.apply(contents(changes.deleted), contents(changes.added)) })
    for (const transaction of transactions) {
      const update = writer.write(new Map(transaction))
      if (update !== null) applyUpdate(doc, update)
    }
    const expected = stateOf(entries.toArray())
    t.strictSame(JSON.parse(JSON.stringify(assembly.state())), JSON.parse(JSON.stringify(expected)))
  }), { numRuns: 300 })
  t.end()
})

t.test('what has not changed is the same object', (t) => {
  const assembly = new Assembly()
  const first = { key: 'a/1', val: { n: 1 } }
  assembly.apply([], [{ key: 'a', val: {} }, first, { key: 'b', val: {} }, { key: 'b/1', val: 1 }])
  const before = assembly.state()
  assembly.apply([first], [{ key: 'a/1', val: { n: 2 } }])
  const after = assembly.state()
  t.not(after['a'], before['a'])
  t.equal(after['b'], before['b'])
  t.same(after['a'], { 1: { n: 2 } })
  t.end()
})
