import t from 'tap'
import { seededRandom, splitMix64, xoshiro128 } from '../text/random.js'
import { tokenChooser } from '../text/sampler.js'
import { Truncation } from '../text/select.js'
import type { SamplerShared } from '../text/sampler.js'
import type { SamplingParams } from '../text/types.js'
import { dice, PLAIN } from './text-kit.js'

const shared = (forbidden: number[] = []): SamplerShared =>
  ({ forbidden: Int32Array.from(forbidden), truncation: new Truncation(), sums: new Float64Array() })
const chooser = (params: Partial<SamplingParams>, forbidden: number[] = [],
  seed = 1): ReturnType<typeof tokenChooser> =>
  tokenChooser({ ...PLAIN, ...params }, shared(forbidden), seededRandom(seed), null)
const once = (params: Partial<SamplingParams>, logits: number[], forbidden: number[] = []): number =>
  chooser(params, forbidden).choose(Float32Array.from(logits)).id

t.test('the generators give the numbers their authors give', async (t) => {
  const next = xoshiro128([1, 2, 3, 4])
  t.strictSame([next(), next(), next(), next()], [11520, 0, 5927040, 70819200])
  const mix = splitMix64(1477776061723855037n)
  t.strictSame([mix(), mix(), mix()], [1985237415132408290n, 2979275885539914483n, 13511426838097143398n])
  const random = seededRandom(42)
  const many = Array.from({ length: 1000 }, random)
  t.ok(many.every((x) => x >= 0 && x < 1))
  const again = seededRandom(42)
  t.strictSame(many, Array.from({ length: 1000 }, again))
  t.not(seededRandom(43)(), many[0])
})

t.test('greedy takes the greatest, of equals the first', async (t) => {
  t.equal(once({}, [1, 3, 3, 2]), 1)
  t.equal(once({}, [-Infinity, -3, -4]), 1)
  t.equal(once({ temperature: 1e-9 }, [1, 3, 3.001, 2]), 2)
  t.equal(once({}, [9, 3, 3, 2], [0]), 1, 'an id without token is never chosen')
})

t.test('logits that cannot be used', async (t) => {
  const params: Partial<SamplingParams>[] = [{}, { temperature: 1 }, { temperature: 1, topK: 2 },
    { logprobs: true }]
  for (const p of params) {
    t.throws(() => once(p, [1, NaN, 2]), { reason: 'provider_error', message: /token 1 is not a number/ })
    t.throws(() => once(p, [-Infinity, -Infinity]),
      { reason: 'provider_error', message: /no token has a finite logit/ })
    t.throws(() => once(p, [1, Infinity]), { reason: 'provider_error', message: /token 1 is infinite/ })
  }
})

/** Share of each id in many draws. */
function shares (params: Partial<SamplingParams>, logits: readonly number[], draws: number): number[] {
  const c = chooser({ temperature: 1, ...params }, [], 7)
  const counts = logits.map(() => 0)
  for (let i = 0; i < draws; i++) counts[c.choose(Float32Array.from(logits)).id]!++
  return counts
}

function softmax (logits: readonly number[], temperature: number): number[] {
  const e = logits.map((x) => Math.exp(x / temperature))
  const sum = e.reduce((a, b) => a + b, 0)
  return e.map((x) => x / sum)
}

/** 99.9th percentiles of the chi-square distribution by degrees of freedom. */
const CHI: Record<number, number> = { 0: 0, 1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52 }

t.test('draws follow the distribution that is left', async (t) => {
  const logits = [2, 1, 0, -1, 1.5, 0.5]
  const cases: [string, Partial<SamplingParams>, number[], number][] = [
    ['temperature 1', {}, [0, 1, 2, 3, 4, 5], 1],
    ['temperature 0.7', { temperature: 0.7 }, [0, 1, 2, 3, 4, 5], 0.7],
    ['temperature 2', { temperature: 2 }, [0, 1, 2, 3, 4, 5], 2],
    ['top_k', { topK: 3 }, [0, 1, 4], 1],
    ['top_k beyond the vocabulary', { topK: 100 }, [0, 1, 2, 3, 4, 5], 1],
    ['top_k 1', { topK: 1 }, [0], 1],
    ['top_p', { topP: 0.6 }, [0, 4], 1],
    ['top_p 0', { topP: 0 }, [0], 1],
    ['top_p nearly 1', { topP: 0.999 }, [0, 1, 2, 3, 4, 5], 1],
    ['min_p', { minP: 0.3 }, [0, 1, 4], 1],
    ['top_k, then top_p of what is left', { topK: 3, topP: 0.7 }, [0, 4], 1],
    ['all', { topK: 4, topP: 0.95, minP: 0.3, temperature: 1.5 }, [0, 1, 4, 5], 1.5]
  ]
  const draws = 6000
  for (const [name, params, left, temperature] of cases) {
    const counts = shares(params, logits, draws)
    const p = softmax(left.map((i) => logits[i] as number), temperature)
    t.equal(left.reduce((sum, i) => sum + (counts[i] as number), 0), draws, `${name}: nothing else`)
    const chi = left.reduce((sum, id, i) =>
      sum + ((counts[id] as number) - draws * (p[i] as number)) ** 2 / (draws * (p[i] as number)), 0)
    t.ok(chi <= (CHI[left.length - 1] ?? 0), `${name}: chi-square ${chi}`)
  }
})

