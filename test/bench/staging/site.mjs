/** A small cluster on loopback, one process per node, with the model store on the first node. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from '../lib/node.mjs'
import { dist, here } from '../lib/paths.mjs'

export const MIB = 1024 ** 2
export const GIB = 1024 ** 3
const READY_SECONDS = 120
/** Free disk space that a node requires after every transfer. */
const HEADROOM_BYTES = 10 * GIB

/** Runs `work` with a folder that is removed afterwards, at the latest when this process exits. */
export async function withFolder (work) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-staging-'))
  const remove = () => { rmSync(folder, { recursive: true, force: true, maxRetries: 3 }) }
  process.once('exit', remove)
  try {
    return await work(folder)
  } finally {
    process.off('exit', remove)
    remove()
  }
}

/** A "skipped" result if the disk lacks space for `bytes`; otherwise undefined. */
export function tooLittleRoom (bytes) {
  const { bavail, bsize } = statfsSync(tmpdir())
  const free = bavail * bsize
  const wanted = bytes + HEADROOM_BYTES
  if (free >= wanted) return undefined
  const gib = (n) => `${(n / GIB).toFixed(1)} GiB`
  return {
    columns: ['skipped'],
    rows: [[`${tmpdir()} has ${gib(free)} free, ${gib(wanted)} are needed`]],
    targets: [],
    notes: [`${gib(bytes)} for this benchmark, and what every node keeps free; set TMPDIR to another disk`]
  }
}

/** Waits until `look` returns a truthy value, and returns that value. */
export async function until (what, look, { seconds = READY_SECONDS, everyMs = 50 } = {}) {
  const limit = performance.now() + seconds * 1000
  for (;;) {
    const value = await look()
    if (value) return value
    if (performance.now() > limit) throw new Error(`timeout after ${seconds} s waiting for: ${what}`)
    await sleep(everyMs)
  }
}

/**
 * Runs `work` with `{ first, others, store }`: `count` nodes in one cluster. The store imports the model
 * folders in `<folder>/store`. `uploadMib`: upload limit of the store's node in MiB/s. `probe`: each node
 * measures its event loop (GET /v1/bench/loop).
 */
export async function withSite ({ folder, count = 2, uploadMib, probe = false }, work) {
  const store = join(folder, 'store')
  const ports = await freePorts(2 * count)
  const nodes = Array.from({ length: count }, (_, i) => {
    const models = i === 0
      ? { store_path: store, ...uploadMib === undefined ? {} : { upload_mib_per_second: uploadMib } }
      : {}
    return createNode({
      home: join(folder, `n${i + 1}`), name: `n${i + 1}`, port: ports[2 * i],
      config: {
        name: `n${i + 1}`,
        cluster: { discovery: false, port: ports[2 * i + 1] },
        plugins: {
          placement: { autoplace: [] },
          ...probe ? { 'loop-probe': { module: join(here, 'workers', 'probe-plugin.mjs') } } : {}
        },
        model_store: { hub: { enabled: false }, ...models }
      }
    })
  })
  const [first, ...others] = nodes
  try {
    await first.start()
    for (const node of others) {
      const { token } = await until('a join token', () => first.ask('/cluster/join-tokens', { local: true })
        .catch(() => undefined))
      await node.start(['--join', token])
    }
    await together(nodes)
    return await work({ first, others, store })
  } finally {
    await Promise.all(nodes.map((node) => node.stop()))
  }
}

/** Waits until these nodes agree on one master and see each other and the store. */
export async function together (nodes) {
  await until('the nodes to be one cluster', async () => {
    const states = await Promise.all(nodes.map((node) => node.ask('/state').catch(() => undefined)))
    const [one] = states
    const same = states.every((state) => state !== undefined && state.masterNodeId !== null &&
      state.masterNodeId === one?.masterNodeId && state.cluster.liveNodes === nodes.length)
    if (!same) return false
    const stores = nodes.map((node) => node.ask('/store/health').then(() => true, () => false))
    return (await Promise.all(stores)).every(Boolean)
  })
}

/** Waits until every node lists the model of the store. */
export async function known (nodes, modelId) {
  await until(`${modelId} to be in the store`, async () => {
    const copies = await Promise.all(nodes.map((node) => node.ask('/models/copies')))
    return copies.every((answer) => answer.copies.some((copy) => copy.modelId === modelId))
  }, { seconds: 300 })
}

