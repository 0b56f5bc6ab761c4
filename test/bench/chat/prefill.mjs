// The first token of a short prompt while a long prompt is worked on.
import { figure } from '../lib/report.mjs'
import { median, quantile } from '../lib/stats.mjs'
import { startEngine, THREADS } from './peers.mjs'
import { tokenMs, withWorkers } from './times.mjs'

const LONG = 4000
const LENGTH = 16
const COUNT = 8
/** A piece of the long prompt, which the short one waits for, takes 250 ms about. */
const LATER_MS = 375
/** Apart, so that no prompt begins like another. */
const SEEDS = 1000

export default {
  title: `First token of ${LENGTH} tokens while ${LONG} tokens are worked on, ${THREADS} thread`,
  async run ({ short, rounds = short ? 1 : 4 }) {
    return await withWorkers({ svc: () => startEngine({ prefix_cache_bytes: 0 }) }, async ({ svc }) => {
      const all = []
      for (let round = 0; round < rounds; round++) {
        const { streams: [stream] } = await svc.ask({ streams: [{ length: LENGTH, seed: 5, tokens: 24 }] })
        const probe = { count: COUNT, length: LENGTH, seed: SEEDS * (round + 1) }
        const alone = await svc.ask({ probe })
        const busy = await svc.ask({ probe: { ...probe, long: { length: LONG, seed: 90 + round } } })
        const [step, base] = [tokenMs(stream), median(alone.firsts)]
        all.push({ step, base, later: busy.firsts.map((ms) => ms - base), firsts: busy.firsts })
      }
      const later = all.flatMap((round) => round.later)
      const of = (field) => figure(median(all.map((round) => round[field])), 'ms')
      const firsts = all.flatMap((round) => round.firsts)
      return {
        columns: ['decode step', 'first token alone', 'with the long prompt p50', 'p90', 'longest'],
        rows: [[of('step'), of('base'), ...[0.5, 0.9, 1].map((q) => figure(quantile(firsts, q), 'ms'))]],
        targets: [
          { name: 'longer than alone, p90', value: quantile(later, 0.9), limit: LATER_MS, unit: 'ms' }
        ],
        notes: [`${rounds} long prompts with ${firsts.length} short ones, one after the other from the ` +
          "long one's first token to its last; steps and times alone are of the same round"],
        data: { rounds: all }
      }
    })
  }
}
