// Cost of tracing per token: a node with tracing switched off and on, compared with one without the plugin.
import { figure } from '../lib/report.mjs'
import { interleave, median, quantile } from '../lib/stats.mjs'
import { withNode } from './paced.mjs'

const LIMIT = 1.02
/** Milliseconds that the engine takes per token; 0 shows the cost of everything else. */
const PACES = [4, 0]

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length

/** Runs streams without the plugin, with tracing off and on, in rotation; returns their mean ms per token. */
async function measure (traced, plain, { rounds, tokens, ms }) {
  const stream = async (client) => mean((await client.tokens(tokens, ms)).gaps)
  const times = await interleave(rounds + 2, {
    none: () => stream(plain),
    off: async () => {
      await traced.trace(false)
      return await stream(traced)
    },
    on: async () => {
      await traced.trace(true)
      return await stream(traced)
    }
  })
  // The first two streams of each kind only warm the code up.
  return Object.fromEntries(Object.entries(times).map(([name, list]) => [name, list.slice(2)]))
}

const NAMES = { none: 'without the plugin', off: 'off', on: 'on' }

export default {
  title: 'Tracing and the time of a token',
  async run ({ short }) {
    const rounds = short ? 5 : 40
    const results = await withNode(async (traced) => await withNode(async (plain) => {
      await traced.place()
      await plain.place()
      const all = []
      for (const ms of PACES) {
        const tokens = ms === 0 ? 2000 : short ? 300 : 500
        all.push({ ms, tokens, times: await measure(traced, plain, { rounds, tokens, ms }) })
      }
      const { traces } = await traced.node.json('/v1/traces?limit=10000')
      if (traces.length < rounds) throw new Error(`only ${traces.length} requests were traced`)
      return all
    }, { plugins: { tracing: { enabled: false } } }))
    const ratio = ({ on, off }) => median(on.map((time, i) => time / off[i]))
    return {
      columns: ['engine, ms a token', 'tracing', 'a token, p50 of the streams', 'p99', 'to off', 'µs more'],
      rows: results.flatMap(({ ms, times }) => Object.entries(NAMES).map(([key, name]) => [`${ms}`, name,
        ...[0.5, 0.99].map((q) => figure(quantile(times[key], q), 'ms')),
        figure(median(times[key].map((time, i) => time / times.off[i])).toFixed(4)),
        figure((median(times[key]) - median(times.off)) * 1000)])),
      targets: [
        { name: `a token of ${PACES[0]} ms, on against off`, value: ratio(results[0].times), limit: LIMIT }
      ],
      notes: [
        `${rounds} streams of each kind in turn (${results.map(({ ms, tokens }) =>
          `${tokens} tokens at ${ms} ms`).join(', ')}); the ratio is the median over the rounds`,
        'the engine notes each step, as the engine for language models does'
      ],
      data: { rounds, results }
    }
  }
}
