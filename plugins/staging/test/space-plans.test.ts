import fc from 'fast-check'
import t from 'tap'
import { inUseClosure, planRecency, requireFit, type CapacityCase } from '../space/plans.js'
import { StoreError } from '../types.js'

const GIB = 1024 ** 3
const NOW = Date.UTC(2026, 0, 1)
const MINUTE = 60_000

interface Idle { modelId: string, sizeBytes: number, freeableBytes: number, lastUsedMs: number }

/** Idle copies written as `name:GiB@minutes ago`, in any order; `+` before the minutes means the future. */
function copies (line: string): Idle[] {
  return line.split(' ').filter((word) => word !== '').map((word) => {
    const match = /^(\w+):([\d.]+)(?:\/([\d.]+))?@(\+?)([\d.]+)$/.exec(word)
    if (match === null) throw new Error(`not a copy: ${word}`)
    const [, name = '', size = '', freeable = size, ahead, minutes = ''] = match
    const lastUsedMs = NOW + (ahead === '+' ? 1 : -1) * Number(minutes) * MINUTE
    const [sizeBytes, freeableBytes] = [Number(size) * GIB, Number(freeable) * GIB]
    return { modelId: `o/${name}`, sizeBytes, freeableBytes, lastUsedMs }
  })
}

type Plan = { fits: true, evict: string[] } | { fits: false, sentence: string }

function planCapacity (asked: CapacityCase): Plan {
  try {
    return { fits: true, evict: requireFit(asked) }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    return { fits: false, sentence: error.message }
  }
}

const names = (ids: readonly string[]): string => ids.map((id) => id.slice(2)).join(' ')

t.test('recency: which idle copies go, oldest first', (t) => {
  const window = NOW - 30 * MINUTE
  type Case = [what: string, idle: string, budgetGib: number, keepSinceMs: number | undefined, evict: string]
  const cases: Case[] = [
    ['nothing there', '', 40, undefined, ''],
    ['the sum is the budget', 'a:20@1 b:20@2', 40, undefined, ''],
    ['the budget is full with the second: the third goes', 'a:20@1 b:20@2 c:1@3', 40, undefined, 'c'],
    ['just below the budget keeps one more', 'a:39.999@1 b:20@2 c:1@3', 40, undefined, 'c'],
    ['oldest first, whatever the order given', 'c:20@3 a:40@1 d:5@4 b:20@2', 40, undefined, 'd c b'],
    ['budget 0 keeps none', 'a:1@1 b:1@2', 0, undefined, 'b a'],
    ['budget 0, used this moment', 'a:1@0', 0, undefined, 'a'],
    ['one larger than the budget behind smaller ones', 'a:1@1 b:60@2 c:1@3', 40, undefined, 'c'],
    ['equal times: by id, the first stays', 'b:40@5 a:40@5 c:40@5', 40, undefined, 'c b'],
    ['a future time is the newest', 'a:40@0 b:40@+60', 40, undefined, 'a'],
    ['an empty copy counts nothing', 'a:0@1 b:40@2 c:1@3', 40, undefined, 'c'],
    ['window: budget 0 keeps what was used within it', 'a:1@29 b:1@31', 0, window, 'b'],
    ['window: its edge is inside', 'a:1@30 b:1@30.001', 0, window, 'b'],
    ['window: more than the budget stays', 'a:40@1 b:40@2 c:40@29 d:1@40', 40, window, 'd'],
    ['window: its copies count into the budget', 'a:30@1 b:10@29 c:10@40', 40, window, 'c'],
    ['window: room left goes to older ones', 'a:30@1 b:10@40 c:10@50', 40, window, 'c']
  ]
  for (const [what, idle, budgetGib, keepSinceMs, evict] of cases) {
    const asked = { idle: copies(idle), budgetBytes: budgetGib * GIB }
    t.equal(names(planRecency(keepSinceMs === undefined ? asked : { ...asked, keepSinceMs })), evict, what)
  }
  t.end()
})

const asks = (additional: number, free: number, idle: string, headroomBytes = 10 * GIB): CapacityCase =>
  ({ additionalBytes: additional * GIB, freeBytes: free * GIB, headroomBytes, idle: copies(idle) })

t.test('capacity: which idle copies make room, oldest first', (t) => {
  const byte = 1 / GIB
  const cases: [what: string, asked: CapacityCase, evict: string | null][] = [
    ['exactly the headroom is left', asks(5, 15, 'a:5@1'), ''],
    ['one byte short takes one', asks(5, 15 - byte, 'a:5@1 b:5@2'), 'b'],
    ['one byte short after one takes the next', asks(5 + byte, 10, 'a:5@1 b:5@2'), 'b a'],
    ['one byte short of everything', asks(10 + byte, 10, 'a:5@1 b:5@2'), null],
    ['oldest first, whatever the order given', asks(10, 10, 'b:5@2 d:1@4 a:5@1 c:4@3'), 'd c b'],
    ['a large new one is not taken before small old ones', asks(2, 10, 'a:50@1 b:1@2 c:1@3'), 'c b'],
    ['copies that free nothing stay', asks(2, 10, 'a:5@1 b:5/0@2 c:5/0@3'), 'a'],
    ['nothing to add on a full disk', asks(0, 0, 'a:5@1'), ''],
    ['one byte to add on a full disk', asks(byte, 0, ''), null],
    ['nothing idle, no room', asks(1, 11 - byte, ''), null],
    ['equal times: by id, the last goes first', asks(1, 10, 'a:1@5 c:1@5 b:1@5'), 'c'],
    ['a future time goes last', asks(1, 10, 'a:1@+5 b:1@0'), 'b'],
    ['the grace budget does not count here', asks(50, 10, 'a:30@0 b:30@1'), 'b a'],
    ['a size that is no number never fits', asks(Number.NaN, 100, 'a:5@1'), null]
  ]
  for (const [what, asked, evict] of cases) {
    const plan = planCapacity(asked)
    t.equal(plan.fits ? names(plan.evict) : null, evict, what)
  }
  t.end()
})

