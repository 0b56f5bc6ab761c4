// Load generator: autocannon against one address.
import autocannon from 'autocannon'
import { serveWorker } from '../lib/worker.mjs'

// svc closes a connection after 1,000 requests, which autocannon does not handle.
const RECONNECT_AFTER = 900

await serveWorker(async () => ({
  handle: async ({ url, seconds, connections }) => {
    const { requests, latency, errors, timeouts, non2xx, duration } = await autocannon({
      url,
      duration: seconds,
      connections,
      reconnectRate: RECONNECT_AFTER
    })
    return {
      perSecond: requests.total / duration,
      total: requests.total,
      p50Ms: latency.p50,
      p99Ms: latency.p99,
      failed: errors + timeouts + non2xx
    }
  }
}))