/** Stages a model on the nodes and waits for all; returns the seconds taken. Throws if a transfer failed. */
export async function stage (at, modelId, on) {
  const startedAt = performance.now()
  const { nodes } = await at.ask(`/store/models/${modelId}/stage`, {
    nodeIds: on.map(({ name }) => name), wait: true, timeout_seconds: 1800
  })
  const seconds = (performance.now() - startedAt) / 1000
  const bad = nodes.filter(({ status }) => status !== 'complete')
  if (bad.length > 0 || nodes.length !== on.length) throw new Error(`staging: ${JSON.stringify(nodes)}`)
  return seconds
}

/** Removes the staged copies of a model from every node. */
export async function purge (at, modelId) {
  const { nodes } = await at.ask('/store/purge-staging', { modelId })
  const bad = nodes.filter(({ error, skippedInUse }) => error !== null || skippedInUse.length > 0)
  if (bad.length > 0) throw new Error(`purge: ${JSON.stringify(nodes)}`)
}

/**
 * Counts the file bytes that a process serves from now on; the returned function gives the count so far
 * (Linux). Served bytes are both read and written, so the smaller count excludes one-way traffic such as the
 * 4 MiB with which a starting node measures a link.
 */
export function countServed (pid) {
  const look = () => {
    const text = readFileSync(`/proc/${pid}/io`, 'utf8')
    return ['rchar', 'wchar'].map((name) => Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(text)[1]))
  }
  const before = look()
  return () => Math.min(...look().map((bytes, i) => bytes - before[i]))
}

/** Resident memory of a process in bytes (Linux). */
export function residentBytes (pid) {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024
}

function createNode ({ home, name, port, config }) {
  const agent = new http.Agent({ keepAlive: false })
  mkdirSync(home, { recursive: true, mode: 0o700 })
  writeFileSync(join(home, 'svc.yaml'), JSON.stringify(config))
  let running
  const node = {
    name,
    /** Pid of the node process; changes with every start. */
    get pid () { return running.pid },
    async start (args = []) {
      running = await startProcess(
        ['up', '--home', home, '--host', '127.0.0.1', '--port', `${port}`, '--json', ...args])
    },
    /** GET, or POST with a body; resolves to the JSON. Throws for any status except 200. */
    async ask (path, body) {
      const token = readFileSync(join(home, 'operator.token'), 'utf8').trim()
      const { status, body: answer } = await request({
        agent, url: running.url + path, method: body === undefined ? 'GET' : 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          ...body === undefined ? {} : { 'content-type': 'application/json' }
        },
        ...body === undefined ? {} : { body: JSON.stringify(body) }
      })
      if (status !== 200) throw new Error(`${name} ${path}: ${status} ${answer}`)
      return JSON.parse(answer.toString())
    },
    async kill () { await end('SIGKILL') },
    async stop () { if (running !== undefined) await end('SIGTERM') }
  }
  const end = async (signal) => {
    const { child, pid, over } = running
    running = undefined
    if (child.exitCode !== null || child.signalCode !== null) return
    process.kill(pid, signal)
    await over
  }
  return node
}

async function startProcess (args) {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => name !== 'NODE_OPTIONS' && !name.startsWith('SVC_'))
  )
  // Passes this process's Node options, such as --cpu-prof, to the node, as `svc up` does.
  const child = spawn(process.execPath, [...process.execArgv, join(dist, 'kernel/cli/main.js'), ...args],
    { env, stdio: ['ignore', 'pipe', 'pipe'] })
  // A failed or interrupted benchmark must not leave a node behind.
  const end = () => { child.kill('SIGKILL') }
  process.once('exit', end)
  const over = once(child, 'exit').then(() => { process.off('exit', end) })
  let said = ''
  child.stderr.on('data', (bytes) => { said = (said + bytes).slice(-8000) })
  const line = await new Promise((resolve, reject) => {
    let text = ''
    over.then(() => { reject(new Error(`svc up ended: ${said}`)) })
    child.stdout.on('data', (bytes) => {
      text += bytes
      if (text.includes('\n')) resolve(JSON.parse(text.slice(0, text.indexOf('\n'))))
    })
  })
  return { child, over, ...line }
}

/** Unused ports below the range from which the system assigns ports to outgoing connections. */
async function freePorts (count) {
  const ports = new Set()
  while (ports.size < count) {
    const port = 15_000 + Math.floor(Math.random() * 17_000)
    const free = await new Promise((resolve) => {
      const server = createServer().once('error', () => { resolve(false) })
      server.listen(port, '127.0.0.1', () => { server.close(() => { resolve(true) }) })
    })
    if (free) ports.add(port)
  }
  return [...ports]
}
