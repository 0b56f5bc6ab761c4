// Requests at a fixed rate, regardless of the answers. Latency counts from a request's due time.
// Signatures are created in advance, each for the due time of its request.
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { signerOf } from '../devices/kit.mjs'
import { quantile } from '../lib/stats.mjs'
import { serveWorker } from '../lib/worker.mjs'

const CONNECTIONS = 128

/**
 * Signs `count` requests from the devices in rotation; request n is due at the wall-clock time `dueMs(n)`.
 */
async function signAll (devices, path, count, dueMs) {
  const signed = []
  // The clock is read during signing, so each device signs in sequence; different devices sign in parallel.
  await Promise.all(devices.map(async (device, first) => {
    let at = 0
    const signer = signerOf(device, () => at)
    for (let n = first; n < count; n += devices.length) {
      at = dueMs(n)
      signed[n] = await signer.authorization('GET', path, undefined)
    }
  }))
  return signed
}

function send (agent, url, authorization) {
  return new Promise((resolve) => {
    const req = http.request(url, { agent, headers: { authorization } }, (res) => {
      res.resume()
      res.once('end', () => { resolve(res.statusCode) })
    })
    req.once('error', (error) => { resolve(error.code ?? 'error') })
    req.end()
  })
}

await serveWorker(async ({ devices, path }) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS, maxFreeSockets: CONNECTIONS,
    scheduling: 'fifo' })
  return {
    // `shown`: Authorization values, used in rotation; if undefined, the devices sign each request.
    handle: async ({ url, perSecond, seconds, shown }) => {
      const count = perSecond * seconds
      const gapMs = 1000 / perSecond
      // Leaves time to sign, much less than the minute by which a signature's time may differ from the clock.
      const startWall = Date.now() + (shown === undefined ? count * 0.5 : 0) + 100
      const credentials = shown ??
        await signAll(devices, path, count, (n) => startWall + n * gapMs)
      if (Date.now() > startWall) throw new Error(`${count} signatures took too long`)
      await sleep(startWall - Date.now())
      const start = performance.now()
      const times = []
      const failed = {}
      const open = []
      for (let next = 0; next < count;) {
        for (; next < count && start + next * gapMs <= performance.now(); next++) {
          const due = start + next * gapMs
          open.push(send(agent, url + path, credentials[next % credentials.length]).then((status) => {
            times.push(performance.now() - due)
            if (status !== 200) failed[status] = (failed[status] ?? 0) + 1
          }))
        }
        await sleep(1)
      }
      await Promise.all(open)
      return {
        p50: quantile(times, 0.5), p99: quantile(times, 0.99), max: Math.max(...times),
        perSecond: count / (performance.now() - start) * 1000, count, failed
      }
    }
  }
})
