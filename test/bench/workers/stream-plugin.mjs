// Plugin with streams for measurements: events at a steady rate that carry their creation time, and bytes
// at full speed.
import { setTimeout as sleep } from 'node:timers/promises'

const PART = Buffer.alloc(64 * 1024, 7)
const whole = { type: 'integer', minimum: 0 }
const query = (...names) => ({
  type: 'object', additionalProperties: false, required: names,
  properties: Object.fromEntries(names.map((name) => [name, whole]))
})
const route = { method: 'GET', authority: 'read', stream: true }
// Pads an event to the size of a streamed chat token.
const REST = 'x'.repeat(180)

export default {
  manifest: {
    name: 'streams',
    version: '1.0.0',
    kernel: '^1.0.0',
    summary: 'Streams to measure.',
    routes: {
      ticks: {
        ...route, url: '/v1/bench/ticks', summary: 'An event every so many ms; 0: one, and then none.',
        query: query('every', 'phase')
      },
      bytes: { ...route, url: '/v1/bench/bytes', summary: 'So many MiB.', query: query('mib') }
    }
  },
  start: () => ({
    routes: {
      async ticks (request) {
        const { every, phase } = request.query
        const { signal } = request
        const stream = request.open({ contentType: 'text/event-stream' })
        const tell = async () => { await stream.write(`data: ${process.hrtime.bigint()} ${REST}\n\n`) }
        const gone = new Promise((resolve) => { signal.addEventListener('abort', resolve, { once: true }) })
        await tell()
        await sleep(phase)
        const timer = every === 0 ? undefined : setInterval(() => { tell().catch(() => {}) }, every)
        await gone
        clearInterval(timer)
      },
      async bytes (request) {
        const stream = request.open({ contentType: 'application/octet-stream' })
        for (let left = request.query.mib * 16; left > 0 && !stream.closed; left--) await stream.write(PART)
      }
    }
  })
}
