import t from 'tap'
import * as Y from 'yjs'
import { checkUpdate, type UpdateCheck } from '../state/documents/guard.js'
import { KvDoc } from '../state/documents/kv-doc.js'
import { checkKey, checkValue, hashOf } from '../state/documents/values.js'
import { seeded } from '../../test/sim/random.js'

const ROOT = 'entries'

function nested (levels: number): unknown {
  let value: unknown = 1
  for (let i = 0; i < levels; i++) value = { in: value }
  return value
}

/** An update of a document that was written with plain Yjs. */
function foreign (write: (doc: Y.Doc) => void): { update: Uint8Array, client: number } {
  const doc = new Y.Doc()
  write(doc)
  return { update: Y.encodeStateAsUpdate(doc), client: doc.clientID }
}

const entry = (key: unknown, val: unknown) => (doc: Y.Doc): void => {
  doc.getArray(ROOT).push([{ key, val }])
}

t.test('T-Y08: what the one writer would not have sent is refused', (t) => {
  const check = (what: string, write: (doc: Y.Doc) => void, why: RegExp | null): void => {
    const { update, client } = foreign(write)
    const verdict = checkUpdate(update, { client, known: 0 })
    if (why === null) t.match(verdict, { end: Number }, what)
    else t.match(verdict, { refused: why }, what)
  }
  check('an entry', entry('a', { b: [1, 'x', null, true] }), null)
  check('16 levels', entry('a', nested(16)), null)
  check('17 levels', entry('a', nested(17)), /more than 16 levels/)
  // The decoder may fail before the depth check does, at a depth that depends on the stack size.
  check('5,000 levels', entry('a', nested(5000)), /more than 16 levels|call stack/)
  check('a key __proto__', entry('__proto__', 1), /the name __proto__/)
  check('a part constructor', entry('a/constructor/b', 1), /the name constructor/)
  check('no key', entry('', 1), /1 to 200/)
  check('a key that is no text', entry(7, 1), /1 to 200/)
  check('bytes', entry('a', new Uint8Array(3)), /foreign prototype/)
  check('undefined', entry('a', undefined), /an undefined/)
  check('another field', (doc) => {
    doc.getArray(ROOT).push([{ key: 'a', val: 1, more: 1 }])
  }, /other fields/)
  check('no object', (doc) => { doc.getArray(ROOT).push([7]) }, /not an object/)
  check('null', (doc) => { doc.getArray(ROOT).push([null]) }, /not an object/)
  check('another root', (doc) => { doc.getArray('other').push([{ key: 'a', val: 1 }]) }, /outside the list/)
  check('a map', (doc) => { doc.getMap(ROOT).set('a', 1) }, /outside the list/)
  check('text', (doc) => { doc.getText(ROOT).insert(0, 'x') }, /without entries/)
  check('a nested type', (doc) => { doc.getArray(ROOT).push([new Y.Map()]) }, /without entries/)
  check('a subdocument', (doc) => { doc.getArray(ROOT).push([new Y.Doc()]) }, /without entries/)
  check('an insertion at the front', (doc) => {
    entry('a', 1)(doc)
    doc.getArray(ROOT).insert(0, [{ key: 'b', val: 1 }])
  }, /out of place/)
  check('too many bytes', entry('a', 'x'.repeat(400_000)), /at most 393216/)
  t.end()
})

/** Encoded parent of the first item: the root type by name. */
const ROOTED = [...Buffer.from(ROOT)]

/** Builds an update byte by byte: structs, then deletions. */
function bytes (...numbers: number[]): Uint8Array {
  const out: number[] = []
  for (let n of numbers) {
    while (n > 127) {
      out.push((n % 128) | 128)
      n = Math.floor(n / 128)
    }
    out.push(n)
  }
  return Uint8Array.from(out)
}

t.test('T-Y08: clocks, clients and ranges out of proportion', (t) => {
  const check = (what: string, update: Uint8Array, why: RegExp, gap = false): void => {
    t.match(checkUpdate(update, { client: 7, known: 3 }), { refused: why, gap }, what)
  }
  const [GC, SKIP, DELETED] = [0, 10, 1]
  check('a struct without content, 2^50 long', bytes(1, 1, 7, 3, GC, 2 ** 50, 0), /not an item/)
  check('a hole in the update', bytes(1, 1, 7, 3, SKIP, 5, 0), /not an item/)
  const many = bytes(1, 1, 7, 0, DELETED, 1, 7, ...ROOTED, 2 ** 40, 0)
  check('2^40 deleted entries', many, /deleted entries in one/)
  check('a foreign client', bytes(1, 1, 8, 3, GC, 1, 0), /of client 8, not 7/)
  check('a deletion of a foreign client', bytes(0, 1, 5, 1, 0, 1), /deletion of client 5, not 7/)
  check('a deletion beyond the clock', bytes(0, 1, 7, 1, 0, 2 ** 31), /up to 2147483648, the clock is 3/)
  check('no update', bytes(9, 9, 9), /not an update/)
  check('nothing', new Uint8Array(), /not an update/)
  const { update, client } = foreign((doc) => { for (const key of ['a', 'b', 'c']) entry(key, 1)(doc) })
  const doc = new Y.Doc()
  Y.applyUpdate(doc, update)
  doc.destroy()
  const later = Y.diffUpdate(update, Y.encodeStateVector(new Map([[client, 2]])))
  t.match(checkUpdate(later, { client, known: 1 }), { refused: /starts at 2, known is 1/, gap: true })
  t.same(checkUpdate(later, { client, known: 2 }), { end: 3 })
  t.same(checkUpdate(update, { client, known: 2 }), { end: 3 }, 'what is held already may come again')
  t.end()
})

