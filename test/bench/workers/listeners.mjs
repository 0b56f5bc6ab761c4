// Stream clients: many concurrent ones that record the age of events on arrival, and one that reads bytes.
import { once } from 'node:events'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { quantile } from '../lib/stats.mjs'
import { serveWorker } from '../lib/worker.mjs'

const agent = new http.Agent({ maxSockets: 1024 })

function open (url, headers) {
  return new Promise((resolve, reject) => {
    http.get(url, { agent, headers }, (res) => {
      if (res.statusCode === 200) resolve(res)
      else reject(new Error(`${url}: ${res.statusCode}`))
    }).on('error', reject)
  })
}

/** Records the age in ms of a stream's events on arrival. */
function ages (res, into) {
  let rest = ''
  res.setEncoding('utf8')
  res.on('error', () => {})
  res.on('data', (text) => {
    const now = process.hrtime.bigint()
    const events = (rest + text).split('\n\n')
    rest = events.pop()
    for (const event of events) {
      into.push(Number(now - BigInt(event.slice(6, event.indexOf(' ', 6)))) / 1e6)
    }
  })
}

let held = []
const close = () => { for (const res of held.splice(0)) res.destroy() }

await serveWorker(async () => ({
  handle: async ({ what, url, headers = {}, streams, everyMs, seconds, mib }) => {
    if (what === 'close') { close(); await sleep(500); return {} }
    if (what === 'bytes') {
      const startedAt = performance.now()
      const res = await open(`${url}/v1/bench/bytes?mib=${mib}`, headers)
      let bytes = 0
      for await (const part of res) bytes += part.length
      if (bytes !== mib * 2 ** 20) throw new Error(`received ${bytes} bytes of ${mib} MiB`)
      return { mbPerSecond: bytes / 1e6 / ((performance.now() - startedAt) / 1000) }
    }
    if (what === 'messages') {
      const ws = new WebSocket(url, { perMessageDeflate: false })
      await once(ws, 'open')
      let startedAt
      let bytes = 0
      await new Promise((resolve) => {
        ws.on('message', (message) => {
          startedAt ??= performance.now()
          bytes += message.length
          if (bytes >= mib * 2 ** 20) resolve()
        })
      })
      ws.terminate()
      return { mbPerSecond: bytes / 1e6 / ((performance.now() - startedAt) / 1000) }
    }
    const lists = []
    for (let n = 0; n < streams; n++) {
      // Streams start at different times within the interval, as independent streams do.
      const phase = Math.round(everyMs * n / streams)
      const res = await open(`${url}/v1/bench/ticks?every=${everyMs}&phase=${phase}`, headers)
      lists.push([])
      ages(res, lists.at(-1))
      held.push(res)
    }
    if (what === 'hold') return { streams: held.length }
    await sleep(1000)
    for (const list of lists) list.length = 0
    await sleep(seconds * 1000)
    const taken = lists.map((list) => [...list])
    close()
    await sleep(500)
    const all = taken.flat()
    const p50s = taken.map((list) => quantile(list, 0.5))
    return {
      p50: quantile(all, 0.5), p99: quantile(all, 0.99), max: Math.max(...all), events: all.length,
      perSecond: all.length / seconds, p50s, worstP50: Math.max(...p50s),
      fewest: Math.min(...taken.map((list) => list.length))
    }
  }
}))
