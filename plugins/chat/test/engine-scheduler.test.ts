import fc from 'fast-check'
import t from 'tap'
import { partition } from '../engine/decode-batches.js'
import { Pacer, Scheduler, type Limits } from '../engine/scheduler.js'
import { Prefixes } from '../engine/prefixes.js'
import { FakeDecoder, NotingJob, reference, type FakeRows } from './engine-fake.js'

const WIDE: Limits = { budget: 1e9, prefixBudget: 1e8, maxSequences: 16 }
const ids = (length: number, from = 0): number[] => Array.from({ length }, (_, i) => (from + i * 7) % 23)

interface Bench {
  decoder: FakeDecoder
  scheduler: Scheduler<FakeRows>
  /** Called before each turn with its number. */
  at: (turn: number) => void
  /** Resolves when nothing is left to do. */
  idle: () => Promise<void>
}

function bench (limits: Partial<Limits> = {}, decoder = new FakeDecoder()): Bench {
  let turns = 0
  const clock = {
    now: () => turns,
    yieldToEvents: async () => {
      made.at(turns++)
      await Promise.resolve()
    }
  }
  const scheduler = new Scheduler(decoder, { ...WIDE, ...limits }, clock)
  const idle = async (): Promise<void> => {
    do await new Promise((resolve) => { setImmediate(resolve) })
    while (scheduler.load.active + scheduler.load.waiting > 0)
  }
  const made: Bench = { decoder, scheduler, at: () => {}, idle }
  return made
}

t.test('one sequence gives what the model gives', async (t) => {
  const { scheduler, idle } = bench()
  const job = new NotingJob(ids(300), 20)
  scheduler.submit([job])
  await idle()
  t.same(job.written, reference(job.prompt, 20))
  t.equal(job.outcome, 'ended')
})

t.test('a copy of states that fails ends what needed it, and nothing after it', async (t) => {
  const cases: [string, (rows: number) => boolean][] = [
    ['of one', (rows) => rows === 1],
    ['of several that go on together', (rows) => rows > 1]
  ]
  for (const [name, fails] of cases) {
    const { scheduler, decoder, idle } = bench()
    scheduler.submit([new NotingJob(ids(40), 3)])
    await idle()
    decoder.noRoom = ({ length }) => fails(length)
    const jobs = [new NotingJob(ids(60, 5), 6), new NotingJob(ids(60), 6)]
    for (const job of jobs) scheduler.submit([job])
    await idle()
    t.same(jobs.map(({ outcome }) => outcome), ['failed', 'failed'], name)
    decoder.noRoom = () => false
    const later = new NotingJob(ids(30), 5)
    scheduler.submit([later])
    await idle()
    t.same(later.written, reference(later.prompt, 5), 'others are served')
  }
})

t.test('several answers to one prompt feed it once', async (t) => {
  const { scheduler, decoder, idle } = bench()
  const jobs = [4, 9, 9].map((tokens) => new NotingJob(ids(50), tokens))
  scheduler.submit(jobs)
  await idle()
  for (const job of jobs) t.same(job.written, reference(job.prompt, job.maxTokens))
  t.same(decoder.calls.filter(({ added }) => added > 1).length, 1)
})

interface Plan {
  jobs: Array<{ base: number, own: number, tokens: number, n: number, turn: number,
    cancel: number | undefined }>
  budget: number
  maxSequences: number
  batching: { ragged: boolean, chunked: boolean, rewinds: boolean, maxRows: number }
}

const plans: fc.Arbitrary<Plan> = fc.record({
  jobs: fc.array(fc.record({
    base: fc.integer({ min: 0, max: 60 }),
    own: fc.integer({ min: 1, max: 60 }),
    tokens: fc.integer({ min: 1, max: 30 }),
    n: fc.integer({ min: 1, max: 3 }),
    turn: fc.integer({ min: 0, max: 60 }),
    cancel: fc.option(fc.integer({ min: 0, max: 30 }), { nil: undefined, freq: 3 })
  }), { minLength: 1, maxLength: 12 }),
  budget: fc.integer({ min: 1600, max: 20_000 }),
  maxSequences: fc.integer({ min: 1, max: 6 }),
  batching: fc.record({
    ragged: fc.boolean(), chunked: fc.boolean(), rewinds: fc.boolean(),
    maxRows: fc.constantFrom(1, 2, Infinity)
  })
})

