// CPU time and delay that a node adds per token from a fast llama.cpp server: a stand-in streams at an even
// pace, directly and through a node.
import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { processes, startNode } from '../lib/node.mjs'
import { cpuMs } from '../lib/proc.mjs'
import { figure } from '../lib/report.mjs'
import { median } from '../lib/stats.mjs'
import { until } from './llama.mjs'

const MODEL = 'bench/paced'
const SERVER = fileURLToPath(new URL('./paced-server.mjs', import.meta.url))
const PROXY = fileURLToPath(new URL('./plain-proxy.mjs', import.meta.url))
/** CPU time limits per token in ms, by number of streams. */
const CPU_MS = { 1: 0.4, 8: 0.4, 64: 0.12 }
/** Number of streams, tokens per second of each stream, tokens of each stream. */
const CASES = [[1, 150, 450], [8, 150, 450], [64, 78, 470]]
/** Number of answers before the first round, enough for V8 to compile the code and the node to start. */
const WARM_UP = 20
/** Short answers to measure the time to the first token, with pauses of up to `betweenMs` in between. */
const FIRST = { count: 200, request: [1, 1000, 3], addedMs: 5, betweenMs: 20 }

const CONFIG = (store) => JSON.stringify({
  cluster: { discovery: false },
  plugins: {
    placement: { autoplace: [] },
    runners: { threads: 1 }
  },
  model_store: { hub: { enabled: false }, store_path: store }
})

/** Streams answers; measures the total tokens per second and some processes' CPU time per token in ms. */
async function streamed ({ agent, url, headers = {} }, [count, pace, tokens], pids) {
  const messages = [{ role: 'user', content: `PACE ${pace}` }]
  const body = JSON.stringify({ model: MODEL, messages, max_tokens: tokens, stream: true })
  const used = () => pids.reduce((sum, pid) => sum + (cpuMs(pid) ?? 0), 0)
  const before = used()
  const startedAt = performance.now()
  let firstMs
  const words = await Promise.all(Array.from({ length: count }, () => new Promise((resolve, reject) => {
    const req = http.request(`${url}/v1/chat/completions`, { agent, method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' } }, (res) => {
      let seen = 0
      res.setEncoding('latin1')
      res.on('data', (text) => {
        seen += text.split(' word').length - 1
        if (seen > 0) firstMs ??= performance.now() - startedAt
      })
      res.on('error', reject)
      res.on('end', () => {
        if (res.statusCode === 200 && seen >= tokens * 0.99) resolve(seen)
        else reject(new Error(`${res.statusCode}, ${seen} of ${tokens} tokens`))
      })
    })
    req.on('error', reject)
    req.end(body)
  })))
  const seconds = (performance.now() - startedAt) / 1000
  const all = words.reduce((a, b) => a + b, 0)
  return { rate: all / seconds, cpu: (used() - before) / all, firstMs }
}

async function startBare (folder) {
  const key = join(folder, 'key')
  writeFileSync(key, 'k')
  const port = 20_000 + process.pid % 20_000
  const args = ['--host', '127.0.0.1', '--port', String(port), '--api-key-file', key, '--ctx-size', '32768',
    '--parallel', '64']
  const child = spawn(process.execPath, [SERVER, ...args], { stdio: 'ignore' })
  const end = () => { child.kill('SIGKILL') }
  process.once('exit', end)
  const at = { agent: new http.Agent({ keepAlive: true, maxSockets: 64 }), url: `http://127.0.0.1:${port}` }
  await until({ ...at, url: `${at.url}/health` })
  return { at, stop: () => { at.agent.destroy(); end() } }
}

/** Starts the bare server behind plain-proxy.mjs. */
async function startProxy (bare) {
  const port = Number(new URL(bare.url).port)
  const child = spawn(process.execPath, [PROXY, String(port), 'k', String(port + 1)], { stdio: 'ignore' })
  const end = () => { child.kill('SIGKILL') }
  process.once('exit', end)
  const agent = new http.Agent({ keepAlive: true, maxSockets: 64 })
  const at = { agent, url: `http://127.0.0.1:${port + 1}` }
  await until({ ...at, url: `${at.url}/health` })
  return { at, pids: [child.pid], stop: () => { agent.destroy(); end() } }
}

