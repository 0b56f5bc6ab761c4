// What a node adds to a token: HTTP and runner against the engine's model in a bare loop.
import { linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync, copyFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { processes, request, startNode } from '../lib/node.mjs'
import { cpuMs } from '../lib/proc.mjs'
import { figure } from '../lib/report.mjs'
import { interleave, median } from '../lib/stats.mjs'
import { benchCard, benchModel, promptOf } from './model.mjs'
import { startEngine, startLoop, THREADS } from './peers.mjs'
import { processorMs, tokenMs, withWorkers } from './times.mjs'

const LENGTH = 128
const TOKENS = 48
const READY_MS = 120_000

/** A store with the model in it; its large file is linked where that is possible. */
function makeStore () {
  const store = mkdtempSync(join(tmpdir(), 'svc-bench-chat-'))
  const { folder } = benchModel()
  const card = benchCard()
  const to = join(store, card.modelId.replace('/', '--'))
  for (const { path } of card.files) {
    mkdirSync(dirname(join(to, path)), { recursive: true })
    try {
      linkSync(join(folder, path), join(to, path))
    } catch {
      copyFileSync(join(folder, path), join(to, path))
    }
  }
  // JSON is YAML. The store finds the files itself.
  writeFileSync(join(to, 'card.yaml'), JSON.stringify({ ...card, files: [] }))
  return store
}

const CONFIG = (store) => JSON.stringify({
  cluster: { discovery: false },
  plugins: {
    placement: { autoplace: [] },
    runners: { threads: THREADS, engine_options: { 'onnx-lm': { prefix_cache_bytes: 0 } } }
  },
  model_store: { hub: { enabled: false }, store_path: store }
})

/** A node that serves the model. */
async function startServing () {
  const store = makeStore()
  const node = await startNode({ yaml: CONFIG(store) }).catch((error) => {
    rmSync(store, { recursive: true })
    throw error
  })
  const stop = async () => {
    await node.stop()
    rmSync(store, { recursive: true })
  }
  try {
    await place(node)
  } catch (error) {
    await stop()
    throw error
  }
  const { kernel, runner } = await processes(node)
  const used = () => cpuMs(kernel.pid) + cpuMs(runner.pid)
  return { ask: ({ streams: [each] }) => complete(node, each, used), stop }
}

async function place (node) {
  const token = readFileSync(join(node.home, 'operator.token'), 'utf8').trim()
  const body = JSON.stringify({ model_id: benchCard().modelId, wait: true, timeout_seconds: 120 })
  const until = performance.now() + READY_MS
  for (;;) {
    const { status, body: answer } = await request({
      agent: node.agent, url: `${node.url}/place_instance`, method: 'POST', body,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    })
    if (status === 200) return
    // The store takes the folder over in its own time.
    if (performance.now() > until) throw new Error(`place_instance: ${status} ${answer}`)
    await sleep(500)
  }
}

/** A streamed completion: when each of its events came, and what node and runner `used` meanwhile. */
async function complete (node, { length, seed, tokens }, used) {
  const body = JSON.stringify({ model: benchCard().modelId, prompt: promptOf(length, seed),
    max_tokens: tokens, temperature: 0, stream: true })
  const startedAt = performance.now()
  const times = []
  const spent = []
  await new Promise((resolve, reject) => {
    const req = http.request(`${node.url}/v1/completions`, {
      agent: node.agent, method: 'POST', headers: { 'content-type': 'application/json' }
    }, (res) => {
      let said = ''
      res.on('data', (bytes) => {
        const at = performance.now()
        said += bytes
        for (const line of said.split('\n').slice(0, -1)) if (/^data: .*"text":" w/.test(line)) times.push(at)
        if (times.length > spent.length) spent.push(...Array(times.length - spent.length).fill(used()))
        said = said.slice(said.lastIndexOf('\n') + 1)
      })
      res.on('end', () => {
        if (res.statusCode === 200 && times.length > tokens / 2) resolve()
        else reject(new Error(`${res.statusCode}, ${times.length} tokens ${said}`))
      })
      res.on('error', reject)
    })
    req.on('error', reject)
    req.end(body)
  })
  return { streams: [{ startedAt, times, used: spent }] }
}

export default {
  title: `What a node adds to a token at context ${LENGTH}, ${THREADS} thread`,
  async run ({ short, rounds = short ? 5 : 20 }) {
    return await withWorkers({ loop: startLoop, engine: () => startEngine({ prefix_cache_bytes: 0 }),
      node: startServing }, async ({ loop, engine, node }) => {
      const asked = { length: LENGTH, seed: 1, tokens: TOKENS }
      const steps = {
        loop: async () => (await loop.ask(asked)).streams[0],
        engine: async () => (await engine.ask({ streams: [asked] })).streams[0],
        node: async () => (await node.ask({ streams: [asked] })).streams[0]
      }
      await interleave(1, steps)
      const results = await interleave(rounds, steps)
      const ms = (name) => results[name].map(tokenMs)
      const added = (name) => 100 * (median(ms(name).map((each, i) => each / ms('loop')[i])) - 1)
      const row = (title, name) => [title, figure(median(ms(name))), figure(Math.min(...ms(name))),
        figure(median(results[name].map(processorMs))),
        name === 'loop' ? '–' : figure(added(name), '%')]
      return {
        columns: ['', 'token, median ms', 'least of the rounds', 'of the processor, ms',
          'added, median of the rounds'],
        rows: [row('bare loop of the model', 'loop'), row('engine', 'engine'),
          row('node, streamed over HTTP', 'node')],
        targets: [{ name: 'added by the node, of a token', value: added('node'), limit: 5, unit: '%' }],
        notes: [`${rounds} rounds of ${TOKENS} tokens, interleaved`],
        data: Object.fromEntries(Object.keys(results).map((name) => [name, ms(name)]))
      }
    })
  }
}
