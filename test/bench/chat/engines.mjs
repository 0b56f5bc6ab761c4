// Benchmarks real weights in both of svc's llama.cpp drivers, and in the same llama.cpp programs without svc.
import { fork, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { request, startNode } from '../lib/node.mjs'
import { figure } from '../lib/report.mjs'
import { interleave, median } from '../lib/stats.mjs'
import { freePort, MODEL, putInStore, until } from './llama.mjs'
import { benchModel, promptOf, THREADS } from './model.mjs'
import { withWorkers } from './times.mjs'

const LENGTH = 32
const TOKENS = 64
const SLOTS = 8
const STREAMS = [1, 8, 16]
const POLL_MS = 5

const CONFIG = (store) => JSON.stringify({
  cluster: { discovery: false },
  plugins: { placement: { autoplace: [] }, runners: { threads: THREADS } },
  model_store: { hub: { enabled: false }, store_path: store }
})

/** Tokens per second of all concurrent answers together; each stream is a promise of its token count. */
async function rateOf (streams) {
  const startedAt = performance.now()
  const tokens = (await Promise.all(streams)).reduce((a, b) => a + b, 0)
  return tokens * 1000 / (performance.now() - startedAt)
}

async function completed ({ agent, url, headers = {} }, seed) {
  const { status, body } = await request({ agent, url: `${url}/v1/completions`, method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, prompt: promptOf(LENGTH, seed), max_tokens: TOKENS, temperature: 0,
      stream: true, stream_options: { include_usage: true } }) })
  const tokens = /"completion_tokens":(\d+)/.exec(body)?.[1]
  if (status !== 200 || tokens === undefined) {
    throw new Error(`${url}: ${status} ${body.toString().slice(-300)}`)
  }
  return Number(tokens)
}

const overHttp = (at) => async (round, count) =>
  await rateOf(Array.from({ length: count }, (_, i) => completed(at, 1000 * round + i)))

/** Starts a node with or without llama-server on its PATH. */
async function startServing (binary, file) {
  const store = mkdtempSync(join(tmpdir(), 'svc-bench-engines-'))
  putInStore(store, file)
  const { PATH } = process.env
  if (binary !== undefined) process.env.PATH = `${dirname(binary)}${delimiter}${PATH}`
  const node = await startNode({ yaml: CONFIG(store) })
  process.env.PATH = PATH
  const headers = { authorization: `Bearer ${readFileSync(join(node.home, 'operator.token'), 'utf8').trim()}`,
    'content-type': 'application/json' }
  const call = async (method, path, body) => await request({ agent: node.agent, url: `${node.url}${path}`,
    method, headers, ...body === undefined ? {} : { body: JSON.stringify(body) } })
  const place = async () => {
    await until({ agent: node.agent, url: `${node.url}/place_instance`, method: 'POST', headers,
      body: JSON.stringify({ model_id: MODEL, wait: true, timeout_seconds: 120, slots: SLOTS }) })
  }
  const drop = async () => {
    const { instances } = await node.json('/state')
    for (const one of Object.values(instances)) {
      for (const { instanceId } of Object.values(one)) await call('DELETE', `/instance/${instanceId}`)
    }
    while (Object.keys((await node.json('/state')).instances).length > 0) await sleep(100)
    // The previous instance's processes must exit and free their memory before the next instance is timed.
    await sleep(2000)
  }
  return {
    rate: overHttp(node),
    place,
    load: async () => {
      await drop()
      const startedAt = performance.now()
      await place()
      return performance.now() - startedAt
    },
    stop: async () => {
      await node.stop()
      rmSync(store, { recursive: true })
    }
  }
}

/** Starts llama-server without svc. */
async function startBare (binary, file) {
  const at = { agent: new http.Agent({ keepAlive: true, maxSockets: 64 }) }
  let child
  const stop = async () => { if (child?.kill('SIGKILL')) await once(child, 'exit') }
  process.once('exit', () => { child?.kill('SIGKILL') })
  const load = async () => {
    await stop()
    const port = await freePort()
    at.url = `http://127.0.0.1:${port}`
    const startedAt = performance.now()
    child = spawn(binary, ['--model', file, '--host', '127.0.0.1', '--port', `${port}`, '-np', `${SLOTS}`,
      '--threads', `${THREADS}`, '--threads-batch', `${THREADS}`], { stdio: 'ignore' })
    for (;;) {
      const ended = child.exitCode ?? child.signalCode
      if (ended !== null) throw new Error(`${binary} ended with ${ended}`)
      const health = request({ agent: at.agent, url: `${at.url}/health` })
      const { status } = await health.catch(() => ({ status: 0 }))
      if (status === 200) return performance.now() - startedAt
      await sleep(POLL_MS)
    }
  }
  await load()
  return { rate: overHttp(at), load, stop: async () => { at.agent.destroy(); await stop() } }
}