async function startServing (folder) {
  const program = join(folder, 'llama-server')
  // A runner's sandbox exposes only the folder of the engine program, so the script must be in that folder.
  writeFileSync(join(folder, 'server.mjs'), readFileSync(SERVER))
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${folder}/server.mjs' "$@"\n`)
  chmodSync(program, 0o755)
  const store = join(folder, 'store')
  mkdirSync(join(store, 'bench--paced'), { recursive: true })
  writeFileSync(join(store, 'bench--paced', 'model.gguf'),
    readFileSync(fileURLToPath(new URL('../../../plugins/chat/guide/model/guide.gguf', import.meta.url))))
  process.env.PATH = `${folder}:${process.env.PATH}`
  const node = await startNode({ yaml: CONFIG(store) })
  const authorization = `Bearer ${readFileSync(join(node.home, 'operator.token'), 'utf8').trim()}`
  try {
    const place = { model_id: MODEL, wait: true, timeout_seconds: 60, context_length: 512, slots: 64 }
    await until({ agent: node.agent, url: `${node.url}/place_instance`, method: 'POST',
      headers: { authorization, 'content-type': 'application/json' }, body: JSON.stringify(place) }, 60_000)
    const { kernel, runner } = await processes(node)
    return { at: node, pids: [kernel.pid, runner.pid], stop: () => node.stop() }
  } catch (error) {
    await node.stop()
    throw error
  }
}

export default {
  title: 'What a node adds to the tokens of a fast server',
  async run ({ short, rounds = short ? 1 : 5 }) {
    const folder = mkdtempSync(join(tmpdir(), 'svc-bench-relay-'))
    const bare = await startBare(folder)
    const proxy = await startProxy(bare.at)
    const node = await startServing(folder)
    try {
      const rows = []
      const targets = []
      const cold = (await streamed(node.at, CASES[0], node.pids)).cpu
      for (let round = 0; round < (short ? 1 : WARM_UP); round++) {
        await streamed(node.at, CASES[0], [])
        await streamed(proxy.at, CASES[0], [])
      }
      for (const one of CASES) {
        const [direct, plain, through] = [[], [], []]
        for (let round = 0; round < rounds; round++) {
          direct.push(await streamed(bare.at, one, []))
          plain.push(await streamed(proxy.at, one, proxy.pids))
          through.push(await streamed(node.at, one, node.pids))
        }
        const rates = [direct, through].map((list) => median(list.map(({ rate }) => rate)))
        const [least, cpu] = [plain, through].map((list) => median(list.map((each) => each.cpu)))
        rows.push([String(one[0]), figure(rates[0]), figure(rates[1]), figure(least), figure(cpu)])
        targets.push(
          { name: `tokens a second of the server's own, ${one[0]} streams`, value: rates[1] / rates[0],
            limit: 0.97, atLeast: true },
          { name: `CPU of the node for a token, ${one[0]} streams`, value: cpu,
            limit: CPU_MS[one[0]], unit: 'ms' })
      }
      const first = [[], []]
      for (let round = 0; round < (short ? 5 : FIRST.count); round++) {
        // The stand-in writes every 10 ms, so requests start at random times within that interval.
        for (const [index, { at }] of [bare, node].entries()) {
          await sleep(Math.random() * FIRST.betweenMs)
          first[index].push((await streamed(at, FIRST.request, [])).firstMs)
        }
      }
      const [alone, added] = first.map((list) => list.reduce((a, b) => a + b, 0) / list.length)
      targets.push({ name: 'first token, later than from the server itself', value: added - alone,
        limit: FIRST.addedMs, unit: 'ms' })
      return {
        columns: ['streams', 'server alone, tokens/s', 'through a node, tokens/s',
          'CPU of a plain proxy for a token, ms', 'CPU of node and runner for a token, ms'],
        rows, targets, data: { cold },
        notes: [`${rounds} rounds; CPU for a token of the very first answer: ${figure(cold)} ms`]
      }
    } finally {
      proxy.stop()
      bare.stop()
      await node.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  }
}
