// GET /v1/capabilities and /v1/models under load, compared with a bare fastify that sends the same bytes.
import { cpuMs } from './lib/proc.mjs'
import { figure } from './lib/report.mjs'
import { interleave, median, pluck } from './lib/stats.mjs'
import { request, startNode } from './lib/node.mjs'
import { startWorker } from './lib/worker.mjs'

const PATHS = ['/v1/capabilities', '/v1/models']
const CONNECTIONS = 10
const WARM_ROUNDS = 2

/** Runs one burst of load; the result includes the server's CPU time per request. */
async function burst (load, { url, pid }, path, seconds) {
  const before = cpuMs(pid)
  const result = await load.ask({ url: url + path, seconds, connections: CONNECTIONS })
  if (result.failed > 0 || result.total === 0) {
    throw new Error(`${result.failed} requests to ${url}${path} failed`)
  }
  return {
    ...result,
    cpuUs: before === null ? Number.NaN : ((cpuMs(pid) - before) * 1000) / result.total
  }
}

/** Alternates rounds of one path on svc and on a bare server that sends the same bytes. */
async function compare (node, load, path, short) {
  const { body } = await request({ agent: node.agent, url: node.url + path })
  const worker = await startWorker('fastify', { path, body: body.toString() })
  const bare = { url: worker.ready.url, pid: worker.pid }
  const seconds = short ? 2 : 5
  const steps = {
    svc: () => burst(load, node, path, seconds), bare: () => burst(load, bare, path, seconds)
  }
  try {
    await interleave(WARM_ROUNDS, steps)
    return { path, bytes: body.length, ...await interleave(short ? 5 : 9, steps) }
  } finally {
    await worker.stop()
  }
}

const rowOf = (name, results) => [
  name,
  ...['perSecond', 'p50Ms', 'p99Ms', 'cpuUs'].map((field) => figure(median(pluck(results, field))))
]

export default {
  title: 'GET /v1/capabilities and /v1/models under autocannon',
  async run ({ short }) {
    const node = await startNode({ yaml: 'plugins: { placement: { autoplace: [] } }\n' })
    const load = await startWorker('load')
    try {
      const all = []
      for (const path of PATHS) all.push(await compare(node, load, path, short))
      return {
        columns: ['', 'requests/s', 'p50, ms', 'p99, ms', 'server CPU per request, µs'],
        rows: all.flatMap(({ path, bytes, svc, bare }) =>
          [rowOf(`svc, ${path}`, svc), rowOf(`bare fastify, the same ${bytes} bytes`, bare)]),
        targets: all.map(({ path, svc, bare }) => ({
          name: `requests per second of ${path}, svc : bare (median of the rounds' ratios)`,
          value: median(svc.map((r, i) => r.perSecond / bare[i].perSecond)),
          limit: 0.9,
          atLeast: true
        })),
        notes: [
          `${CONNECTIONS} connections; rounds interleaved after ${WARM_ROUNDS} warm ones; load generator, ` +
            'svc and the bare server in processes of their own'
        ],
        data: all
      }
    } finally {
      await Promise.all([node.stop(), load.stop()])
    }
  }
}
