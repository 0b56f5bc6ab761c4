/** A node with models on the paced engine, and a client for it. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { newHome, removeHome, request, startNode } from '../lib/node.mjs'

const cardOf = (id) => `modelId: ${id}
revision: "1"
title: A paced model
description: Has no weights.
tasks: [chat]
family: paced
engine: paced-engine
backends: [cpu]
files: []
totalBytes: 0
nLayers: 1
hiddenSize: 1
heads: 0
kvHeads: 0
headSize: 0
contextLength: 100000
supportsTensor: false
companions: []
licence: none
languages: [en]
quantization: null
voices: []
defaults: {}
support: {}
`

export const modelAt = (n) => `bench/paced-${n}`

/** Writes the cards of `count` models and a plugin with these models; returns the plugin's path. */
export function writeModels (home, count) {
  const models = Object.fromEntries(Array.from({ length: count }, (_, n) => {
    const folder = join(home, 'bench', `paced-${n}`)
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'card.yaml'), cardOf(modelAt(n)))
    return [modelAt(n), pathToFileURL(`${folder}/`).href]
  }))
  const plugin = new URL('./plugin.mjs', import.meta.url).href
  const path = join(home, 'bench', 'index.mjs')
  writeFileSync(path, `import { pluginWith } from ${JSON.stringify(plugin)}\n` +
    `export default pluginWith(${JSON.stringify(models)})\n`)
  return path
}

/**
 * Runs `work` with a node that has `models` unplaced models, and always stops the node. `before(home)` runs
 * before the start and may return a cleanup to run after the node has exited.
 */
export async function withNode (work, { models = 1, plugins = {}, before = () => {} } = {}) {
  const home = newHome()
  const undo = before(home) ?? (() => {})
  try {
    const yaml = JSON.stringify({
      cluster: { discovery: false },
      plugins: {
        placement: { autoplace: [] }, ...plugins, observed: { module: writeModels(home, models) }
      }
    })
    const node = await startNode({ home, yaml, keepHome: true })
    try {
      return await work(clientOf(node))
    } finally {
      await node.stop()
    }
  } finally {
    await undo()
    removeHome(home)
  }
}

function clientOf (node) {
  const authorization = `Bearer ${readFileSync(join(node.home, 'operator.token'), 'utf8').trim()}`
  const ask = async (method, path, value) => {
    const body = value === undefined ? undefined : JSON.stringify(value)
    const answer = await request({
      agent: node.agent, url: node.url + path, method, body,
      headers: {
        authorization,
        ...body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
      }
    })
    if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${answer.body}`)
    return answer
  }
  return {
    node,
    ask,
    log: async () => await node.json('/v1/bench/log'),
    events: async (perSecond) => { await ask('PUT', '/v1/bench/events', { perSecond }) },
    trace: async (enabled) => { await ask('PUT', '/v1/tracing', { enabled }) },
    place: async (n = 0) => {
      await ask('POST', '/place_instance', { model_id: modelAt(n), wait: true, timeout_seconds: 120 })
    },
    tokens: (tokens, ms) => tokensOf(node, authorization, { tokens, ms }),
    /** Durations in ms of that many sequential requests. */
    async times (path, requests) {
      const times = []
      for (let n = 0; n < requests; n++) times.push((await ask('GET', path)).totalMs)
      return times
    }
  }
}

/**
 * Streams an answer of `tokens` tokens, each taking `ms`; returns the ms between tokens, and the ms from each
 * token's creation in the engine to its arrival.
 */
export function tokensOf (node, authorization, how) {
  const body = JSON.stringify({
    model: modelAt(0), stream: true, messages: [{ role: 'user', content: JSON.stringify(how) }]
  })
  return new Promise((resolve, reject) => {
    const req = http.request(`${node.url}/v1/chat/completions`, {
      agent: node.agent, method: 'POST',
      headers: {
        authorization, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body)
      }
    }, (res) => {
      const arrivals = []
      const way = []
      let rest = ''
      res.on('data', (bytes) => {
        const now = process.hrtime.bigint()
        const lines = (rest + bytes).split('\n')
        rest = lines.pop()
        for (const line of lines) {
          const stamp = /"content":"(\d+);"/.exec(line)?.[1]
          if (stamp === undefined) continue
          arrivals.push(Number(now) / 1e6)
          way.push(Number(now - BigInt(stamp)) / 1e6)
        }
      })
      res.on('error', reject)
      res.on('end', () => {
        const gaps = arrivals.slice(1).map((at, i) => at - arrivals[i])
        if (arrivals.length === how.tokens) resolve({ gaps, way })
        else reject(new Error(`${res.statusCode}: ${arrivals.length} of ${how.tokens} tokens came; ${rest}`))
      })
    })
    req.on('error', reject)
    req.end(body)
  })
}

/** Waits until `look` returns a truthy value; retries every `everyMs`. */
export async function until (what, look, { seconds = 90, everyMs = 50 } = {}) {
  const limit = performance.now() + seconds * 1000
  for (;;) {
    const found = await look()
    if (found) return found
    if (performance.now() > limit) throw new Error(`timeout after ${seconds} s waiting for: ${what}`)
    await sleep(everyMs)
  }
}
