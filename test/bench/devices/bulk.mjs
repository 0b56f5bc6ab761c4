// Throughput of one stream: directly from the node, through the relay, and through bare proxies.
import { WebSocket } from 'ws'
import { figure } from '../lib/report.mjs'
import { interleave, median, pluck } from '../lib/stats.mjs'
import { startWorker } from '../lib/worker.mjs'
import { withRelay } from './relayed.mjs'

/** Message size on the bare WebSockets in bytes, equal to that of relay channel frames. */
const PART_BYTES = 32 * 1024
/** Maximum number of messages in flight. */
const AT_ONCE = 16

/** Sends messages, at most `AT_ONCE` in flight, until the socket fails. */
function pour (url) {
  const ws = new WebSocket(url, { perMessageDeflate: false })
  const part = Buffer.alloc(PART_BYTES, 7)
  const next = () => {
    ws.send(part, (error) => { if (error === undefined || error === null) setImmediate(next) })
  }
  ws.on('error', () => {}).once('open', () => { for (let n = 0; n < AT_ONCE; n++) next() })
}

export default {
  title: 'One stream as fast as it is taken',
  async run ({ short }) {
    return await withRelay(async ({ node, client, direct, relayed }) => {
      const { host, port } = new URL(node.url)
      const proxy = await startWorker('tcp-proxy', { port })
      const splice = await startWorker('ws-splice')
      const mib = short ? 64 : 256
      const bytes = (where) => async () => await client.ask({ what: 'bytes', ...where, mib })
      const steps = {
        direct: bytes(direct),
        proxy: bytes({ url: proxy.ready.url, headers: { ...direct.headers, host } }),
        async splice () {
          const taken = client.ask({ what: 'messages', url: splice.ready.url, mib })
          setTimeout(pour, 200, splice.ready.url)
          return await taken
        },
        relayed: bytes(relayed)
      }
      try {
        await interleave(1, steps)
        const results = await interleave(short ? 3 : 7, steps)
        const share = (kind) => median(results.relayed.map((r, i) =>
          r.mbPerSecond / results[kind][i].mbPerSecond))
        const rowOf = (name, kind) =>
          [name, figure(median(pluck(results[kind], 'mbPerSecond'))), figure(share(kind))]
        return {
          columns: ['', 'MB/s', 'through the relay, of that'],
          rows: [
            rowOf('direct', 'direct'), rowOf('direct, through a bare TCP proxy', 'proxy'),
            rowOf('messages of 32 KiB through a bare splice of ws', 'splice'),
            rowOf('through the relay', 'relayed')
          ],
          targets: [],
          notes: [
            `${mib} MiB, ${results.direct.length} rounds in turn; the relay lets a route have 64 MiB/s as ` +
              'a rule (--rate), and as much at once'
          ],
          data: results
        }
      } finally {
        await Promise.all([proxy.stop(), splice.stop()])
      }
    })
  }
}
