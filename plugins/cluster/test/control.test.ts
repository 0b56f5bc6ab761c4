import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { HomeError } from '../../../kernel/boot/home.js'
import { command, controlRig, put, session, sizeOf, testDisk } from './documents-kit.js'
import { fileStore } from '../log/snapshot.js'
import type { EntriesBody, WholeBody } from '../log/entries.js'
import type { Entry } from '../election/protocol.js'

t.test('a document full of splits is replaced within its session, and followers get the new one', (t) => {
  const { control } = controlRig()
  const { control: follower } = controlRig()
  control.append(session('s1', 1))
  const many = Array.from({ length: 6000 }, (_, i) => put(`k/${i}`, i))
  control.append(command('all', many))
  follower.adopt(control.body(null))
  for (let n = 0; n < 10_000 && (n % 200 > 0 || control.position().gen === 0); n++) {
    control.append(command(`c${n}`, [put(`k/${(n * 2) % 6000}`, -n)]))
    if (n % 500 === 0) follower.adopt(control.body(follower.last().seq))
  }
  const { structs, keys } = sizeOf(control)
  t.equal(control.position().gen, 1)
  t.equal(keys, 6000)
  t.ok(structs < 500, `${structs} structs`)
  const body = control.body(follower.last().seq) as WholeBody
  t.equal(follower.adopt(body), 'adopted')
  t.same(follower.position(), control.position())
  control.close()
  t.end()
})

t.test('followers take parts, wholes and nothing else', (t) => {
  const { control } = controlRig()
  const { control: follower, log } = controlRig()
  const seen: string[][] = []
  control.append(session('s1', 1))
  t.equal(follower.adopt(control.body(null)), 'adopted')
  follower.observe((keys) => { seen.push([...keys].sort()) })
  control.append(command('c1', [put('a', 1), put('b', { of: ['x'] })], 's1', 1, { id: 'made' }))
  control.append(command('c2', [put('a', undefined)]))
  const part = control.body(1) as EntriesBody
  t.equal(part.entries.length, 2)
  const [first, second] = part.entries
  t.equal(follower.adopt(part), 'adopted')
  t.same(follower.position(), control.position())
  t.same(follower.find('c1'), { sid: 's1', term: 1, seq: 2, result: { id: 'made' } })
  t.equal(follower.adopt(part), 'adopted', 'the same again')
  t.same(seen, [['a', 'b']], 'told once, of both entries')

  const check = (what: string, body: unknown, adoption: string, refused: number): void => {
    const before = follower.position()
    const already = log.lines.length
    t.equal(follower.adopt(body), adoption, what)
    t.same(follower.position(), before, `${what}: unchanged`)
    t.equal(log.lines.length, already + refused, `${what}: told`)
  }
  control.append(command('c3', [put('c', 3)]))
  control.append(command('c4', [put('c', 4)]))
  const [, last] = (control.body(3) as EntriesBody).entries
  const next = control.body(3) as EntriesBody
  check('a hole', control.body(4), 'gap', 0)
  check('another past', { ...next, base: { seq: 3, digest: 'other' } }, 'gap', 0)
  check('another document', { ...next, clientId: 7 }, 'gap', 0)
  check('another digest', { ...next, entries: [{ ...next.entries[0], digest: 'x' }] }, 'gap', 0)
  check('an entry held otherwise', { ...part, entries: [first, { ...second, digest: 'x' }] }, 'gap', 0)
  check('entries out of order', { ...next, entries: [last] }, 'refused', 1)
  for (const nonsense of [undefined, null, 7, 'text', [], {}, { base: 7 }, { base: null }]) {
    check(`nonsense ${JSON.stringify(nonsense)}`, nonsense, 'refused', 1)
  }
  const whole = control.body(null) as WholeBody
  check('a broken state', { ...whole, state: whole.state.subarray(0, 40) }, 'refused', 1)
  check('a state of another client', { ...whole, clientId: whole.clientId + 1 }, 'refused', 1)
  check('voters that are none', { ...whole, voters: [7] }, 'refused', 1)
  const receipts = [{ id: 'x', sid: 's', term: 1, seq: 1, result: deep(20) }]
  check('a result too deep', { ...whole, receipts }, 'refused', 1)
  t.ok(log.lines.some((line) => line.includes('refused')))
  t.equal(follower.adopt(next), 'adopted', 'still usable')
  t.same(follower.position(), control.position())
  t.end()
})

