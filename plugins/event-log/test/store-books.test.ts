import fc from 'fast-check'
import t from 'tap'
import { merged, PendingGaps, skipped, within } from '../store/gaps.js'
import { WriteQueue, type Op } from '../store/queue.js'

t.test('ranges', async (t) => {
  t.same(merged([]), [])
  t.same(merged([[5, 6], [1, 2], [3, 3], [9, 9], [8, 12]]), [[1, 3], [5, 6], [8, 12]])
  t.same(within([[1, 3], [5, 6], [8, 12]], 3, 9), [[3, 3], [5, 6], [8, 9]])
  const many = Array.from({ length: 1500 }, (_, i) => [i * 10, i * 10 + 1] as const)
  t.equal(merged(many).length, 1000, 'a list has an end')
  t.same(merged(many)[0], [0, 5001])
  t.same(merged(many).at(-1), [14_990, 14_991])
  const entries = [{ idx: 5, prev: 3 }, { idx: 9, prev: 5 }, { idx: 20, prev: 15 }]
  t.same(skipped(entries, 3), [[10, 15]], 'an index that nobody used is no gap')
  t.same(skipped(entries, 1), [[2, 3], [10, 15]])
})

t.test('what is missing is counted exactly, whatever indices are left out and whatever is cut', async (t) => {
  const move = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant('add' as const), skip: fc.constantFrom(0, 0, 0, 1, 7) })
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const), back: fc.nat({ max: 6 }) }) })
  fc.assert(fc.property(fc.array(move, { maxLength: 60 }), fc.nat({ max: 200 }), (moves, upTo) => {
    const log: number[] = [10]
    const missed = new PendingGaps()
    for (const one of moves) {
      const last = log.at(-1)!
      if (one.do === 'add') {
        missed.add(last + 1 + one.skip)
        log.push(last + 1 + one.skip)
      } else {
        log.splice(Math.max(1, log.length - one.back))
        missed.cut(log.at(-1)!)
      }
    }
    const events = log.slice(1)
    const { gap, ranges } = missed
    const all = [missed.take(upTo), missed.gap].filter((one) => one !== null)
    if (events.length === 0) return gap === null && all.length === 0
    return gap?.count === events.length && gap.from === events[0] && gap.to === events.at(-1) &&
      events.every((idx) => ranges.some(([from, to]) => idx >= from && idx <= to)) &&
      all.reduce((sum, { count }) => sum + count, 0) === events.length
  }), { numRuns: 500, seed: 3 })
})

t.test('on disk after all', async (t) => {
  for (const [upTo, gap] of [[10, { from: 11, to: 21, count: 5 }], [11, { from: 12, to: 21, count: 4 }],
    [13, { from: 20, to: 21, count: 2 }], [15, { from: 20, to: 21, count: 2 }],
    [20, { from: 21, to: 21, count: 1 }], [21, null], [99, null]] as const) {
    const missed = new PendingGaps()
    for (const idx of [11, 12, 13, 20, 21]) missed.add(idx)
    missed.found(upTo)
    t.same(missed.gap, gap, `up to ${upTo}`)
  }
})

t.test('the queue: groups, and a cut that is alone', async (t) => {
  const queue = new WriteQueue()
  const append = (idx: number, bytes = 10): Op =>
    ({ type: 'append', row: { ms: 0, idx, prev: 0, text: 'x'.repeat(bytes) } })
  const cut: Op = { type: 'cut', after: 1 }
  let reached = 0
  const mark: Op = { type: 'mark', resolve: () => { reached++ } }
  for (const op of [append(1), append(2), cut, append(2, 600), mark]) queue.push(op)
  t.same([queue.entries, queue.bytes, queue.top], [3, 720, 1])
  t.same(queue.next(9, 1000).length, 2)
  t.equal(queue.entries, 3, 'what is being written counts')
  queue.done(2)
  t.equal(queue.entries, 1)
  t.same(queue.next(9, 1000), [cut])
  t.same(queue.next(9, 1000), [cut], 'it comes first again until it is done')
  queue.done(1)
  t.equal(queue.top, Number.MAX_SAFE_INTEGER)
  queue.push(append(6))
  t.same(queue.next(9, 100).length, 1, 'one, however large')
  t.same(queue.next(2, 1000).length, 2)
  t.same([queue.awaited, reached], [true, 0])
  t.same(queue.done(3).length, 3)
  t.same([queue.entries, queue.bytes, queue.awaited, reached], [0, 0, false, 1])
})
