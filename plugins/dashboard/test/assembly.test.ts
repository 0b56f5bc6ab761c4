import fc from 'fast-check'
import t from 'tap'
import { Doc, applyUpdate } from 'yjs'
import { KvDoc } from '../../../kernel/state/documents/kv-doc.js'
import { stateOf } from '../../../kernel/test/state-entries.js'
import { stateOf as shown } from '../page/replica.js'
import type { Entry } from '../../../kernel/state/entries.js'

t.test('whatever is written, it is the state that all entries make', (t) => {
  const key = fc.constantFrom('a', 'b', 'b/1', 'b/2', 'b/x/y', 'c/1', 'b/__proto__')
  const value = fc.oneof(fc.constant(undefined), fc.integer(), fc.constant({}), fc.constant([1]))
  const writes = fc.array(fc.array(fc.tuple(key, value), { maxLength: 4 }), { maxLength: 12 })
  fc.assert(fc.property(writes, (transactions) => {
    const writer = new KvDoc()
    const doc = new Doc()
    const entries = doc.getArray<Entry>('entries')
    for (const transaction of transactions) {
      const update = writer.write(new Map(transaction))
      if (update !== null) applyUpdate(doc, update)
    }
    const expected = stateOf(entries.toArray())
    t.strictSame(JSON.parse(JSON.stringify(shown(entries.toArray()))), JSON.parse(JSON.stringify(expected)))
  }), { numRuns: 300 })
  t.end()
})