function deep (levels: number): unknown {
  let value: unknown = 1
  for (let i = 0; i < levels; i++) value = [value]
  return value
}

t.test('the session of another master replaces everything', (t) => {
  const { control: left } = controlRig()
  const { control: right } = controlRig()
  for (const [control, sid] of [[left, 'sl'], [right, 'sr']] as const) {
    control.append(session(sid, 1))
    control.append(command(`c-${sid}`, [put(`only/${sid}`, 1), put('both', sid)], sid))
  }
  t.same(left.last(), right.last())
  t.equal(right.adopt(left.body(2)), 'gap', 'equal numbers, another session')
  const changed: string[] = []
  right.observe((keys) => { changed.push(...keys) })
  t.equal(right.adopt(left.body(null)), 'adopted')
  t.same(right.position(), left.position())
  t.same(changed.sort(), ['both', 'only/sl', 'only/sr'])
  t.equal(right.find('c-sr'), undefined, 'what the other side entered is gone')
  t.same(right.find('c-sl'), { sid: 'sl', term: 1, seq: 2, result: null })
  t.end()
})

t.test('equal numbers and another content never stay', (t) => {
  const { control } = controlRig()
  const { control: follower } = controlRig()
  control.append(session('s1', 1))
  control.append(command('c1', [put('a', 1)]))
  follower.adopt(control.body(null))
  follower.invalidate()
  t.equal(follower.adopt(control.body(2)), 'gap', 'what is not trusted is loaded whole')
  t.equal(follower.adopt(control.body(null)), 'adopted')
  control.append(command('c2', [put('a', 2)]))
  t.equal(follower.adopt(control.body(2)), 'adopted')
  t.same(follower.position(), control.position())
  t.end()
})

t.test('commands that cannot be carried out are entered with their error', (t) => {
  const { control, log } = controlRig()
  control.append(session('s1', 1))
  const check = (id: string, entry: Entry, code: string): void => {
    const before = [...control.entries()]
    t.ok(control.append(entry), id)
    const { result } = control.find(id) ?? {}
    t.equal((result as { error?: { code: string } }).error?.code, code, id)
    t.same([...control.entries()], before, `${id}: nothing is written`)
  }
  check('throws', { ...command('throws', []), payload: null }, 'internal')
  check('bad-key', command('bad-key', [put('ok', 1), put('__proto__', 1)]), 'internal')
  check('bad-value', command('bad-value', [put('a', () => 1)]), 'internal')
  check('deep', command('deep', [put('a', deep(5000))]), 'internal')
  check('bad-result', command('bad-result', [put('a', 1)], 's1', 1, deep(20)), 'internal')
  check('large-result', command('large-result', [put('a', 1)], 's1', 1, 'x'.repeat(70_000)), 'internal')
  const large = Array.from({ length: 5 }, (_, i) => put(`large/${i}`, 'x'.repeat(60_000)))
  check('too-much', command('too-much', large), 'control_full')
  // 100,000 bytes as JSON, 225,000 in an update.
  const decimals = ['d/1', 'd/2'].map((key) => put(key, Array.from({ length: 25_000 }, () => 0.1)))
  check('decimals', command('decimals', decimals), 'control_full')
  t.ok(log.lines.length >= 6)
  t.equal(control.append({ ...session('s1', 1), kind: 'voters', payload: 7 }), false, 'voters that are none')
  t.ok(control.append(command('fine', [put('a', 1)])))
  t.end()
})

t.test('what the master takes, its followers take', (t) => {
  const [{ control }, { control: follower }] = [controlRig(), controlRig()]
  control.append(session('s1', 1))
  t.equal(follower.adopt(control.body(null)), 'adopted')
  const value = Array.from({ length: 28_500 }, () => 0.1)
  control.append(command('c1', [put('decimals', value)]))
  t.same((control.find('c1')?.result as { error?: unknown } | undefined)?.error, undefined)
  t.equal(follower.adopt(control.body(1)), 'adopted')
  // Replaces the large value, which deletes all of the old one.
  control.append(command('c2', [put('decimals', value.slice(1))]))
  t.equal(follower.adopt(control.body(2)), 'adopted')
  t.same(follower.position(), control.position())
  t.end()
})

