import fc from 'fast-check'
import t from 'tap'
import { Ledger } from '../store/ledger.js'
import { Missing } from '../store/missing.js'
import { archiveName, oldName, readName, segmentName, tooMany } from '../store/names.js'
import { WriteQueue } from '../store/queue.js'
import { merged, within } from '../store/ranges.js'
import { SpaceGuard } from '../store/space.js'
import type { Op } from '../store/queue.js'
import type { Entry } from '../entries.js'

t.test('ranges', async (t) => {
  t.same(merged([]), [])
  t.same(merged([[5, 6], [1, 2], [3, 3], [9, 9], [8, 12]]), [[1, 3], [5, 6], [8, 12]])
  t.same(within([[1, 3], [5, 6], [8, 12]], 3, 9), [[3, 3], [5, 6], [8, 9]])
  const many = Array.from({ length: 1500 }, (_, i) => [i * 10, i * 10 + 1] as const)
  t.equal(merged(many).length, 1000, 'a list has an end')
  t.same(merged(many)[0], [0, 5001])
  t.same(merged(many).at(-1), [14_990, 14_991])
})

t.test('what is missing is counted exactly, whatever indices are left out and whatever is cut', async (t) => {
  const move = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant('add' as const), skip: fc.constantFrom(0, 0, 0, 1, 7) })
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const), back: fc.nat({ max: 6 }) }) })
  fc.assert(fc.property(fc.array(move, { maxLength: 60 }), fc.nat({ max: 60 }), (moves, split) => {
    const log: number[] = [10]
    const parts = [new Missing(), new Missing()] as const
    moves.forEach((one, i) => {
      const part = parts[i < split ? 0 : 1]
      const last = log.at(-1)!
      if (one.do === 'add') {
        part.add(last, last + 1 + one.skip)
        log.push(last + 1 + one.skip)
      } else {
        log.splice(Math.max(1, log.length - one.back))
        for (const each of parts) each.cut(log.at(-1)!)
      }
    })
    parts[0].join(parts[1])
    const events = log.slice(1)
    const { gap } = parts[0]
    if (events.length === 0) return gap === null
    return gap?.count === events.length && gap.from === events[0] && gap.to === events.at(-1)
  }), { numRuns: 500, seed: 3 })
})

t.test('on disk after all', async (t) => {
  for (const [upTo, gap] of [[10, { from: 11, to: 21, count: 5 }], [11, { from: 12, to: 21, count: 4 }],
    [12, { from: 20, to: 21, count: 2 }], [15, { from: 20, to: 21, count: 2 }],
    [20, { from: 21, to: 21, count: 1 }], [21, null], [99, null]] as const) {
    const missing = new Missing()
    for (const [prev, idx] of [[10, 11], [11, 12], [12, 13], [13, 20], [20, 21]]) missing.add(prev!, idx!)
    if (upTo === 12) missing.cut(12)
    if (upTo === 12) for (const [prev, idx] of [[12, 20], [20, 21]]) missing.add(prev!, idx!)
    missing.found(upTo)
    t.same(missing.gap, gap, `up to ${upTo}`)
  }
})

const fresh = (lost: { from: number, to: number, count: number } | null = null): Ledger =>
  new Ledger({ tail: 10, gaps: [[3, 4]], lost })
const gap = (from: number, to: number, count: number, told = true): Op =>
  ({ type: 'gap', gap: { from, to, count }, told })

t.test('the books: what was dropped is said before what follows', async (t) => {
  const ledger = fresh()
  t.same(ledger.accept({ prev: 10, idx: 11 }), [])
  ledger.miss({ prev: 11, idx: 12 }, 'dropped')
  ledger.miss({ prev: 12, idx: 15 }, 'dropped')
  t.same(ledger.gaps, [[3, 4], [12, 15]])
  t.same(ledger.accept({ prev: 15, idx: 16 }), [gap(12, 15, 2)])
  t.same(ledger.accept({ prev: 20, idx: 21 }), [gap(17, 20, 0, false)], 'the log was taken up further on')
  t.same(ledger.gaps, [[3, 4], [12, 15], [17, 20]])
  ledger.cut(18)
  t.same(ledger.gaps, [[3, 4], [12, 15], [17, 18]])
  t.same([ledger.dropped, ledger.counted, ledger.tail], [2, 0, 18])
})

t.test('the books: what waited when the disk failed is missing too, before what was dropped', async (t) => {
  const ledger = fresh()
  const append = (prev: number, idx: number): Op => {
    ledger.accept({ prev, idx })
    return { type: 'append', row: { idx, prev, ms: 0, text: '', entry: {} as Entry } }
  }
  const ops = [append(10, 11), append(11, 12)]
  ledger.miss({ prev: 12, idx: 13 }, 'dropped')
  ledger.refuse([gap(1, 2, 2), ...ops])
  t.same(ledger.due(), [gap(1, 2, 2), gap(11, 13, 3)])
  ledger.miss({ prev: 13, idx: 14 }, 'counted')
  t.same(ledger.due(), [gap(1, 2, 2), gap(11, 14, 4)])
  t.same([ledger.counted, ledger.dropped], [3, 1])
  t.same(ledger.release(), [gap(1, 2, 2), gap(11, 14, 4)])
  t.same(ledger.due(), [])
})