t.test('what does not fit is told with the arithmetic and the next command', (t) => {
  const sentence = (asked: CapacityCase): string => {
    const plan = planCapacity(asked)
    if (plan.fits) throw new Error('fits')
    return plan.sentence
  }
  t.equal(sentence(asks(52.3, 30, 'a:5.25@1 b:2.75@2 c:9/0@3')),
    '52.30 GiB more do not fit: 30.00 GiB are free, 10.00 GiB must stay free and evicting idle models ' +
    'gives back 8.00 GiB, so 24.30 GiB are missing. Free disk space, or use a larger ' +
    'disk (node_cache_path in svc.yaml), then retry.')
  t.match(sentence(asks(5 + 1 / GIB, 15, '')), /so 1 MiB are missing/, 'one byte is not shown as none')
  t.match(sentence(asks(5000, 0, '')), /^5000\.00 GiB more .* 0 MiB are free.* 5010\.00 GiB are missing/)
  t.end()
})

t.test('companions', (t) => {
  const graph: Record<string, string[]> = {
    base: ['draft', 'vision'], draft: ['sidecar'], a: ['b'], b: ['c'], c: ['a'], self: ['self']
  }
  const cases: [used: string[], closure: string[]][] = [
    [[], []], [['lone'], ['lone']], [['base'], ['base', 'draft', 'sidecar', 'vision']],
    [['sidecar'], ['sidecar']], [['a'], ['a', 'b', 'c']], [['self'], ['self']],
    [['b', 'base'], ['a', 'b', 'base', 'c', 'draft', 'sidecar', 'vision']],
    [['draft', 'draft'], ['draft', 'sidecar']]
  ]
  for (const [used, closure] of cases) {
    t.same([...inUseClosure(used, (id) => graph[id] ?? [])].sort(), closure, used.join(' '))
  }
  const deep = inUseClosure(['0'], (id) => Number(id) < 20_000 ? [String(Number(id) + 1)] : [])
  t.equal(deep.size, 20_001, 'a long chain needs no stack')
  t.end()
})

const runs = { seed: 20_260_101, numRuns: 2000 }
const idleOf = fc.uniqueArray(fc.record({
  modelId: fc.integer({ min: 0, max: 60 }).map((n) => `o/m${n}`),
  sizeBytes: fc.integer({ min: 0, max: 30 }),
  freeableBytes: fc.integer({ min: 0, max: 30 }),
  lastUsedMs: fc.integer({ min: 0, max: 20 })
}), { selector: ({ modelId }) => modelId, maxLength: 14 })
const sum = (sizes: readonly number[]): number => sizes.reduce((all, size) => all + size, 0)

t.test('recency keeps a newest-first part that is never below the budget, and no copy more', (t) => {
  const window = fc.option(fc.integer({ min: 0, max: 21 }), { nil: Infinity })
  const budget = fc.integer({ min: 0, max: 120 })
  fc.assert(fc.property(idleOf, budget, window, (idle, budgetBytes, keepSinceMs) => {
    const evict = new Set(planRecency({ idle, budgetBytes, keepSinceMs }))
    const kept = idle.filter(({ modelId }) => !evict.has(modelId))
    const gone = idle.filter(({ modelId }) => evict.has(modelId))
    const keptBytes = sum(kept.map((c) => c.sizeBytes))
    const total = sum(idle.map((c) => c.sizeBytes))
    if (keptBytes < Math.min(total, budgetBytes)) return false
    if (gone.some((g) => kept.some((k) => g.lastUsedMs > k.lastUsedMs))) return false
    if (gone.some((g) => g.lastUsedMs >= keepSinceMs)) return false
    // Each kept copy must be needed to fill the budget or have been used since `keepSinceMs`.
    return kept.every((k) => k.lastUsedMs >= keepSinceMs || sum(kept.filter((other) =>
      other.lastUsedMs > k.lastUsedMs || (other.lastUsedMs === k.lastUsedMs && other.modelId < k.modelId)
    ).map((c) => c.sizeBytes)) < budgetBytes)
  }), runs)
  t.end()
})

t.test('capacity takes the shortest oldest-first part that is enough, or all is too little', (t) => {
  const bytes = fc.integer({ min: 0, max: 150 })
  fc.assert(fc.property(idleOf, bytes, bytes, bytes, (idle, additionalBytes, freeBytes, headroomBytes) => {
    const plan = planCapacity({ idle, additionalBytes, freeBytes, headroomBytes })
    const useful = idle.filter((c) => c.freeableBytes > 0)
    const all = sum(useful.map((c) => c.freeableBytes))
    const enough = (freed: number): boolean =>
      additionalBytes === 0 || freeBytes + freed - additionalBytes >= headroomBytes
    if (!plan.fits) {
      return !enough(all)
    }
    const taken = plan.evict.map((id) => useful.find(({ modelId }) => modelId === id)!)
    const left = useful.filter(({ modelId }) => !plan.evict.includes(modelId))
    const freed = sum(taken.map((c) => c.freeableBytes))
    return enough(freed) && (taken.length === 0 || !enough(freed - taken.at(-1)!.freeableBytes)) &&
      taken.every((c) => left.every((l) => c.lastUsedMs <= l.lastUsedMs)) &&
      taken.every((c, i) => i === 0 || taken[i - 1]!.lastUsedMs <= c.lastUsedMs)
  }), runs)
  t.end()
})