t.test('receipts: the newest 1,000, through sessions; results as far as there is room', (t) => {
  const { control } = controlRig()
  control.append(session('s1', 1))
  for (let n = 0; n < 1000; n++) control.append(command(`c${n}`, [], 's1', 1, 'r'.repeat(1000)))
  control.append(session('s2', 2))
  t.equal(control.find('session:s1'), undefined)
  t.equal(control.find('c0'), undefined)
  t.same(control.find('c1'), { sid: 's1', term: 1, seq: 3 }, 'its result is given up')
  t.same(control.find('c999'), { sid: 's1', term: 1, seq: 1001, result: 'r'.repeat(1000) })
  const whole = control.body(null) as WholeBody
  t.equal(whole.receipts.length, 1000)
  const { control: follower } = controlRig()
  follower.adopt(whole)
  t.same(follower.find('c1'), control.find('c1'))
  t.same(follower.find('c999'), control.find('c999'))
  t.end()
})

t.test('a session begins with what the seed leaves', (t) => {
  const seed = (previous: ReadonlyMap<string, unknown>): Map<string, unknown> =>
    new Map([...previous].filter(([key]) => key.startsWith('inst/')))
  const { control } = controlRig({ seed })
  control.append(session('s1', 1))
  control.append(command('c1', [put('inst/1', 1), put('status/1', 2)]))
  const { hash } = control.position()
  control.append(session('s2', 2))
  t.same([...control.entries()], [['inst/1', 1]])
  t.match(control.position(), { sid: 's2', term: 2, seq: 3, gen: 0 })
  t.not(control.position().hash, hash)
  const { control: broken, log } = controlRig({ seed: () => { throw new Error('defect') } })
  broken.append(session('s1', 1))
  broken.append(command('c1', [put('a', 1)]))
  t.ok(broken.append(session('s2', 2)))
  t.equal(broken.get('a'), 1, 'a seed that fails loses nothing')
  t.ok(log.lines.some((line) => line.includes('seeded')))
  t.end()
})

t.test('durable: an entry is on disk or does not count', (t) => {
  const store = testDisk()
  const { control } = controlRig({ durable: true, store })
  t.ok(control.append(session('s1', 1)))
  t.ok(control.append(command('c1', [put('a', 1)], 's1', 1, 'made')))
  t.equal(store.writes, 2)
  const before = { position: control.position(), body: control.body(null) as WholeBody }
  store.refuses = true
  t.equal(control.append(command('c2', [put('a', 2)])), false)
  t.equal(control.append(session('s2', 2)), false)
  t.equal(control.get('a'), 1)
  t.equal(control.find('c2'), undefined)
  t.match(control.position(), { ...before.position, gen: Number })
  const { control: master } = controlRig()
  master.append(session('s3', 3))
  t.equal(control.adopt(master.body(null)), 'failed')
  t.equal(control.get('a'), 1)
  store.refuses = false
  t.ok(control.append(command('c3', [put('b', 3)])))
  const { control: again } = controlRig({ durable: true, store })
  t.same(again.last(), control.last())
  t.same([...again.entries()].sort(), [['a', 1], ['b', 3]])
  t.same(again.find('c1'), { sid: 's1', term: 1, seq: 2, result: 'made' })
  t.equal(again.position().hash, control.position().hash)
  t.same(again.voters(), ['a', 'b', 'c'])
  // The restart loses the document, but not the contents.
  t.equal(again.adopt(control.body(3)), 'gap')
  t.equal(again.adopt(control.body(null)), 'adopted')
  t.end()
})