t.test('T-Y08: 20,000 mutated updates change nothing or the contents of entries only', (t) => {
  const random = seeded(11)
  const owner = new KvDoc()
  for (let i = 0; i < 20; i++) owner.write(new Map([[`k/${i % 12}`, { n: i, text: `value ${i}` }]]))
  const before = owner.state()
  const update = owner.write(new Map<string, unknown>([['k/1', { n: 99, of: ['x'] }], ['k/2', undefined]]))!
  const replica = new KvDoc(owner.writer)
  replica.apply(before)
  const { clock } = replica
  const contents = JSON.stringify([...replica.live])
  let refused = 0
  let rebuilt = 0
  for (let i = 0; i < 20_000; i++) {
    const mutated = Uint8Array.from(update)
    for (let flips = 1 + Math.floor(random() * 3); flips > 0; flips--) {
      mutated[Math.floor(random() * mutated.length)] = Math.floor(random() * 256)
    }
    const verdict: UpdateCheck =
      replica.check(random() < 0.1 ? mutated.subarray(0, i % mutated.length) : mutated)
    if ('refused' in verdict) {
      refused++
      continue
    }
    // Applies the update to a copy, since the next iteration needs the unchanged document.
    const copy = new KvDoc(owner.writer)
    copy.apply(before)
    if (copy.apply(mutated) === null) rebuilt++
    else JSON.stringify([...copy.live])
    copy.destroy()
  }
  t.ok(refused > 10_000, `${refused} refused, ${rebuilt} given up after applying`)
  t.equal(replica.clock, clock)
  t.equal(JSON.stringify([...replica.live]), contents)
  t.ok(replica.apply(update), 'the real one still fits')
  t.equal(hashOf(replica.live), hashOf(owner.live))
  t.end()
})

t.test('values and keys', (t) => {
  const check = (value: unknown, why: RegExp | null): void => {
    const wrong = checkValue(value)
    if (why === null) t.equal(wrong, null)
    else t.match(wrong, why)
  }
  check({ a: [1, -0.5, 'ä', null, false], absent: undefined }, null)
  check(Object.create(null), null)
  check(NaN, /number NaN/)
  check(Infinity, /number Infinity/)
  check(undefined, /an undefined/)
  check(1n, /a bigint/)
  check([undefined], /an undefined/)
  check(new Date(), /foreign prototype/)
  check(JSON.parse('{"__proto__": 1}'), /named __proto__/)
  check(Object.setPrototypeOf({}, { polluted: 1 }), /foreign prototype/)
  check(Object.setPrototypeOf([], null), /foreign prototype/)
  check('\ud800', /half a surrogate/)
  check({ '\udfff': 1 }, /half a surrogate/)
  check('😀', null)
  t.equal(checkKey('node/a_B.c:d@e-1'), null)
  t.match(checkKey('a b'), /must be 1 to 200/)
  t.match(checkKey('x'.repeat(201)), /must be 1 to 200/)
  t.match(checkKey('a/prototype'), /the name prototype/)
  t.end()
})

t.test('a document of keys and values', (t) => {
  const owner = new KvDoc()
  const replica = new KvDoc(owner.writer)
  const write = (changes: Record<string, unknown>): void => {
    const update = owner.write(new Map(Object.entries(changes)))
    if (update !== null) t.ok(replica.apply(update))
    t.same([...replica.live], [...owner.live])
    t.equal(replica.liveBytes, owner.liveBytes)
  }
  write({ a: 1, b: 2, c: { d: 3 } })
  write({ b: undefined, a: 2 })
  write({ none: undefined })
  write({ b: 4, c: undefined, d: 'x' })
  t.same([...owner.live], [['a', 2], ['b', 4], ['d', 'x']])
  t.ok(owner.structs <= 7, `${owner.structs} structs`)
  t.ok(Object.isFrozen(replica.live.get('d')) && Object.isFrozen(owner.live.get('d')))
  t.equal(owner.own, true)
  t.equal(replica.own, false)
  // svc's writer never leaves two live entries with the same key.
  const twice = foreign((doc) => { for (const val of [1, 2]) entry('a', val)(doc) })
  const other = new KvDoc(twice.client)
  t.match(other.check(twice.update), { end: 2 })
  t.equal(other.apply(twice.update), null)
  t.equal(hashOf([['b', 1], ['a', { y: 1, x: 2 }]]), hashOf([['a', { x: 2, y: 1 }], ['b', 1]]))
  t.end()
})