/** Plays a plan; answers the jobs and the most bytes seen while more than one sequence was worked on. */
async function play (
  { jobs, budget, maxSequences, batching }: Plan
): Promise<{ all: NotingJob[], most: number }> {
  const { decoder, scheduler, idle } = bench({ budget, prefixBudget: budget / 4, maxSequences },
    new FakeDecoder(batching))
  const all: NotingJob[] = []
  const events: Array<{ turn: number, run: () => void }> = []
  let most = 0
  decoder.onCall = () => {
    const { active, bytes } = scheduler.load
    if (active > 1) most = Math.max(most, bytes)
  }
  for (const { base, own, tokens, n, turn, cancel } of jobs) {
    const prompt = [...ids(base), ...ids(own, own + base)]
    const made = Array.from({ length: n }, () => new NotingJob(prompt, tokens))
    all.push(...made)
    let takeBack = (): void => {}
    events.push({ turn, run: () => { takeBack = scheduler.submit(made) } })
    if (cancel === undefined) continue
    events.push({ turn: turn + cancel, run: () => {
      takeBack()
      for (const job of made) job.cancelled = true
    } })
  }
  events.sort((a, b) => a.turn - b.turn)
  let clock = 0
  while (events.length > 0 || scheduler.load.active + scheduler.load.waiting > 0) {
    while (events[0] !== undefined && events[0].turn <= clock) events.shift()?.run()
    clock++
    await Promise.resolve()
  }
  await idle()
  return { all, most }
}

t.test('whatever comes and goes, every sequence gets its own tokens', async () => {
  await fc.assert(fc.asyncProperty(plans, async (plan) => {
    const { all, most } = await play(plan)
    for (const job of all) {
      if (job.cancelled) continue
      if (job.error !== undefined) throw job.error
      const right = job.written.join() === reference(job.prompt, job.maxTokens).join()
      if (!right || job.outcome !== 'ended') throw new Error(`${String(job.outcome)}: ${job.written.join()}`)
    }
    if (most > plan.budget) throw new Error(`${most} bytes in use, ${plan.budget} allowed`)
  }), { numRuns: 150 })
})

t.test('a sequence that is taken back frees its slot within one step', async (t) => {
  const table = bench({ maxSequences: 1 })
  const long = new NotingJob(ids(20), 1e6)
  const next = new NotingJob(ids(20, 3), 1)
  const takeBack = table.scheduler.submit([long])
  table.scheduler.submit([next])
  let calls = 0
  table.at = (turn) => {
    if (turn !== 10) return
    takeBack()
    long.cancelled = true
    calls = table.decoder.calls.length
  }
  await table.idle()
  t.equal(next.outcome, 'ended')
  t.equal(table.decoder.calls.length - calls, 1, 'the next call is already the prompt of the next sequence')
})

t.test('all sequences taken back while a prompt is fed', async (t) => {
  const table = bench()
  const jobs = [1, 2].map(() => new NotingJob(ids(5000), 5))
  const takeBack = table.scheduler.submit(jobs)
  table.at = (turn) => {
    if (turn !== 3) return
    takeBack()
    for (const job of jobs) job.cancelled = true
  }
  await table.idle()
  t.same(jobs.map(({ written }) => written), [[], []])
  t.ok(table.decoder.calls.length < 6)
})

t.test('a long prompt stalls neither a short prompt nor what is being written', async (t) => {
  const table = bench()
  const { decoder, scheduler } = table
  const writing = new NotingJob(ids(10), 60)
  const long = new NotingJob(ids(20_000, 1), 1)
  const short = new NotingJob(ids(30, 2), 1)
  scheduler.submit([writing])
  let callsAtShort = 0
  let firstTokenCalls = 0
  let callsAtToken = 0
  let widest = 0
  writing.onToken = () => {
    widest = Math.max(widest, decoder.calls.length - callsAtToken)
    callsAtToken = decoder.calls.length
  }
  short.onToken = () => { firstTokenCalls = decoder.calls.length - callsAtShort }
  table.at = (turn) => {
    if (turn === 5) scheduler.submit([long])
    if (turn !== 10) return
    scheduler.submit([short])
    callsAtShort = decoder.calls.length
  }
  await table.idle()
  t.ok(widest <= 2, `${widest} calls between two tokens`)
  t.ok(firstTokenCalls <= 2, `${firstTokenCalls} calls until the short prompt was answered`)
  t.ok(long.outcome === 'ended' && writing.outcome === 'ended')
})