t.test('ties at the border go to the first ids', async (t) => {
  t.strictSame([...new Truncation().keep(Float32Array.of(1, 2, 1, 1), 2,
    { temperature: 1, topK: 2, topP: 1, minP: 0 })].sort(), [0, 1])
  t.strictSame([...new Truncation().keep(Float32Array.of(1, 1, 1, 1), 1,
    { temperature: 1, topK: 0, topP: 0.5, minP: 0 })].sort(), [0, 1])
  t.strictSame([...new Truncation().keep(Float32Array.of(1, 1, 1, 1), 1,
    { temperature: 1, topK: 3, topP: 1, minP: 0 })].sort(), [0, 1, 2], 'a longer row than before')
})

t.test('selection is the same as sorting', async (t) => {
  const truncation = new Truncation()
  for (let seed = 0; seed < 150; seed++) {
    const d = dice(seed)
    const n = 2 + d.below(3000)
    const spread = d.of([0.001, 1, 10, 60])
    const logits = Float32Array.from({ length: n }, () => d.of([d.next(), d.below(20) / 20]) * spread)
    const rule = { temperature: d.of([0.5, 1, 1.7]), topK: d.of([0, 1, 5, 40, 1000]),
      topP: d.of([1, 0.99, 0.9, 0.3]), minP: d.of([0, 0.05]) }
    const best = Math.max(...logits)
    const got = [...truncation.keep(logits, best, rule)].sort((a, b) => a - b)
    const wanted = bySorting(logits, best, rule)
    // Sums of thousands of doubles in another order may differ by one token at the border.
    const [more, less] = [got.filter((i) => !wanted.includes(i)), wanted.filter((i) => !got.includes(i))]
    if (more.length + less.length > (rule.topP < 1 ? 1 : 0)) {
      t.fail('other tokens', { seed, rule, n, spread, more, less })
    }
  }
})

function bySorting (logits: Float32Array, best: number,
  rule: { temperature: number, topK: number, topP: number, minP: number }): number[] {
  let ids = [...logits.keys()].sort((a, b) => (logits[b] as number) - (logits[a] as number) || a - b)
  const mass = (i: number): number => Math.exp(((logits[i] as number) - best) / rule.temperature)
  ids = ids.filter((i) => (best - (logits[i] as number)) / rule.temperature <= 40)
  if (rule.topK > 0) ids = ids.slice(0, rule.topK)
  const total = ids.reduce((sum, i) => sum + mass(i), 0)
  let sum = 0
  if (rule.topP < 1) {
    ids = ids.filter((i, at) => {
      const before = sum; sum += mass(i); return at === 0 ||
        before < rule.topP * total
    })
  }
  return ids.filter((i) => rule.minP === 0 || mass(i) >= rule.minP - 1e-5).sort((a, b) => a - b)
}

t.test('penalties and bias', async (t) => {
  const row = (...x: number[]): Float32Array => Float32Array.from(x)
  const repetition = chooser({ repetitionPenalty: 2 })
  repetition.prompt([0, 2])
  t.equal(repetition.choose(row(4, 2.5, -1, -1.5)).id, 1, 'a positive logit is divided')
  const negative = chooser({ repetitionPenalty: 2 })
  negative.prompt([0, 0])
  t.equal(negative.choose(row(-1, -1.5)).id, 1, 'a negative one is multiplied, once')
  const frequency = chooser({ frequencyPenalty: 1 })
  frequency.prompt([0, 0, 0])
  t.strictSame([1, 2, 3].map(() => frequency.choose(row(3, 1.5, 0)).id), [0, 0, 1],
    'the prompt does not count, every time does')
  const presence = chooser({ presencePenalty: 2 })
  t.strictSame([1, 2, 3].map(() => presence.choose(row(3, 0.5, 0)).id), [0, 0, 0])
  t.strictSame((() => {
    const c = chooser({ presencePenalty: 2.6 }); return [1, 2, 3].map(() =>
      c.choose(row(3, 0.5, 0)).id)
  })(), [0, 1, 0], 'once is as much as often')
  t.equal(once({ logitBias: { 2: 5, 0: -100, 99: 5 } }, [3, 1, 0]), 2)
})