t.test('a part that the disk refuses leaves the follower as it was', (t) => {
  const store = testDisk()
  const { control } = controlRig()
  const { control: follower } = controlRig({ durable: true, store })
  control.append(session('s1', 1))
  follower.adopt(control.body(null))
  const { writes } = store
  control.append(command('c1', [put('a', 1)]))
  store.refuses = true
  t.equal(follower.adopt(control.body(1)), 'failed')
  t.equal(follower.get('a'), undefined)
  t.same(follower.last(), { term: 1, seq: 1 })
  store.refuses = false
  t.equal(follower.adopt(control.body(1)), 'gap', 'the document went with the failure')
  t.equal(follower.adopt(control.body(null)), 'adopted')
  t.equal(follower.get('a'), 1)
  t.equal(store.writes, writes + 1)
  t.end()
})

t.test('not durable: at most every 5 s, and at close', async (t) => {
  const store = testDisk()
  const { control, clock, log } = controlRig({ store })
  control.append(session('s1', 1))
  control.append(command('c1', [put('a', 1)]))
  t.equal(store.writes, 0)
  await clock.advance(5000)
  t.equal(store.writes, 1)
  await clock.advance(60_000)
  t.equal(store.writes, 1, 'nothing new, nothing written')
  store.refuses = true
  t.ok(control.append(command('c2', [put('a', 2)])), 'the disk does not stand in the way')
  await clock.advance(20_000)
  t.equal(log.lines.filter((line) => line.includes('cannot be written')).length, 1, 'said once')
  store.refuses = false
  await clock.advance(5000)
  t.equal(store.writes, 2, 'tried again by itself')
  control.append(command('c3', [put('a', 3)]))
  control.close()
  control.close()
  t.equal(store.writes, 3)
  t.equal(controlRig({ store }).control.get('a'), 3)
  t.equal(control.append(command('c4', [])), false, 'closed')
  t.equal(control.adopt(null), 'failed', 'closed')
})

t.test('the file: written whole, checked when read', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'control-'))
  t.teardown(() => { rmSync(folder, { recursive: true }) })
  const path = join(folder, 'control.json')
  const { control } = controlRig({ store: fileStore(path), durable: true })
  control.append(session('s1', 1))
  control.append(command('c1', [put('a', { text: 'ä€', '1': 2, '0': [1.5e300, -1] })]))
  control.close()
  const { control: again } = controlRig({ store: fileStore(path), durable: true })
  t.same(again.get('a'), { text: 'ä€', '1': 2, '0': [1.5e300, -1] })
  t.same(again.position().hash, controlRig({ store: fileStore(path) }).control.position().hash)
  again.close()
  const good = readFileSync(path, 'utf8')
  const check = (text: string, why: RegExp): void => {
    writeFileSync(path, text)
    const open = (): unknown => controlRig({ store: fileStore(path), durable: true })
    t.throws(open, { name: HomeError.name, message: why }, String(why))
  }
  check('{', /control\.json is not valid JSON/)
  check('null', /has format undefined/)
  check(good.replace('"format":1', '"format":2'), /has format 2, this svc reads 1/)
  check(good.replace('"seq":2', '"seq":3'), /does not match the hash/)
  t.throws(() => controlRig({ store: fileStore(folder) }), { message: /cannot read/ })
  t.end()
})

t.test('observers that fail', (t) => {
  const { control, log } = controlRig()
  const stopWatching = control.observe(() => { throw new Error('defect') })
  control.append(session('s1', 1))
  control.append(command('c1', [put('a', 1)]))
  control.append({ kind: 'anoint', id: 'anoint:4', sid: 's1', term: 4, payload: null })
  t.same(control.last(), { term: 4, seq: 3 })
  t.same(log.lines, ['a listener failed'])
  stopWatching()
  control.append(command('c2', [put('a', 2)], 's1', 4))
  t.equal(log.lines.length, 1, 'told no more')
  t.end()
})

t.test('long behind: the whole document instead of more than 512 entries', (t) => {
  const { control } = controlRig()
  control.append(session('s1', 1))
  for (let n = 0; n < 600; n++) control.append(command(`c${n}`, [put('a', n)]))
  const base = (seq: number): number | undefined => (control.body(seq)).base?.seq
  t.equal(base(2), undefined)
  t.equal(base(88), undefined)
  t.equal(base(89), 89)
  t.equal(base(601), 601)
  t.equal(base(602), undefined, 'a number beyond the last')
  t.end()
})