async function startAlone (folder, file) {
  const child = fork(fileURLToPath(new URL('./library-alone.mjs', import.meta.url)), [folder, file])
  process.once('exit', () => { child.kill('SIGKILL') })
  await Promise.race([once(child, 'message'), once(child, 'exit').then(([code]) => {
    throw new Error(`node-llama-cpp ended with ${code}`)
  })])
  return {
    rate: async (round, count) => {
      child.send(Array.from({ length: count }, (_, i) =>
        ({ prompt: promptOf(LENGTH, 1000 * round + i), count: TOKENS })))
      return await rateOf([once(child, 'message').then(([tokens]) => tokens)])
    },
    stop: async () => { child.kill('SIGKILL') }
  }
}

/** Required speed ratios: peer, baseline, number of streams, minimum of peer / baseline. */
const RATIOS = [
  ['node', 'bare', 1, 0.99], ['node', 'bare', 8, 0.97], ['node', 'bare', 16, 0.97],
  ['library', 'alone', 1, 1 / 1.1], ['library', 'alone', 8, 1 / 1.1],
  ['library', 'bare', 1, 1 / 1.15], ['library', 'bare', 8, 1 / 2]
]
const NAMES = { bare: 'llama-server', node: 'node with llama-server', library: 'node with the library',
  alone: 'node-llama-cpp' }

export default {
  title: `Both drivers and the programs alone, ${THREADS} thread`,
  async run ({ short, rounds = short ? 1 : 5 }) {
    const { SVC_LLAMA_SERVER_BIN: binary, SVC_NODE_LLAMA_CPP: folder, SVC_BENCH_GGUF: named } = process.env
    if (binary === undefined) throw new Error('set SVC_LLAMA_SERVER_BIN to the path of a llama-server')
    const file = named ?? benchModel()
    const open = {
      bare: () => startBare(binary, file),
      node: () => startServing(binary, file),
      library: () => startServing(undefined, file),
      ...folder === undefined ? {} : { alone: () => startAlone(folder, file) }
    }
    return await withWorkers(open, async (workers) => {
      for (const { place } of Object.values(workers)) await place?.()
      const rates = {}
      for (const count of STREAMS) {
        const able = Object.entries(workers).filter(([name]) => name !== 'alone' || count <= SLOTS)
        const steps = Object.fromEntries(able.map(([name, { rate }]) =>
          [name, async (round) => await rate(1 + round + 100 * count, count)]))
        await interleave(1, steps)
        rates[count] = await interleave(rounds, steps)
      }
      const loads = await interleave(rounds, { bare: workers.bare.load, node: workers.node.load })
      const ratio = (a, b, count) =>
        median(rates[count][a].map((rate, i) => rate / rates[count][b][i]))
      return {
        columns: ['', ...STREAMS.map((count) => `tokens a second, ${count} streams`), 'load, ms'],
        rows: Object.keys(workers).map((name) => [NAMES[name],
          ...STREAMS.map((count) => figure(median(rates[count][name] ?? []))),
          figure(median(loads[name] ?? []))]),
        targets: [
          ...RATIOS.filter(([, peer]) => peer in workers).map(([name, peer, count, limit]) =>
            ({ name: `${NAMES[name]}, ${count} streams, to ${NAMES[peer]}`, value: ratio(name, peer, count),
              limit, atLeast: true })),
          { name: 'load, longer by', value: median(loads.node.map((ms, i) => ms - loads.bare[i])), limit: 300,
            unit: 'ms' }
        ],
        notes: [`${rounds} rounds of ${TOKENS} tokens after ${LENGTH}, interleaved`],
        data: { rates, loads }
      }
    })
  }
}
