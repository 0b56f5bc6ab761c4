// One answer at a time: the time of a token with a long context, against the peers on the same shape.
import { figure } from '../lib/report.mjs'
import { interleave, median } from '../lib/stats.mjs'
import { startEngine, startLlama, startTransformers, THREADS } from './peers.mjs'
import { firstMs, processorMs, tokenMs, withWorkers } from './times.mjs'

const LENGTH = 1024
const TOKENS = 32

export default {
  title: `One stream at context ${LENGTH}, ${THREADS} thread: the time of a token`,
  async run ({ short, rounds = short ? 3 : 10 }) {
    const notes = []
    return await withWorkers({
      svc: () => startEngine({ prefix_cache_bytes: 0 }),
      'transformers.js': () => startTransformers(notes),
      'node-llama-cpp': () => startLlama(notes, 2 * LENGTH)
    }, async (workers) => {
      const asked = { length: LENGTH, seed: 1, tokens: TOKENS }
      const steps = Object.fromEntries(Object.entries(workers).filter(([, worker]) => worker !== undefined)
        .map(([name, worker]) => [name, async () => (await worker.ask({ streams: [asked] })).streams[0]]))
      await interleave(1, steps)
      const results = await interleave(rounds, steps)
      const ms = (name, of = tokenMs) => results[name]?.map(of) ?? []
      const ratios = ms('svc').map((ours, i) => (ms('transformers.js')[i] ?? NaN) / ours)
      return {
        columns: ['', 'token, median ms', 'least of the rounds', 'of the processor, ms',
          'first token, median ms'],
        rows: Object.keys(results).map((name) => [name, figure(median(ms(name))),
          figure(Math.min(...ms(name))), figure(median(ms(name, processorMs))),
          figure(median(ms(name, firstMs)))]),
        targets: [{ name: 'tokens a second, svc : transformers.js', value: median(ratios), limit: 1.2,
          atLeast: true }],
        notes: [...notes,
          '134.5 million random weights in float32, plain operators with a concatenated cache; ' +
            'node-llama-cpp has other random weights of that shape',
          `${rounds} rounds of ${TOKENS} tokens, interleaved; a round's figure is its median`],
        data: Object.fromEntries(Object.keys(results).map((name) => [name, ms(name)]))
      }
    })
  }
}
