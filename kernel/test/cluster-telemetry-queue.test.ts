import t from 'tap'
import { createQueue } from '../cluster/gossip/queue.js'
import { jsonBytes, MAX_KEYS, MAX_READING_BYTES, readBody, validKey } from '../cluster/gossip/message.js'
import type { QueueCounts, ReadingQueue } from '../cluster/gossip/queue.js'

const offer = (queue: ReadingQueue, ...keys: string[]): void => {
  for (const [i, key] of keys.entries()) queue.offer({ key, value: `${key}${i}`, bytes: 10 })
}
const addsUp = (c: QueueCounts): boolean => c.offered === c.coalesced + c.dropped + c.taken + c.depth

t.test('a queue of three: what waits, and how it is counted', (t) => {
  const check = (
    title: string, steps: (queue: ReadingQueue) => void, waiting: string[], counts: Partial<QueueCounts>
  ): void => {
    const queue = createQueue(3)
    steps(queue)
    t.same(queue.batch(Infinity).map((r) => r.value), waiting, title)
    t.match(queue.counts(), counts, title)
    t.ok(addsUp(queue.counts()), `${title}: adds up`)
  }
  check('nothing', () => {}, [], { offered: 0, depth: 0, maxDepth: 0 })
  check('three keys', (q) => { offer(q, 'a', 'b', 'c') }, ['a0', 'b1', 'c2'], { offered: 3, depth: 3 })
  check('the same key again keeps its place and takes the newest value',
    (q) => { offer(q, 'a', 'b', 'a') }, ['a2', 'b1'], { offered: 3, coalesced: 1, dropped: 0, maxDepth: 2 })
  check('a fourth key drops the oldest',
    (q) => { offer(q, 'a', 'b', 'c', 'd') }, ['b1', 'c2', 'd3'], { dropped: 1, maxDepth: 3 })
  check('a full queue coalesces without dropping',
    (q) => { offer(q, 'a', 'b', 'c', 'c') }, ['a0', 'b1', 'c3'], { coalesced: 1, dropped: 0 })
  check('what was published is gone',
    (q) => { offer(q, 'a', 'b'); q.remove(q.batch(10)) }, ['b1'], { taken: 1, depth: 1, maxDepth: 2 })
  check('what came anew while it was published stays', (q) => {
    offer(q, 'a')
    const batch = q.batch(10)
    offer(q, 'a')
    q.remove(batch)
  }, ['a0'], { taken: 0, coalesced: 1, depth: 1 })
  check('what is not let in counts as dropped', (q) => { q.refuse() }, [], { offered: 1, dropped: 1 })
  t.end()
})

t.test('a batch has as many readings as fit, and never none', (t) => {
  const check = (bytes: number, expected: number): void => {
    const queue = createQueue(8)
    offer(queue, 'a', 'b', 'c')
    t.equal(queue.batch(bytes).length, expected, `${bytes} bytes`)
  }
  check(0, 1)
  check(10, 1)
  check(19, 1)
  check(20, 2)
  check(1000, 3)
  t.end()
})

t.test('a random course of offers and publishes adds up', (t) => {
  const queue = createQueue(5)
  for (let i = 0; i < 2000; i++) {
    offer(queue, `k${(i * 7919) % 11}`)
    if (i % 13 === 0) queue.remove(queue.batch(20))
    if (i % 97 === 0) queue.refuse()
    if (!addsUp(queue.counts())) t.fail(`step ${i}`)
  }
  t.match(queue.counts(), { offered: 2000 + 21, depth: 5, maxDepth: 5 })
  t.end()
})

t.test('keys of readings', (t) => {
  const check = (key: string, fine: boolean): void => { t.equal(validKey(key), fine, JSON.stringify(key)) }
  check('memory', true)
  check('download/svc/voice-en@1:2_3.4', true)
  check('k'.repeat(200), true)
  check('', false)
  check('k'.repeat(201), false)
  check('a b', false)
  check('__proto__', false)
  check('constructor', false)
  t.end()
})

t.test('the size of a value as JSON, null when it is not sent', (t) => {
  const nested = (depth: number): unknown => depth === 0 ? 1 : [nested(depth - 1)]
  const check = (value: unknown, expected: number | null, title: string): void => {
    t.equal(jsonBytes(value), expected, title)
  }
  check(null, 4, 'null')
  check({ a: [1, 'b', true] }, 18, 'an object')
  check({ a: 1, b: undefined }, 7, 'an absent field')
  check('ü', 4, 'bytes, not characters')
  check(Object.assign(Object.create(null) as object, { a: 1 }), 7, 'an object without a prototype')
  check(nested(16), 33, 'depth 16')
  check(nested(17), null, 'depth 17')
  check(undefined, null, 'nothing')
  check(NaN, null, 'no number')
  check(Infinity, null, 'no finite number')
  check(() => 1, null, 'a function')
  check(10n, null, 'a bigint')
  check(new Date(0), null, 'a date')
  check(new Uint8Array(3), null, 'bytes')
  check(JSON.parse('{"__proto__":1}'), null, 'a forbidden field')
  check('x'.repeat(MAX_READING_BYTES - 2), MAX_READING_BYTES, 'the largest')
  check('x'.repeat(MAX_READING_BYTES - 1), null, 'one byte too many')
  t.end()
})

t.test('bodies from peers', (t) => {
  const many = (n: number): object => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, i]))
  const check = (body: unknown, expected: RegExp | number): void => {
    const read = readBody(body)
    const found = 'readings' in read ? read.readings.length : read.wrong
    if (typeof expected === 'number') t.equal(found, expected)
    else t.match('wrong' in read ? read.wrong : 'was accepted', expected)
  }
  check({ v: 1, readings: {} }, 0)
  check({ v: 1, readings: { memory: null, 'a/b': [1] } }, 2)
  check({ v: 1, readings: many(MAX_KEYS), more: 'is left alone' }, MAX_KEYS)
  for (const body of [undefined, null, 7, 'text', [], new Date(0), () => 1]) check(body, /is no object/)
  check({}, /version undefined, not 1/)
  check({ v: 2, readings: {} }, /version 2, not 1/)
  check({ v: 'x'.repeat(500), readings: {} }, /^has version x{20}, not 1$/)
  check({ v: 1 }, /"readings" is no object/)
  check({ v: 1, readings: [] }, /"readings" is no object/)
  check({ v: 1, readings: many(MAX_KEYS + 1) }, /has 65 readings, over 64/)
  check({ v: 1, readings: JSON.parse('{"__proto__":{"polluted":1}}') as unknown }, /the key "__proto__"/)
  check({ v: 1, readings: { 'no key': 1 } }, /the key "no key"/)
  check({ v: 1, readings: { a: 'x'.repeat(MAX_READING_BYTES) } }, /"a" is no plain JSON of at most 65536/)
  check({ v: 1, readings: { a: new Uint8Array(1) } }, /"a" is no plain JSON/)
  t.end()
})
