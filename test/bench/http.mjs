// GET /v1/capabilities under load, against a bare fastify route that answers the same bytes.
import { cpuMs } from './lib/proc.mjs'
import { figure } from './lib/report.mjs'
import { interleave, median, pluck } from './lib/stats.mjs'
import { request, startNode } from './lib/node.mjs'
import { startWorker } from './lib/worker.mjs'

const PATH = '/v1/capabilities'
const CONNECTIONS = 10
const WARM_ROUNDS = 2

/** One burst of load, with the CPU time the server took for each request. */
async function burst (load, url, pid, seconds) {
  const before = cpuMs(pid)
  const result = await load.ask({ url: url + PATH, seconds, connections: CONNECTIONS })
  if (result.failed > 0 || result.total === 0) {
    throw new Error(`${result.failed} requests to ${url}${PATH} failed`)
  }
  return {
    ...result,
    cpuUs: before === null ? Number.NaN : ((cpuMs(pid) - before) * 1000) / result.total
  }
}

const rowOf = (name, results) => [
  name,
  ...['perSecond', 'p50Ms', 'p99Ms', 'cpuUs'].map((field) => figure(median(pluck(results, field))))
]

export default {
  title: 'GET /v1/capabilities under autocannon',
  async run ({ short }) {
    const node = await startNode({ yaml: 'plugins: { placement: { autoplace: [] } }\n' })
    const { body } = await request({ agent: node.agent, url: node.url + PATH })
    const bare = await startWorker('fastify', { path: PATH, body: body.toString() })
    const load = await startWorker('load')
    const seconds = short ? 2 : 5
    const steps = {
      svc: () => burst(load, node.url, node.pid, seconds),
      bare: () => burst(load, bare.ready.url, bare.pid, seconds)
    }
    try {
      await interleave(WARM_ROUNDS, steps)
      const results = await interleave(short ? 5 : 9, steps)
      const ratios = results.svc.map((r, i) => r.perSecond / results.bare[i].perSecond)
      const cpuRatios = results.svc.map((r, i) => results.bare[i].cpuUs / r.cpuUs)
      return {
        columns: ['', 'requests/s', 'p50, ms', 'p99, ms', 'server CPU per request, µs'],
        rows: [rowOf('svc', results.svc), rowOf('bare fastify, same bytes', results.bare)],
        targets: [
          {
            name: "requests per second, svc : bare (median of the rounds' ratios)",
            value: median(ratios),
            limit: 0.9,
            atLeast: true
          }
        ],
        notes: [
          `ratio of CPU time per request, bare : svc: ${figure(median(cpuRatios))}`,
          `${body.length} bytes; ${CONNECTIONS} connections; ${ratios.length} rounds of ${seconds} s each, ` +
            'interleaved, after ' +
            `${WARM_ROUNDS} warm ones; load generator, svc and the bare server in processes of their own`
        ],
        data: results
      }
    } finally {
      await Promise.all([node.stop(), bare.stop(), load.stop()])
    }
  }
}