t.test('short prompts go first, but a stream of them does not starve a long one', async (t) => {
  const table = bench()
  const long = new NotingJob(ids(1280, 1), 1)
  table.scheduler.submit([long])
  let shorts = 0
  table.at = () => {
    if (long.outcome === undefined && shorts < 1000) table.scheduler.submit([new NotingJob(ids(20, shorts++),
      1)])
  }
  await table.idle()
  t.equal(long.outcome, 'ended')
  t.ok(shorts <= 22, `${shorts} short prompts came while ten pieces were fed`)
})

t.test('the next turn of a conversation feeds only what is new', async (t) => {
  const { scheduler, decoder, idle } = bench()
  const first = new NotingJob(ids(100), 20)
  scheduler.submit([first])
  await idle()
  decoder.calls.length = 0
  const second = new NotingJob([...first.prompt, ...first.written, ...ids(10, 5)], 20)
  scheduler.submit([second])
  await idle()
  t.equal(second.cached, 119, 'the last token that was written had not been fed')
  t.equal(decoder.calls[0]?.added, 11)
  t.same(second.written, reference(second.prompt, 20))
})

t.test('a prompt begins with that of a sequence still being written', async (t) => {
  const table = bench()
  const first = new NotingJob(ids(100), 50)
  const second = new NotingJob([...ids(80), ...ids(10, 5)], 5)
  table.scheduler.submit([first])
  table.at = (turn) => { if (turn === 10) table.scheduler.submit([second]) }
  await table.idle()
  t.equal(second.cached, 80)
  t.same(second.written, reference(second.prompt, 5))
  t.same(first.written, reference(first.prompt, 50))
})

t.test('the same prompt again leaves one token to feed', async (t) => {
  const { scheduler, idle } = bench()
  for (const cached of [0, 49]) {
    const job = new NotingJob(ids(50), 3)
    scheduler.submit([job])
    await idle()
    t.equal(job.cached, cached)
    t.same(job.written, reference(job.prompt, 3))
  }
})

t.test('a call that fails ends what was in it and nothing else', async (t) => {
  const table = bench({ maxSequences: 2 })
  const [a, b, c] = [new NotingJob(ids(10), 30), new NotingJob(ids(10, 1), 30), new NotingJob(ids(10, 2), 5)]
  for (const job of [a, b, c]) table.scheduler.submit([job])
  table.at = (turn) => { if (turn === 10) table.decoder.failure = new Error('broken') }
  await table.idle()
  t.match(a.error, { message: 'broken' })
  t.match(b.error, { message: 'broken' })
  t.same(c.written, reference(c.prompt, 5))
  t.same(table.scheduler.load.active, 0)
})

t.test('a prompt that fails', async (t) => {
  const { scheduler, decoder, idle } = bench()
  decoder.failure = new Error('broken')
  const jobs = [new NotingJob(ids(10), 3), new NotingJob(ids(10), 3)]
  scheduler.submit(jobs)
  await idle()
  for (const job of jobs) t.match(job.error, { message: 'broken' })
})

t.test('a chooser that throws fails its own sequence', async (t) => {
  const { scheduler, idle } = bench()
  const [bad, good] = [new NotingJob(ids(10), 9), new NotingJob(ids(10), 9)]
  bad.onToken = () => { if (bad.written.length === 4) throw new Error('no token') }
  scheduler.submit([bad, good])
  await idle()
  t.match(bad.error, { message: 'no token' })
  t.same(good.written, reference(good.prompt, 9))
})

t.test('NaN fails the sequence with an explanation', async (t) => {
  const decoder = new FakeDecoder()
  const forward = decoder.forward.bind(decoder)
  decoder.forward = async (batch, tokens, logits) => {
    const made = await forward(batch, tokens, logits)
    if (batch.span > 12) for (const row of made.logits) row[3] = NaN
    return made
  }
  const { scheduler, idle } = bench({}, decoder)
  const job = new NotingJob(ids(10), 9)
  scheduler.submit([job])
  await idle()
  t.match(job.error, { name: 'EngineError', reason: 'provider_error', message: /NaN after 1\d tokens/ })
})