t.test('the books: a gap that waited when the disk failed ends where a cut behind it does', async (t) => {
  const ledger = fresh()
  const [ahead] = ledger.accept({ prev: 20, idx: 21 })
  t.same(ahead, gap(11, 20, 0, false))
  ledger.cut(15)
  ledger.refuse([ahead!, { type: 'cut', after: 15 }])
  t.same(ledger.due(), [gap(11, 15, 0, false)])
  t.same(ledger.gaps, [[3, 4], [11, 15]])
})

t.test('the books: what was lost before the start', async (t) => {
  const lost = { from: 11, to: 14, count: 4 }
  const alone = fresh(lost)
  t.same(alone.gaps, [[3, 4], [11, 14]])
  t.same(alone.toRemember, lost)
  t.same(alone.accept({ prev: 10, idx: 15 }), [gap(11, 14, 4)], 'the log goes on behind it')
  const helped = fresh(lost)
  for (const idx of [11, 12, 13, 14, 15]) t.same(helped.accept({ prev: idx - 1, idx }), [], 'it came back')
  t.same(helped.gaps, [[3, 4]])
  const unknown = fresh({ from: 11, to: 14, count: 0 })
  t.same(unknown.accept({ prev: 10, idx: 15 }), [gap(11, 14, 0, false)], 'nobody knows how many')
})

t.test('the queue: groups, limits and a cut that is alone', async (t) => {
  const queue = new WriteQueue({ entries: 3, bytes: 1000 })
  const append = (idx: number, bytes = 10): Op =>
    ({ type: 'append', row: { idx, prev: idx - 1, ms: 0, text: 'x'.repeat(bytes), entry: {} as Entry } })
  const cut: Op = { type: 'cut', after: 1 }
  for (const op of [append(1), append(2), cut, append(2, 600)]) queue.push(op)
  t.equal(queue.fits(10), false, 'three entries wait')
  t.same(queue.take({ entries: 9, bytes: 1000 }).length, 2)
  t.equal(queue.fits(10), false, 'what is being written counts')
  queue.done()
  t.equal(queue.fits(10), true)
  t.equal(queue.fits(900), false)
  t.same(queue.take({ entries: 9, bytes: 1000 }), [cut])
  queue.putBack([gap(5, 5, 0, false)])
  t.same(queue.take({ entries: 9, bytes: 1000 }).map(({ type }) => type), ['gap'])
  queue.done()
  t.same(queue.take({ entries: 9, bytes: 1000 }), [cut])
  queue.done()
  queue.push(append(3))
  t.same(queue.take({ entries: 9, bytes: 100 }).length, 1, 'one, however large')
  t.same(queue.drain().length, 2, 'what was being written too')
  t.same([queue.entries, queue.bytes, queue.waiting], [0, 0, 0])
})

t.test('free space: when writing stops and begins', async (t) => {
  const guard = new SpaceGuard({ floorBytes: 1000, headroomBytes: 500, holdMs: 30_000 })
  for (const [free, expected] of [[999, true], [1000, false], [null, false]] as const) {
    t.equal(guard.tooLittle(free), expected, String(free))
  }
  const look = (free: number | null, now: number): boolean => guard.mayBegin(free, now)
  t.same([look(1500, 0), look(1500, 29_999), look(1499, 29_999), look(1500, 30_000), look(1500, 59_999),
    look(1500, 60_000)], [false, false, false, false, false, true])
  guard.stopped()
  t.same([look(1500, 61_000), look(1500, 91_000)], [false, true])
})

t.test('names of files, and which archives go', async (t) => {
  t.same([segmentName(7), oldName(7), archiveName(7)].map(readName), [
    { type: 'segment', first: 7, name: 'seg-7.db' }, { type: 'old', first: 7, name: 'old-7.db' },
    { type: 'archive', first: 7, name: 'seg-7.db.gz' }])
  for (const name of ['seg-7.db.tmp', 'seg-7.db.tmp-wal', 'seg-7.db.gz.tmp']) {
    t.same(readName(name), { type: 'rest', name })
  }
  const others = ['seg-7.db-wal', 'seg-x.db', 'seg-7.db.corrupt-1', 'position', '../seg-7.db', 'old-7.db.gz']
  for (const name of others) {
    t.equal(readName(name), null, name)
  }
  const archives = [[1, 50], [9, 50], [5, 50]].map(([first, bytes]) => ({ first: first!, bytes: bytes! }))
  t.same(tooMany(archives, 5, 1000), [])
  t.same(tooMany(archives, 2, 1000).map((a) => a.first), [1])
  t.same(tooMany(archives, 5, 99).map((a) => a.first), [5, 1])
  t.same(tooMany(archives, 5, 10).length, 3)
})
