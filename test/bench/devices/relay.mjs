// 200 streams through a relay, compared with 200 directly from the node: age of events on arrival, and CPU
// time and memory of the relay.
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuMs, residentMb } from '../lib/proc.mjs'
import { figure } from '../lib/report.mjs'
import { interleave, median, pluck } from '../lib/stats.mjs'
import { withRelay } from './relayed.mjs'

const STREAMS = 200
const EVERY_MS = 100

const rowOf = (name, results) => [
  name, ...['p50', 'worstP50', 'p99', 'max', 'perSecond'].map((field) =>
    figure(median(pluck(results, field))))
]

/** CPU use of the processes during `work` (100 is one core), and relay memory in MB after `seconds`. */
async function cpuOf (pids, seconds, work) {
  const [before, startedAt] = [Object.values(pids).map(cpuMs), performance.now()]
  const working = work()
  await sleep(seconds * 1000)
  const relayMb = residentMb(pids.relay)
  const result = await working
  const ms = performance.now() - startedAt
  const cpu = Object.fromEntries(Object.entries(pids).map(([name, pid], i) =>
    [name, (cpuMs(pid) - before[i]) / ms * 100]))
  return { ...result, cpu, relayMb }
}

export default {
  title: `${STREAMS} streams through a relay, an event each every ${EVERY_MS} ms`,
  async run ({ short }) {
    return await withRelay(async ({ relay, nodePid, serving, client, direct, relayed }) => {
      const pids = { node: nodePid, relay: relay.pid, serve: serving.pid, client: client.pid }
      const memory = { none: residentMb(relay.pid) }
      await client.ask({ what: 'hold', ...relayed, streams: STREAMS, everyMs: 0 })
      memory.idle = residentMb(relay.pid)
      await client.ask({ what: 'close' })
      const seconds = short ? 5 : 10
      const burst = (where) => async () => await cpuOf(pids, seconds, async () =>
        await client.ask({ what: 'ticks', ...where, streams: STREAMS, everyMs: EVERY_MS, seconds }))
      await interleave(1, { direct: burst(direct), relayed: burst(relayed) })
      const results = await interleave(short ? 2 : 5, { direct: burst(direct), relayed: burst(relayed) })
      memory.active = median(results.relayed.map((r) => r.relayMb))
      // Compares relayed stream n of each round with direct stream n of the same round.
      const over = results.relayed.map(({ p50s }, round) =>
        Math.max(...p50s.map((p50, n) => p50 - results.direct[round].p50s[n])))
      const cpu = median(results.relayed.map((r) => r.cpu.relay))
      return {
        columns: ['', 'p50, ms', 'p50 of the slowest stream', 'p99', 'max', 'events/s'],
        rows: [rowOf('direct', results.direct), rowOf('through the relay', results.relayed)],
        targets: [
          { name: 'p50 of a stream over direct, the most', value: median(over), limit: 5, unit: 'ms' }
        ],
        notes: [
          `memory of the relay: ${figure(memory.none, 'MB')} without streams, ` +
            `${figure(memory.idle, 'MB')} with ${STREAMS} that are silent, ` +
            `${figure(memory.active, 'MB')} that are not; ${figure(cpu, '%')} of a core`,
          'of a core, while they go through the relay: ' + ['node', 'serve', 'client'].map((name) =>
            `${name} ${figure(median(results.relayed.map((r) => r.cpu[name])), '%')}`).join(', '),
          'node, relay, `svc device serve` and the clients are processes of one machine; one device, one ' +
            `connection; ${results.direct.length} rounds of ${seconds} s each, in turn`
        ],
        data: { memory, ...results }
      }
    })
  }
}
