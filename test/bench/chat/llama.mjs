// The overhead of a node over bare llama-server: first token, token rate, and eight concurrent answers.
import { spawn } from 'node:child_process'
import { linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { processes, request, startNode } from '../lib/node.mjs'
import { figure } from '../lib/report.mjs'
import { interleave, median } from '../lib/stats.mjs'
import { benchModel, promptOf, THREADS } from './model.mjs'
import { firstMs, tokenMs, wholeSeconds, withWorkers } from './times.mjs'

export const MODEL = 'bench/gguf'
const LENGTH = 8
export const TOKENS = 96
const COUNT = 8
/** Tokens per answer if only the time to the first token is measured. */
const FEW = 4
const READY_MS = 120_000

const CONFIG = (store) => JSON.stringify({
  cluster: { discovery: false },
  plugins: {
    placement: { autoplace: [] },
    runners: { threads: THREADS, engine_options: { 'llama-server': { max_batch: COUNT } } }
  },
  model_store: { hub: { enabled: false }, store_path: store }
})

/** Retries a request until its status is 200. */
export async function until (asked, readyMs = READY_MS) {
  const end = performance.now() + readyMs
  for (;;) {
    const { status, body } = await request(asked).catch((error) => ({ status: 0, body: error.message }))
    if (status === 200) return
    if (performance.now() > end) throw new Error(`${asked.url}: ${status} ${body}`)
    await sleep(200)
  }
}

/** Streams concurrent completions; records the arrival time of each token. */
export async function completed ({ agent, url, headers = {} }, { streams, model = MODEL }) {
  return { streams: await Promise.all(streams.map(async ({ seed, tokens }) => {
    const body = JSON.stringify({ model, prompt: promptOf(LENGTH, seed), max_tokens: tokens,
      temperature: 0, stream: true })
    const startedAt = performance.now()
    const times = []
    await new Promise((resolve, reject) => {
      const req = http.request(`${url}/v1/completions`, { agent, method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' } }, (res) => {
        let said = ''
        res.on('data', (bytes) => {
          said += bytes
          const lines = said.split('\n')
          said = lines.pop()
          for (const line of lines) if (/^data: .*"text":"[^"]/.test(line)) times.push(performance.now())
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
    return { startedAt, times }
  })) }
}

/** Puts the model into the folder of a model store. */
export function putInStore (store, file, model = MODEL) {
  const folder = join(store, model.replace('/', '--'))
  mkdirSync(folder)
  linkSync(file, join(folder, 'model.gguf'))
}

async function startServing (binary, file) {
  const store = mkdtempSync(join(tmpdir(), 'svc-bench-chat-'))
  putInStore(store, file)
  process.env.PATH = `${dirname(binary)}${delimiter}${process.env.PATH}`
  const node = await startNode({ yaml: CONFIG(store) })
  const stop = async () => {
    await node.stop()
    rmSync(store, { recursive: true })
  }
  try {
    const authorization = `Bearer ${readFileSync(join(node.home, 'operator.token'), 'utf8').trim()}`
    await until({ agent: node.agent, url: `${node.url}/place_instance`, method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ model_id: MODEL, wait: true, timeout_seconds: 120, context_length: 512 }) })
    const { runner } = await processes(node)
    return { ask: (asked) => completed(node, asked), stop, runner: runner.pid }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The pid and the arguments of the llama-server that a runner has started. */
export function serverUnder (pid) {
  const read = (path) => readFileSync(`/proc/${path}`, 'utf8')
  const children = read(`${pid}/task/${pid}/children`).trim().split(' ').filter((one) => one !== '')
  for (const child of children) {
    const words = read(`${child}/cmdline`).split('\0').filter((one) => one !== '')
    if (words.some((word) => word.endsWith('llama-server'))) return { words, pid: Number(child) }
    const below = serverUnder(child)
    if (below !== null) return below
  }
  return null
}

/** An unused loopback port; another process may take it before it is used. */
export const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address()
    server.close(() => { resolve(port) })
  })
})

/** Starts llama-server without a node, with the same options as the runner's. */
export async function startBare (binary, file, runner) {
  const server = serverUnder(runner)
  if (server === null) throw new Error('the node runs no llama-server')
  const { words } = server
  const own = new Set(['--host', '--port', '--api-key-file', '--model'])
  const args = words.slice(words.findIndex((word) => word.endsWith('llama-server')) + 1)
    .filter((word, i, all) => !own.has(word) && !own.has(all[i - 1]))
  const port = await freePort()
  const child = spawn(binary, ['--model', file, '--host', '127.0.0.1', '--port', `${port}`, ...args],
    { stdio: 'ignore' })
  const end = () => { child.kill('SIGKILL') }
  process.once('exit', end)
  const agent = new http.Agent({ keepAlive: true, maxSockets: 64 })
  const url = `http://127.0.0.1:${port}`
  const stop = async () => { agent.destroy(); process.off('exit', end); end() }
  await until({ agent, url: `${url}/health` }).catch(async (error) => { await stop(); throw error })
  return { ask: (asked) => completed({ agent, url }, asked), stop }
}

export default {
  title: `What a node adds to llama.cpp's server, ${THREADS} thread, weights in 8 bits`,
  async run ({ short, rounds = short ? 5 : 30, firsts = short ? 40 : 200 }) {
    const binary = process.env.SVC_LLAMA_SERVER_BIN
    if (binary === undefined) throw new Error('set SVC_LLAMA_SERVER_BIN to the path of a llama-server')
    const file = benchModel()
    return await withWorkers({ node: () => startServing(binary, file) }, async ({ node }) =>
      await withWorkers({ bare: () => startBare(binary, file, node.runner) }, async ({ bare }) => {
        const one = (worker, round) => worker.ask({ streams: [{ seed: 1 + round, tokens: TOKENS }] })
        const many = (worker, round) => worker.ask({ streams: Array.from({ length: COUNT }, (_, i) =>
          ({ seed: 1000 + COUNT * round + i, tokens: TOKENS })) })
        const steps = {
          bare: async (round) => (await one(bare, round)).streams[0],
          node: async (round) => (await one(node, round)).streams[0]
        }
        const rateOf = ({ streams }) =>
          streams.reduce((sum, { times }) => sum + times.length, 0) / wholeSeconds(streams)
        const eight = {
          bare: async (round) => rateOf(await many(bare, round)),
          node: async (round) => rateOf(await many(node, round))
        }
        const begun = (worker) => async (round) =>
          firstMs((await worker.ask({ streams: [{ seed: 100_000 + round, tokens: FEW }] })).streams[0])
        await interleave(2, steps)
        const first = await interleave(firsts, { bare: begun(bare), node: begun(node) })
        const results = await interleave(rounds, steps)
        const rates = await interleave(Math.ceil(rounds / 3), eight)
        const all = (name, of) => results[name].map(of)
        const pairs = (of, both) => median(all('node', of).map((mine, i) => both(mine, all('bare', of)[i])))
        const added = 100 * (pairs(tokenMs, (a, b) => a / b) - 1)
        const later = median(first.node.map((ms, i) => ms - first.bare[i]))
        const ratio = median(rates.node.map((rate, i) => rate / rates.bare[i]))
        const row = (title, name) => [title, figure(median(first[name])),
          figure(median(all(name, tokenMs))), figure(median(rates[name]))]
        return {
          columns: ['', 'first token, ms', 'token, ms', `tokens a second, ${COUNT} streams`],
          rows: [row('llama-server', 'bare'), row('node, streamed over HTTP', 'node')],
          targets: [
            { name: 'added by the node, of a token', value: added, limit: 5, unit: '%' },
            { name: 'added by the node, to the first token', value: later, limit: 3, unit: 'ms' },
            { name: `${COUNT} streams, to llama-server's`, value: ratio, limit: 0.95, atLeast: true }
          ],
          notes: [`${rounds} rounds of ${TOKENS} tokens after ${LENGTH}, interleaved; ${firsts} first tokens`,
            'the server of the node and the other one have the same options'],
          data: { first: [first.bare, first.node], rates }
        }
      }))
  }
}
