// A llama-server of its own on a GGUF file: greedy answers, streamed.
import { spawn } from 'node:child_process'
import http from 'node:http'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { serveWorker } from '../lib/worker.mjs'
import { promptOf } from './model.mjs'
import { stopwatch } from './times.mjs'

const READY_MS = 60_000

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address()
    server.close(() => { resolve(port) })
  })
})

const status = (url) => new Promise((resolve) => {
  http.get(url, (res) => {
    res.resume()
    resolve(res.statusCode)
  }).on('error', () => { resolve(0) })
})

/** options: { binary, file, threads, slots, context }, the context being of each slot */
await serveWorker(async ({ binary, file, threads, slots, context }) => {
  const port = await freePort()
  const options = { model: file, host: '127.0.0.1', port, threads, parallel: slots,
    'ctx-size': slots * context, 'cache-ram': 0 }
  const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, `${value}`])
  const child = spawn(binary, words, { stdio: 'ignore' })
  process.once('exit', () => { child.kill('SIGKILL') })
  const url = `http://127.0.0.1:${port}`
  for (const end = performance.now() + READY_MS; await status(`${url}/health`) !== 200;) {
    if (performance.now() > end || child.exitCode !== null) throw new Error('llama-server does not get ready')
    await sleep(100)
  }
  const agent = new http.Agent({ keepAlive: true })

  function write ({ length, seed, tokens }) {
    const body = JSON.stringify({ prompt: promptOf(length, seed), n_predict: tokens, temperature: 0,
      ignore_eos: true, cache_prompt: false, stream: true })
    const watch = stopwatch()
    return new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json' }
      const req = http.request(`${url}/completion`, { agent, method: 'POST', headers }, (res) => {
        let rest = ''
        res.setEncoding('utf8')
        res.on('data', (text) => {
          const lines = (rest + text).split('\n')
          rest = lines.pop()
          for (const line of lines) if (/"stop":false/.test(line)) watch.token()
        })
        res.on('end', () => {
          if (res.statusCode === 200 && watch.count >= tokens) resolve(watch.done())
          else reject(new Error(`${res.statusCode}, ${watch.count} of ${tokens} tokens`))
        })
        res.on('error', reject)
      })
      req.on('error', reject)
      req.end(body)
    })
  }

  return { handle: async ({ streams }) => ({ streams: await Promise.all(streams.map(write)) }) }
})
