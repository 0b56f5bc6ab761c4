/** Nodes for the benchmarks, each in its own home and started with `svc up`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { dist } from './paths.mjs'

const READY_LIMIT_MS = 60_000
// A large cluster has an exit listener per node, more than Node allows without a warning.
process.setMaxListeners(64)

export const newHome = () => mkdtempSync(join(tmpdir(), 'svc-bench-'))
export const removeHome = (home) => {
  rmSync(home, { recursive: true, force: true })
}

/**
 * Starts `svc up` and resolves when the node has printed its address; `spawnedAt` and `listeningAt` are
 * performance.now() at the spawn and at that line. `yaml` becomes svc.yaml.
 */
export async function startNode ({ home = newHome(), yaml, keepHome = false } = {}) {
  if (yaml !== undefined) writeFileSync(join(home, 'svc.yaml'), yaml)
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => name !== 'NODE_OPTIONS' && !name.startsWith('SVC_'))
  )
  const spawnedAt = performance.now()
  const child = spawn(
    process.execPath,
    [join(dist, 'kernel/cli/main.js'), 'up', '--home', home, '--port', '0', '--json'],
    { env, stdio: ['ignore', 'pipe', 'pipe'] }
  )
  // A failed or interrupted benchmark must not leave a node behind.
  const end = () => { child.kill('SIGKILL') }
  process.once('exit', end)
  let said = ''
  child.stderr.on('data', (bytes) => {
    said = (said + bytes).slice(-8000)
  })
  const info = await firstLine(child, () => said)
  const listeningAt = performance.now()
  const agent = new http.Agent({ keepAlive: true, maxSockets: 64 })
  const operator = readFileSync(join(home, 'operator.token'), 'utf8').trim()
  return {
    ...info,
    home,
    spawnedAt,
    listeningAt,
    agent,
    said: () => said,
    json: async (path) => {
      const { body, status } = await request({
        agent,
        url: info.url + path,
        headers: { authorization: `Bearer ${operator}` }
      })
      if (status !== 200) throw new Error(`GET ${path}: ${status} ${body.toString()}`)
      return JSON.parse(body.toString())
    },
    async stop () {
      agent.destroy()
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
      process.off('exit', end)
      if (!keepHome) removeHome(home)
    }
  }
}

async function firstLine (child, said) {
  let text = ''
  return await new Promise((resolve, reject) => {
    child.once('exit', (code) => {
      reject(new Error(`svc up ended with ${code}: ${said()}`))
    })
    child.stdout.on('data', (bytes) => {
      text += bytes
      if (text.includes('\n')) resolve(JSON.parse(text.slice(0, text.indexOf('\n'))))
    })
  })
}

/** One HTTP request. `firstMs` and `totalMs` count from just before the request is written. */
export function request ({ agent, url, method = 'GET', headers = {}, body, keep = true }) {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now()
    const req = http.request(url, { agent, method, headers }, (res) => {
      const headMs = performance.now() - startedAt
      let firstMs = null
      let bytes = 0
      const parts = []
      res.on('data', (part) => {
        firstMs ??= performance.now() - startedAt
        bytes += part.length
        if (keep) parts.push(part)
      })
      res.on('error', reject)
      res.on('end', () => {
        resolve({
          status: res.statusCode,
          headMs,
          firstMs,
          totalMs: performance.now() - startedAt,
          bytes,
          body: Buffer.concat(parts)
        })
      })
    })
    req.on('error', reject)
    req.end(body)
  })
}

/** Requests raw audio over HTTP. Throws if the answer is not audio. */
export async function speak (node, input, fields = {}) {
  const body = JSON.stringify({ model: 'svc/voice-en', input, ...fields })
  const answer = await request({
    agent: node.agent,
    url: `${node.url}/v1/audio/speech`,
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  })
  if (answer.status !== 200) {
    throw Object.assign(new Error(`${answer.status} ${answer.body.toString()}`), {
      status: answer.status
    })
  }
  return answer
}

/** Retries until the node answers with speech; returns the first answer. */
export async function firstSpeech (node, input) {
  const limit = performance.now() + READY_LIMIT_MS
  for (;;) {
    try {
      return await speak(node, input)
    } catch (error) {
      if (performance.now() > limit) throw error
      await sleep(10)
    }
  }
}

/** The node's main process and its runner, as diagnostics lists them. */
export async function processes (node) {
  const { processes: list } = await node.json('/v1/diagnostics/node')
  return { kernel: list.find((p) => p.role === 'node'), runner: list.find((p) => p.role === 'runner') }
}