t.test('who came last gives way where room is short, and loses nothing', async (t) => {
  const table = bench({ budget: 3000, prefixBudget: 0 })
  const jobs = [0, 1, 2].map((from) => new NotingJob(ids(20, from), 120))
  for (const job of jobs) table.scheduler.submit([job])
  await table.idle()
  for (const job of jobs) t.same(job.written, reference(job.prompt, 120))
  t.ok(table.decoder.calls.some(({ added }) => added > 20), 'a prompt was fed again, with what was written')
})

t.test('sequences are grouped where padding costs less than another call', (t) => {
  const cost = { call: 1000, token: 1, maxRows: Infinity, ragged: true }
  t.same(partition([], cost), [])
  t.same(partition([5], cost), [[0]])
  t.same(partition([30, 10, 20], cost), [[1, 2, 0]], 'cheap padding: all together, shortest first')
  t.same(partition([4000, 10, 20, 4100], cost), [[1, 2], [0, 3]], 'dear padding: two calls')
  t.same(partition([7, 7, 7], { ...cost, maxRows: 2 }).map((group) => group.length).sort(), [1, 2])
  t.same(partition([7, 8, 7], { ...cost, ragged: false }), [[0, 2], [1]])
  t.end()
})

t.test('no split into neighbours is cheaper', (t) => {
  const cost = { call: 50, token: 1, maxRows: 4, ragged: true }
  fc.assert(fc.property(fc.array(fc.integer({ min: 0, max: 200 }), { minLength: 1, maxLength: 7 }),
    (lengths) => {
      const price = (groups: number[][]): number => groups.reduce((sum, group) =>
        sum + cost.call + group.length * Math.max(...group.map((i) => lengths[i]!)), 0)
      const sorted = lengths.map((_, i) => i).sort((a, b) => lengths[a]! - lengths[b]!)
      const made = partition(lengths, cost)
      if (made.flat().sort((a, b) => a - b).join() !== lengths.map((_, i) => i).join()) return false
      for (let cuts = 0; cuts < 2 ** (lengths.length - 1); cuts++) {
        const groups: number[][] = [[]]
        sorted.forEach((i, k) => {
          groups.at(-1)!.push(i)
          if ((cuts >> k) % 2 === 1) groups.push([])
        })
        const legal = groups.every((group) => group.length > 0 && group.length <= cost.maxRows)
        if (legal && price(groups) < price(made)) return false
      }
      return made.every((group) => group.length <= cost.maxRows)
    }))
  t.end()
})

t.test('pieces of prompts take about two steps where others write, else a quarter of a second', (t) => {
  const pacer = new Pacer()
  t.equal(pacer.tokens(true), 128, 'nothing was measured')
  pacer.decoded(60)
  pacer.prefilled(128, 128 * 2)
  t.equal(pacer.tokens(true), 60)
  t.equal(pacer.tokens(false), 125)
  for (let i = 0; i < 50; i++) pacer.prefilled(16, 16 * 100)
  t.equal(pacer.tokens(true), 16, 'never below 16')
  for (let i = 0; i < 50; i++) pacer.prefilled(100, 0.01)
  t.equal(pacer.tokens(false), 512, 'never above 512')
  t.end()
})

t.test('kept states', (t) => {
  const prefixes = new Prefixes<string>(100)
  prefixes.keep({ ids: [1, 2], batch: 'a', bytes: 40 })
  prefixes.keep({ ids: [1, 2, 3], batch: 'b', bytes: 50 })
  t.equal(prefixes.count, 1, 'the longer one replaces what it continues')
  prefixes.keep({ ids: [9], batch: 'c', bytes: 50 })
  const length = (wanted: string) => (entry: { batch: string }) => entry.batch === wanted ? 1 : 0
  t.match(prefixes.find(length('b')), { batch: 'b', length: 1 })
  prefixes.touch('b')
  prefixes.keep({ ids: [8], batch: 'd', bytes: 50 })
  t.equal(prefixes.find(length('c')), undefined, 'the least recently used one went')
  t.equal(prefixes.bytes, 100)
  prefixes.keep({ ids: [7], batch: 'e', bytes: 101 })
  t.equal(prefixes.count, 2, 'too large to be kept')
  t.ok(prefixes.dropOldest() && prefixes.dropOldest())
  t.notOk(prefixes.dropOldest())
  t.equal(prefixes.bytes, 0)
  t.end()
})
