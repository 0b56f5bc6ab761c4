/** Clusters of complete nodes with a model store on one node, and test models. */
import { createHash, randomBytes } from 'node:crypto'
import {
  chmodSync, closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, readSync, statSync,
  writeFileSync, writeSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { stringify } from 'yaml'
import { freePorts } from './ports.js'
import { ask, type Answer, type Ask } from './http.js'
import { folder, root, sleep, startNode, svc, until, type TestNode } from './kit.js'
import { alive, hardKill } from './proc.js'
import { chaosProxy, type ChaosProxy } from '../tools/chaosproxy.js'
import type { Test } from 'tap'
import type { State } from './cluster-kit.js'

export const MIB = 1024 * 1024
/** Documented chunk size of transfers in bytes. */
export const CHUNK = 16 * MIB

/** The sections of svc.yaml that model tests set. */
export interface Config {
  plugins?: Record<string, unknown>
  model_store?: { upload_mib_per_second?: number, staging?: object, hub?: object }
  [more: string]: unknown
}

export interface SiteOptions {
  nodes?: number
  /** svc.yaml by node number (from 1), in addition to name and cluster settings. */
  config?: (number: number) => Config
  env?: (number: number) => Record<string, string>
  /** Number of the node with the store, from 1; node 1 is the first master. */
  storeOn?: number
  /** Lets the other nodes reach the store host through a proxy that counts bytes. */
  proxied?: boolean
  /** Number of nodes started at first; the test starts the rest. All if absent. */
  started?: number
}

/** One node across all its starts. */
export interface Place {
  readonly name: string
  readonly home: string
  readonly node: TestNode
  /** The node's folder of staged copies. */
  readonly staging: string
  /** Starts the node with additions to svc.yaml and the environment; earlier additions stay. */
  start (more?: Config, env?: Record<string, string>): Promise<void>
  /** Sends SIGKILL to all the node's processes. */
  kill (): Promise<void>
  /** Sends SIGTERM to the node and waits for its exit. */
  stop (): Promise<void>
  signal (name: NodeJS.Signals): void
  /** Sends a request; rejects without an answer within `seconds`. */
  ask (path: string, options?: Ask & { seconds?: number }): Promise<Answer>
  state (): Promise<State & { downloads: Record<string, View[]> }>
}

/** A transfer as GET /state shows it: an object whose only key is the transfer's status. */
export type View = Record<string, { nodeId: string, modelId: string, attemptId: string, reason?: string,
  errorMessage?: string, downloadProgress?: { total: number, downloaded: number } }>

/** The result for one node in the answer to a staging request. */
export interface Staged { nodeId: string, status: string, error: string | null, reason: string | null }

export interface Copy { modelId: string, nodeId: string, nodeName: string, kind: string, sizeBytes: number,
  digest: string, live: boolean }

/** `host` is the node with the store, `store` its folder. */
export interface Site { nodes: Place[], host: Place, store: string, proxy: ChaosProxy | null }

/** Starts nodes without runners in one cluster; one node has a store. */
export async function startSite (t: Test, options: SiteOptions = {}): Promise<Site> {
  const { nodes: count = 2, storeOn = 1 } = options
  const ports = await freePorts(2 * count)
  const store = join(folder(t), 'store')
  const proxy = options.proxied === true
    ? await chaosProxy({ target: { host: '127.0.0.1', port: ports[2 * storeOn - 1]! } }) : null
  if (proxy !== null) t.teardown(() => proxy.close())
  const nodes = Array.from({ length: count }, (_, i) => place(t, {
    name: `n${i + 1}`, api: ports[2 * i]!, env: options.env?.(i + 1) ?? {},
    config: { ...options.config?.(i + 1), cluster: clusterOf(ports[2 * i + 1]!,
      i === storeOn - 1 ? proxy : null) },
    store: i === storeOn - 1 ? store : null
  }))
  const [first, ...others] = nodes.slice(0, options.started ?? count)
  await first!.start()
  await Promise.all(others.map(async (each) => { await join1(first!, each) }))
  await together(nodes.slice(0, options.started ?? count))
  return { nodes, host: nodes[storeOn - 1]!, store, proxy }
}

const clusterOf = (port: number, proxy: ChaosProxy | null): object => ({
  heartbeat_ms: 600, election_timeout_ms: 900, discovery: false, port,
  ...proxy === null ? {} : { advertise: proxy.address }
})

/** Starts a node that joins the cluster as a member. */
export async function join1 (first: Place, other: Place): Promise<void> {
  const answer = await first.ask('/cluster/join-tokens', { body: { local: true } })
  const { token } = answer.json as { token: string }
  await (other as Startable).startWith(['--join', token])
}

interface Startable extends Place {
  startWith (args: readonly string[], config?: Config, env?: Record<string, string>): Promise<void>
}

function place (t: Test, { name, api, config, env, store }: {
  name: string, api: number, config: Config, env: Record<string, string>, store: string | null
}): Startable {
  const home = join(folder(t), 'home')
  let node: TestNode | undefined
  const running = (): TestNode => {
    if (node === undefined) throw new Error(`${name} is not started`)
    return node
  }
  const self: Startable = {
    name, home, staging: join(home, 'staging'),
    get node () { return running() },
    start: async (more, extra) => { await self.startWith([], more, extra) },
    async startWith (args, more = {}, extra = {}) {
      const { plugins, model_store: models, ...rest } = { ...config, ...more }
      node = await startNode(t, {
        home, ready: false, env: { ...env, ...extra }, args: ['--port', String(api), ...args],
        config: {
          ...rest, name, plugins: { placement: { autoplace: [] }, ...plugins },
          model_store: {
            ...models, hub: { enabled: false, ...models?.hub }, ...store === null ? {} : { store_path: store }
          }
        }
      })
    },
    async kill () {
      const { child, pid } = running()
      hardKill(child.pid)
      hardKill(pid)
      await gone(running())
    },
    async stop () {
      process.kill(running().child.pid, 'SIGTERM')
      await gone(running())
    },
    signal (signal) { process.kill(running().pid, signal) },
    ask: async (path, options) => await asked(running(), path, options),
    state: async () => (await self.ask('/state')).json as Awaited<ReturnType<Place['state']>>
  }
  return self
}

const gone = async ({ child, pid }: TestNode): Promise<void> => {
  await until('the end of a node', () => !alive(pid) && !alive(child.pid), { everyMs: 5 })
}

async function asked (node: TestNode, path: string, { seconds = 60,
  ...options }: Ask & { seconds?: number } = {}):
Promise<Answer> {
  const late = new AbortController()
  try {
    const answer = ask(node, path, options)
    answer.catch(() => {})
    const result = await Promise.race([answer, sleep(seconds * 1000, late.signal)])
    if (result === undefined) throw new Error(`no answer to ${path} within ${seconds} s`)
    return result
  } finally {
    late.abort()
  }
}

/** Waits until these nodes see each other and the store. */
export async function together (nodes: readonly Place[]): Promise<void> {
  await until('the nodes to see each other and the store', async () => {
    const states = await Promise.all(nodes.map((one) => one.state()))
    const same = states.every((state) => state.masterNodeId !== null &&
      state.masterNodeId === states[0]!.masterNodeId && state.cluster.liveNodes === nodes.length)
    if (!same) return false
    const known = await Promise.all(nodes.map(async (one) => (await one.ask('/store/health')).status === 200))
    return known.every((yes) => yes)
  })
}

const CARD = {
  revision: '1', title: 'A model for tests', description: 'Random bytes.', tasks: ['chat'], family: 'none',
  engine: 'none', backends: ['cpu'], files: [], totalBytes: 0, nLayers: 1, hiddenSize: 1, heads: 0,
  kvHeads: 0,
  headSize: 0, contextLength: 1, supportsTensor: false, companions: [], licence: 'none', languages: ['en'],
  quantization: null, voices: [], defaults: {}, support: {}
}

/** The card of a model that is never run. */
export const cardText = (modelId: string, more: object = {}): string =>
  stringify({ ...CARD, modelId, ...more })

export interface CreatedModel {
  folder: string
  modelId: string
  bytes: number
  sha256: Record<string, string>
}

/** Creates a folder with a card and these files; a number stands for that many random bytes. */
export function makeModel (t: Test, modelId: string, files: Record<string, number | Buffer>): CreatedModel {
  const where = join(folder(t), 'model')
  const content: Record<string, Buffer> = { 'card.yaml': Buffer.from(cardText(modelId)) }
  for (const [path, what] of Object.entries(files)) {
    content[path] = typeof what === 'number' ? randomBytes(what) : what
  }
  const sha256: Record<string, string> = {}
  let bytes = 0
  for (const [path, data] of Object.entries(content)) {
    mkdirSync(dirname(join(where, path)), { recursive: true })
    writeFileSync(join(where, path), data)
    sha256[path] = sha(data)
    bytes += data.length
  }
  return { folder: where, modelId, bytes, sha256 }
}

export const sha = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

export const VOICE = join(root, 'plugins/capabilities-tts/voice')
export const VOICE_FILES = ['en_US-flite-16k.onnx', 'en_US-flite-16k.onnx.json', 'en_US-flite-16k.NOTICE.txt',
  'CMU-LICENCE.txt']

/** The bundled voice's files except its card, because the card would override the test's model id. */
export function voiceFiles (): Record<string, Buffer> {
  return Object.fromEntries(VOICE_FILES.map((path) => [path, readFileSync(join(VOICE, path))]))
}

export const hashesOf = (files: Record<string, Buffer>): Record<string, string> =>
  Object.fromEntries(Object.entries(files).map(([path, bytes]) => [path, sha(bytes)]))

/** A folder with the voice's files, from which svc derives the card. */
export function voiceFolder (t: Test): string {
  const where = join(folder(t), 'voice')
  mkdirSync(where)
  for (const [path, bytes] of Object.entries(voiceFiles())) writeFileSync(join(where, path), bytes)
  return where
}

/** Lets a node pull a model into the store; waits until the pull ends. */
export async function pull (at: Place, modelId: string, body: object, seconds = 60): Promise<{
  status: string, error: string | null, reason: string | null }> {
  const begun = await at.ask(`/store/models/${modelId}/download`, { body })
  if (begun.status !== 200) throw new Error(`${modelId}: ${begun.status} ${begun.text}`)
  return await until(`the end of the download of ${modelId}`, async () => {
    const { json } = await at.ask(`/store/models/${modelId}/download/status`)
    const state = json as { status: string, error: string | null, reason: string | null }
    return !['pending', 'downloading'].includes(state.status) && state
  }, { seconds, everyMs: 50 })
}

/** Imports a folder into the store; waits until every node lists the model. Throws unless it is complete. */
export async function put (site: Site, { modelId, folder: path }: Pick<CreatedModel,
  'modelId' | 'folder'>): Promise<void> {
  const end = await pull(site.host, modelId, { source: pathToFileURL(path).href })
  if (end.status !== 'complete') throw new Error(`the pull of ${modelId} ended with ${JSON.stringify(end)}`)
  await until(`${modelId} to be known everywhere`, async () => {
    const known = await Promise.all(site.nodes.map(async (one) => (await copiesOf(one, modelId)).length > 0))
    return known.every((yes) => yes)
  })
}

/** Requests that nodes stage a model. */
export async function stage (at: Place, modelId: string, on: readonly Place[], more: { wait?: boolean,
  timeout_seconds?: number, seconds?: number } = {}): Promise<Staged[]> {
  const { seconds = 60, ...body } = { wait: true, ...more }
  const answer = await at.ask(`/store/models/${modelId}/stage`, {
    seconds, body: { nodeIds: on.map(({ name }) => name), ...body }
  })
  if (answer.status !== 200) throw new Error(`stage of ${modelId}: ${answer.status} ${answer.text}`)
  return (answer.json as { nodes: Staged[] }).nodes
}

export async function copiesOf (at: Place, modelId: string): Promise<Copy[]> {
  const { copies } = (await at.ask('/models/copies')).json as { copies: Copy[] }
  return copies.filter((copy) => copy.modelId === modelId)
}

/** The status of the newest transfer of a model to a node, as reported by that node. */
export async function transferOf (at: Place, modelId: string): Promise<{ kind: string, bytes: number,
  reason: string,
  message: string } | undefined> {
  const state = await at.state()
  const found = (state.downloads[state.localNodeId] ?? []).findLast((view) =>
    Object.values(view)[0]?.modelId === modelId)
  if (found === undefined) return undefined
  const [kind, { downloadProgress, reason = '', errorMessage = '' }] = Object.entries(found)[0]!
  return { kind, bytes: downloadProgress?.downloaded ?? 0, reason, message: errorMessage }
}

/** Waits until a node has received at least that many bytes of a model. */
export async function received (at: Place, modelId: string, bytes: number): Promise<void> {
  await until(`${bytes} bytes of ${modelId} to arrive`, async () => {
    const transfer = await transferOf(at, modelId)
    if (transfer?.kind === 'DownloadFailed') throw new Error(`it failed: ${transfer.message}`)
    return transfer?.kind === 'DownloadCompleted' || (transfer?.bytes ?? 0) >= bytes
  }, { everyMs: 10 })
}

/** The path of a model's folder under a root. */
export const folderOf = (below: string, modelId: string): string => join(below, modelId.replace('/', '--'))

/** Whether a folder has exactly these files with these hashes; svc's own records are ignored. */
export function isCopy (directory: string, sha256: Record<string, string>): boolean {
  if (!existsSync(directory)) return false
  const found = listing(directory).filter((path) => !/^\.(svc-|last_used)/.test(path))
  return found.length === Object.keys(sha256).length &&
    found.every((path) => sha(readFileSync(join(directory, path))) === sha256[path])
}

/** Sorted paths of every file under a folder. */
export function listing (directory: string): string[] {
  const names = existsSync(directory) ? readdirSync(directory, { recursive: true }) as string[] : []
  const isFile = (name: string): boolean =>
    statSync(join(directory, name), { throwIfNoEntry: false })?.isFile() === true
  return names.filter(isFile).sort()
}

/** Folder names of the active transfers under a root. */
export function incoming (below: string): string[] {
  const where = join(below, '.incoming')
  return existsSync(where) ? readdirSync(where) : []
}

/** Events of one kind on a node, oldest first. */
export async function events (at: Place, kind: string): Promise<Record<string, unknown>[]> {
  const { events: all } = (await at.ask(`/events?limit=1000&kinds=${kind}`)).json as {
    events: { event: Record<string, Record<string, unknown>> }[] }
  return all.flatMap(({ event }): Record<string, unknown>[] => event[kind] === undefined ? [] : [event[kind]])
}

/** Health codes that a node reports about itself. */
export async function healthOf (at: Place): Promise<string[]> {
  const state = await at.state()
  return state.nodeHealth[state.localNodeId]?.reasons.map(({ code }) => code) ?? []
}

/** Runs a `svc` command with a node's home. */
export const svcAt = async (at: Place, args: readonly string[]): ReturnType<typeof svc> =>
  await svc([...args, '--home', at.home, '--url', at.node.url])

/** Inverts one byte of a read-only file. */
export function flip (path: string, at: number): void {
  chmodSync(path, 0o644)
  const file = openSync(path, 'r+')
  const byte = Buffer.alloc(1)
  readSync(file, byte, 0, 1, at)
  writeSync(file, Buffer.from([byte[0]! ^ 0xff]), 0, 1, at)
  closeSync(file)
}
