// Weights of 4 bits: tokens, first tokens and eight answers at once, against llama.cpp's Q4_0 of the same
// shape and transformers.js on the same file.
import { figure } from '../lib/report.mjs'
import { interleave, median } from '../lib/stats.mjs'
import { startEngine, startServer, startTransformers } from './peers.mjs'
import { firstMs, together, tokenMs, withWorkers } from './times.mjs'

const THREADS = 2
const COUNT = 8
const CONTEXT = 128
const TOKENS = 48
const MIDDLE = 512
const LONG = 1024

const one = (length, tokens) => (seed) => [{ length, seed, tokens }]
const first = ([stream]) => firstMs(stream)

/** What is asked for, other prompts for each seed, so that nothing is known; and what is read from it. */
const ASKED = {
  token: { streams: one(CONTEXT, TOKENS), value: ([stream]) => tokenMs(stream) },
  middle: { streams: one(MIDDLE, 1), value: first },
  long: { streams: one(LONG, 1), value: first },
  // Those that begin first write on until the last one has begun.
  eight: {
    streams: (seed) => Array.from({ length: COUNT }, (_, i) =>
      ({ length: CONTEXT, seed: seed + i, tokens: 2 * TOKENS })),
    value: (streams) => together(streams).rate
  }
}

/** Each of `names` asked for each thing; transformers.js cannot write several answers at once. */
function stepsOf (workers, names) {
  const steps = {}
  for (const [i, [what, { streams, value }]] of Object.entries(ASKED).entries()) {
    for (const name of names) {
      if (name === 'transformers.js' && what === 'eight') continue
      steps[`${what} ${name}`] = async (round) =>
        value((await workers[name].ask({ streams: streams(1000 * round + 100 * i + 1) })).streams)
    }
  }
  return steps
}

function targetsOf (of) {
  const ratio = (what, peer) => median(of(what, 'svc').map((ours, i) => ours / (of(what, peer)[i] ?? NaN)))
  const times = median(of('eight', 'svc').map((rate, i) => rate * of('token', 'svc')[i] / 1000))
  return [
    { name: 'token, svc : llama.cpp', value: ratio('token', 'llama.cpp'), limit: 1.5 },
    { name: `first token of ${MIDDLE}, svc : llama.cpp`, value: ratio('middle', 'llama.cpp'), limit: 1.5 },
    { name: `first token of ${LONG}, svc : transformers.js`, value: ratio('long', 'transformers.js'),
      limit: 1 },
    { name: `${COUNT} streams : one`, value: times, limit: 4, atLeast: true }
  ]
}

/** The table of one model, in so many rounds, and with --short. */
const table = (model, many, few) => ({
  title: `${model}, ${THREADS} threads`,
  async run ({ short, rounds = short ? few : many }) {
    const notes = [`${rounds} rounds, interleaved, medians; llama.cpp has other random weights than we`]
    return await withWorkers({
      svc: () => startEngine({ prefix_cache_bytes: 0 }, model, THREADS),
      'llama.cpp': () =>
        startServer(notes, model, { threads: THREADS, slots: COUNT, context: LONG + 2 * TOKENS }),
      'transformers.js': () => startTransformers(notes, model, { threads: THREADS, dtype: 'q4' })
    }, async (workers) => {
      const names = Object.keys(workers).filter((name) => workers[name] !== undefined)
      const steps = stepsOf(workers, names)
      const begin = Object.entries(steps).filter(([step]) => step.startsWith('token'))
      await interleave(1, Object.fromEntries(begin))
      const results = await interleave(rounds, steps)
      const of = (what, name) => results[`${what} ${name}`] ?? []
      return {
        columns: ['', `token at context ${CONTEXT}, ms`, `first of ${MIDDLE}, ms`, `first of ${LONG}, ms`,
          `tokens a second, ${COUNT} streams`],
        rows: names.map((name) =>
          [name, ...Object.keys(ASKED).map((what) => figure(median(of(what, name))))]),
        targets: targetsOf(of),
        notes,
        data: results
      }
    })
  }
})

export default table('q4 135M', 8, 3)
export const large = { default: table('q4 0.6B', 5, 1) }
