// 1,000 requests a second from paired devices, signed or with session tokens, compared with a plain token.
import { ask, operatorOf, pairDevices, signerOf } from './kit.mjs'
import { processes, startNode } from '../lib/node.mjs'
import { cpuMs } from '../lib/proc.mjs'
import { figure } from '../lib/report.mjs'
import { interleave, median, pluck } from '../lib/stats.mjs'
import { startWorker } from '../lib/worker.mjs'

const PER_SECOND = 1000
const DEVICES = 100
const PATH = '/v1/capabilities'
const SESSION = '/v1/devices/session'

/** Gets a session token for each device with one signed request. */
async function bearersOf (node, devices) {
  const bearers = []
  for (const device of devices) {
    const authorization = await signerOf(device).authorization('POST', SESSION, Buffer.from('{}'))
    bearers.push((await ask(node, 'POST', SESSION, {}, authorization)).token)
  }
  return bearers
}

const rowOf = (name, results) => [
  name,
  ...['p50', 'p99', 'max', 'cpuUs'].map((field) => figure(median(pluck(results, field))))
]

export default {
  title: `${PER_SECOND} requests a second of ${DEVICES} paired devices`,
  async run ({ short }) {
    const node = await startNode({ yaml: 'plugins: { placement: { autoplace: [] } }\n' })
    let load
    try {
      const { pid } = (await processes(node)).kernel
      const devices = await pairDevices(node, DEVICES)
      const operator = [`Bearer ${operatorOf(node)}`]
      const made = { label: 'bench', authorities: ['read', 'invoke'] }
      const app = [`Bearer ${(await ask(node, 'POST', '/v1/tokens', made)).token}`]
      const bearers = (await bearersOf(node, devices)).map((bearer) => `Bearer ${bearer}`)
      load = await startWorker('paced-load', { devices, path: PATH })
      const burst = (shown) => async () => {
        const asked = { url: node.url, perSecond: PER_SECOND, seconds: 20, ...shown && { shown } }
        const before = cpuMs(pid)
        const result = await load.ask(asked)
        return { ...result, cpuUs: (cpuMs(pid) - before) * 1000 / result.count }
      }
      await load.ask({ url: node.url, perSecond: PER_SECOND, seconds: 3, shown: operator })
      await load.ask({ url: node.url, perSecond: PER_SECOND, seconds: 3 })
      const results = await interleave(short ? 1 : 2, {
        operator: burst(operator), app: burst(app), signed: burst(), bearer: burst(bearers)
      })
      const failed = Object.values(results).flat().map((r) => Object.values(r.failed))
        .flat().reduce((a, b) => a + b, 0)
      const over = (kind) => median(results[kind].map((r, i) => r.p99 - results.app[i].p99))
      return {
        columns: ['', 'p50, ms', 'p99', 'max', 'CPU of the node per request, µs'],
        rows: [
          rowOf("the operator's token", results.operator), rowOf('an application token', results.app),
          rowOf('signed', results.signed), rowOf('bearer of a device', results.bearer)
        ],
        targets: [
          { name: 'signed, p99 over that of a token', value: over('signed'), limit: 15, unit: 'ms' },
          { name: 'bearer, p99 over that of a token', value: over('bearer'), limit: 15, unit: 'ms' },
          { name: 'requests that failed', value: failed, limit: 0 }
        ],
        notes: [
          `GET ${PATH}, open loop for 20 s each, in turn, ${short ? 1 : 2} rounds; latency counts from ` +
            'when a request is due, so the millisecond of the timer of the load generator is in it'
        ],
        data: results
      }
    } finally {
      await Promise.all([node.stop(), load?.stop()])
    }
  }
}