/** The likeliest token by the formulas as they stand in the documents, counted anew each time. */
function byFormula (
  logits: readonly number[], prompt: readonly number[], output: readonly number[], params: SamplingParams
): number {
  const { repeatLastN: last, repetitionPenalty: r, frequencyPenalty, presencePenalty } = params
  const all = [...prompt, ...output]
  const window = last === null || last < 0 ? all : last === 0 ? [] : all.slice(-last)
  const counted = last === null ? output : window
  const scored = logits.map((x, id) => {
    const repeated = !window.includes(id) ? x : x > 0 ? x / r : x * r
    const count = counted.filter((one) => one === id).length
    return Math.fround(Math.fround(repeated) - count * frequencyPenalty - (count > 0 ? presencePenalty : 0))
  })
  return scored.indexOf(Math.max(...scored))
}

t.test('penalties over a window are the bare formula', async (t) => {
  for (let seed = 0; seed < 200; seed++) {
    const d = dice(seed)
    const params: SamplingParams = {
      ...PLAIN, repeatLastN: d.of([null, -1, 0, 1, 2, 5, 64, 2 ** 31 - 1]),
      repetitionPenalty: d.of([1, 1.5, 4]),
      frequencyPenalty: d.of([0, 0.7, -0.5]), presencePenalty: d.of([0, 1.1])
    }
    const prompt = Array.from({ length: d.below(9) }, () => d.below(6))
    const c = chooser(params)
    c.prompt(prompt)
    const output: number[] = []
    for (let i = 0; i < 40; i++) {
      const logits = Array.from({ length: 6 }, () => Math.fround(d.next() * 8 - 3))
      const wanted = byFormula(logits, prompt, output, params)
      const { id } = c.choose(Float32Array.from(logits))
      if (id !== wanted) t.fail('another token', { seed, params, prompt, output, wanted, id })
      output.push(id)
    }
  }
})

t.test('log probabilities are of the model\'s own distribution', async (t) => {
  const logits = [2, 1, 0, -1]
  const p = softmax(logits, 1).map(Math.log)
  const got = chooser({ logprobs: true, topLogprobs: 3, temperature: 0.5, topK: 1,
    logitBias: { 3: 100 } }).choose(Float32Array.from(logits))
  t.equal(got.id, 3)
  t.ok(Math.abs((got.logprob ?? 0) - (p[3] as number)) < 1e-6)
  t.strictSame(got.top.map((x) => x.id), [0, 1, 2])
  got.top.forEach((x) => t.ok(Math.abs(x.logprob - (p[x.id] as number)) < 1e-6))
  t.strictSame(chooser({ logprobs: true }).choose(Float32Array.of(0, -Infinity)),
    { id: 0, logprob: 0, top: [] })
  t.equal(chooser({ logprobs: true, topLogprobs: 2 }).choose(Float32Array.of(0, -Infinity)).top[1]?.logprob,
    -9999)
  t.equal(chooser({}).choose(Float32Array.of(0, 1)).logprob, null)
})

t.test('a sequence is the same alone and among others', async (t) => {
  const all = shared()
  const make = (seed: number): ReturnType<typeof tokenChooser> =>
    tokenChooser({ ...PLAIN, temperature: 1, topP: 0.9, topK: 50 }, all, seededRandom(seed), null)
  const row = (i: number): Float32Array => {
    const d = dice(i); return Float32Array.from({ length: 300 },
      () => d.next() * 6)
  }
  const alone = make(5)
  const wanted = Array.from({ length: 50 }, (_, i) => alone.choose(row(i)).id)
  const [a, b] = [make(5), make(6)]
  t.strictSame(Array.from({ length: 50 }, (_, i) => { b.choose(row(i + 1)); return a.choose(row(i)).id }),
    wanted)
})
