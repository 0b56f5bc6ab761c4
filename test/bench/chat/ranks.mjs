// One GGUF model on one, two and three nodes of this machine, and the bytes per token on the nodes' links.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { kit, withTeardown } from '../cluster/processes.mjs'
import { request } from '../lib/node.mjs'
import { figure } from '../lib/report.mjs'
import { median } from '../lib/stats.mjs'
import { completed, MODEL, putInStore, TOKENS, until } from './llama.mjs'
import { benchModel } from './model.mjs'
import { firstMs, tokenMs } from './times.mjs'

const NODES = 3
/** Milliseconds of idling in which background traffic is measured, to be subtracted later. */
const IDLE_MS = 4000
/** Sharding, nodes, tokens per answer: few in a tensor split, where each takes at least half a second. */
const WAYS = [
  ['Pipeline', 1, TOKENS], ['Pipeline', 2, TOKENS], ['Pipeline', 3, TOKENS],
  ['Tensor', 2, 12], ['Tensor', 3, 12]
]

/** Bytes sent and received so far on the open connections of the nodes' member listeners. */
function linkBytes (ports) {
  const filter = ports.flatMap((port, i) => [...i === 0 ? [] : ['or'], 'sport', '=', `:${port}`])
  const said = execFileSync('ss', ['-tinH', 'state', 'established', '(', ...filter, ')']).toString()
  const counts = [...said.matchAll(/bytes_(?:sent|received):(\d+)/g)].map(([, bytes]) => Number(bytes))
  return counts.reduce((a, b) => a + b, 0)
}

async function startServing (t, store) {
  const cluster = await kit.startCluster(t, {
    nodes: NODES,
    env: { SVC_LLAMA_SERVER_BIN: process.env.SVC_LLAMA_SERVER_BIN },
    config: {
      plugins: {
        placement: { autoplace: [] },
        runners: {
          threads: 1, rpc_for_every_user: true, engine_options: { 'llama-server': { max_batch: 1 } }
        }
      }
    },
    configOf: (number) =>
      ({ model_store: { hub: { enabled: false }, ...number > 1 ? {} : { store_path: store } } })
  })
  const { master } = await cluster.agreed()
  return { cluster, master }
}

/** Places the model with another sharding; returns a function that deletes the instance. */
async function place ({ agent, url, headers }, sharding, nodes) {
  const body = JSON.stringify({ model_id: MODEL, sharding, min_nodes: nodes, context_length: 512, wait: true,
    timeout_seconds: 120 })
  await until({ agent, url: `${url}/place_instance`, method: 'POST', headers, body })
  const state = JSON.parse((await request({ agent, url: `${url}/state`, headers })).body)
  const [instance] = Object.values(state.instances).flatMap((one) => Object.values(one))
  return async () => {
    await until({ agent, url: `${url}/instance/${instance.instanceId}`, method: 'DELETE', headers })
    await sleep(1000)
  }
}

/** Measures the token rate and the link traffic of one placement. */
async function measured (at, ports, [sharding, nodes, tokens], rounds) {
  const remove = await place(at, sharding, nodes)
  try {
    const one = async (round) => (await completed(at, { streams: [{ seed: 1 + round, tokens }] })).streams[0]
    await one(-1)
    const idleFrom = linkBytes(ports)
    await sleep(IDLE_MS)
    const idle = (linkBytes(ports) - idleFrom) / IDLE_MS
    const streams = []
    const bytes = []
    for (let round = 0; round < rounds; round++) {
      const from = linkBytes(ports)
      const startedAt = performance.now()
      const stream = await one(round)
      const more = linkBytes(ports) - from - idle * (performance.now() - startedAt)
      streams.push(stream)
      bytes.push(Math.max(0, more) / stream.times.length)
    }
    return { sharding, nodes, first: median(streams.map(firstMs)), token: median(streams.map(tokenMs)),
      bytes: median(bytes) }
  } finally {
    await remove()
  }
}

export default {
  title: 'One model on one, two and three nodes of this machine, 1 thread each, weights in 8 bits',
  async run ({ short, rounds = short ? 3 : 10 }) {
    if (process.env.SVC_LLAMA_SERVER_BIN === undefined) {
      throw new Error('set SVC_LLAMA_SERVER_BIN to the path of a llama-server beside its ggml-rpc-server')
    }
    const file = benchModel()
    const store = mkdtempSync(join(tmpdir(), 'svc-bench-ranks-'))
    try {
      putInStore(store, file)
      return await withTeardown(async (t) => {
        const { cluster, master: { node, home } } = await startServing(t, store)
        const token = readFileSync(join(home, 'operator.token'), 'utf8').trim()
        const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
        const agent = new http.Agent({ keepAlive: true })
        t.teardown(() => { agent.destroy() })
        const ports = cluster.members.map((member) => member.config().cluster.port)
        const at = { agent, url: node.url, headers }
        const results = []
        for (const way of WAYS) results.push(await measured(at, ports, way, rounds))
        const [alone] = results
        return {
          columns: ['', 'first token, ms', 'token, ms', 'token, to one node', 'bytes over links per token'],
          rows: results.map((each) => [
            each.nodes === 1 ? '1 node' : `${each.nodes} nodes, ${each.sharding}`, figure(each.first),
            figure(each.token), figure(each.token / alone.token), figure(each.bytes)
          ]),
          targets: [],
          notes: [
            `${rounds} answers of ${TOKENS} tokens, of 12 in a tensor split`,
            'all nodes share this machine\'s processors',
            'bytes of the TCP connections between nodes both ways, with TLS, less what idle nodes say'
          ],
          data: results
        }
      })
    } finally {
      rmSync(store, { recursive: true, force: true })
    }
  }
}
