import { join } from 'node:path'
import { kernelError, SvcError } from '../api/errors.js'
import { schemaChecker } from '../api/validate.js'
import { deepFreeze } from '../config/paths.js'
import { fingerprintOfRaw } from '../net/keys.js'
import { Listeners, onPrefix } from '../state/listeners.js'
import { homeFile, readVersioned, writeVersioned } from './home.js'
import { createIdentity, newNodeId } from './identity.js'
import { openNodeKey, type NodeKey } from './node-key.js'
import type { ClusterCommands, ClusterHost, ClusterOpening } from '../api/cluster.js'
import type { Logger, NodeInfo, Section, SectionDecl } from '../api/plugin.js'
import type { Cluster, NodeView } from '../api/services.js'

export interface LoneOptions extends Pick<ClusterOpening, 'node' | 'apiUrl' | 'clock' | 'log' | 'emit'> {
  readonly key: Pick<NodeKey, 'privateKeyPem' | 'fingerprint'>
  /** File for the state that must survive a restart; null to keep it in memory. */
  readonly path: string | null
  /** False if the state should show that this node publishes no readings. */
  readonly gossip: boolean
}

const FORMAT = 1
/** Maximum number of stored command results; a repeated command id gets the stored result. */
const MAX_RESULTS = 1000

/** Opens a single-node cluster. Throws HomeError for an invalid key or state file. */
export async function openLoneCluster (opening: ClusterOpening): Promise<ClusterHost> {
  const { home, installId } = opening.node
  const key = await openNodeKey(home, installId)
  return loneCluster({ ...opening, key, path: join(home, homeFile.alone) })
}

const none = (): void => {}
const noProblems = { version_mismatch: null, quorum_mismatch: null, node_removed: null, node_copied: null }
const noReadings = {
  transport: 'websocket', admissionCapacity: 0, pendingReadings: 0, queueDepth: 0, maxQueueDepth: 0,
  readingsOffered: 0, readingsCoalesced: 0, readingsDropped: 0, readingsPublished: 0, publishFailures: 0,
  noPeerPublishes: 0, bytesPublished: 0, lastSuccessfulPublishAgeSeconds: null
} as const

/** A single-node cluster: this node is always master, each start is one session, commands run locally. */
export function loneCluster (options: LoneOptions): ClusterHost {
  const { node: { nodeId, installId }, clock, log, key, emit } = options
  const entries = new Entries(options)
  const leader = { sessionId: newNodeId(), term: entries.term, masterNodeId: nodeId }
  const readings = { ...noReadings, enabled: options.gossip }
  let leaving = false
  emit('MasterElected', leader)
  emit('SessionChanged', { ...leader, previousSessionId: null })
  return {
    service: serviceOf(options.node, () => ({ leaving, apiUrl: options.apiUrl() })),
    session: { ...leader, isMaster: true, onChange: () => none },
    sections: entries,
    commands: commandsOf(entries, log),
    readings: { offer: none, latest: () => undefined, counters: () => readings },
    identity: createIdentity(key, {
      vouched: (of, authorities) => fingerprintOfRaw(of) === key.fingerprint ? authorities : undefined,
      fingerprints: () => new Map([[installId, key.fingerprint]])
    }),
    network: { peers: () => [], bytesPerSecond: () => null, dials: () => [], links: () => [] },
    directory: { seenAt: (id) => id === installId ? clock.now() : undefined, silentMs: () => 0 },
    joined: false,
    // Always true, because a decision that cannot be written is refused.
    storing: true,
    status: () => ({ quorum: 'ok', stale: false }),
    problems: () => noProblems,
    vouched: () => [],
    pageOf: () => null,
    openStream: () => none,
    onChange: (fn) => entries.changed.add(fn),
    onStoring: () => none,
    start: () => { emit('NodeJoined', { nodeId }) },
    leave: () => { leaving = true },
    stop: async () => {}
  }
}

function serviceOf (
  { nodeId, installId, name }: NodeInfo, now: () => Pick<NodeView, 'leaving' | 'apiUrl'>
): Cluster {
  const view = (): NodeView => ({ nodeId, installId, name, self: true, live: true, master: true, ...now() })
  return {
    self: { installId, nodeId },
    masterInstallId: installId,
    nodes: () => [view()],
    resolve: (ref) => ['local', nodeId, installId, name].includes(ref) ? view() : undefined,
    admittedBy: () => [],
    channel: () => ({ send: () => false, broadcast: () => 0, close: none }),
    onPeers: () => none,
    lives: none,
    request: async (to) => {
      if (to === installId) throw kernelError('internal', 'A node sends no requests to itself.')
      throw kernelError('unreachable')
    }
  }
}

function commandsOf (entries: Entries, log: Logger): ClusterCommands {
  const handlers = new Map<string, Parameters<ClusterCommands['handle']>[1]>()
  const results = new Map<string, unknown>()
  return {
    handle (name, handler) {
      if (handlers.has(name)) throw new Error(`the command "${name}" has a handler already`)
      handlers.set(name, handler)
      return () => { handlers.delete(name) }
    },
    async run (name, args, id = newNodeId()) {
      if (results.has(id)) return { result: results.get(id) }
      const handler = handlers.get(name)
      if (handler === undefined) throw kernelError('internal', `No plugin here has the command "${name}".`)
      try {
        const result = entries.change(() => handler(structuredClone(args)))
        results.set(id, result)
        if (results.size > MAX_RESULTS) results.delete([...results.keys()][0]!)
        return { result }
      } catch (error) {
        if (error instanceof SvcError) throw error
        log.error({ err: error, command: name }, 'a command failed')
        throw kernelError('internal')
      }
    }
  }
}

interface Stored { readonly term: number, readonly entries: Readonly<Record<string, unknown>> }

/** Stores a key after all others, as replicated documents do; undefined removes the key. */
function enter (map: Map<string, unknown>, key: string, value: unknown): void {
  map.delete(key)
  if (value !== undefined) map.set(key, value)
}

/** Entries by `section/key`: the file stores those of master sections, memory those of node sections. */
class Entries {
  readonly changed: Listeners<ReadonlySet<string>>
  readonly term: number
  readonly #options: LoneOptions
  readonly #own = new Map<string, unknown>()
  #control: Map<string, unknown>
  /** Keys that still have their value from the file, which another svc version may have written. */
  readonly #old: Set<string>
  /** Pending writes of the running command. */
  #writes: Map<string, unknown> | null = null

  constructor (options: LoneOptions) {
    this.#options = options
    this.changed = new Listeners(options.log)
    const stored = options.path === null ? undefined : readVersioned<Stored>(options.path, FORMAT)
    this.term = (stored?.term ?? 0) + 1
    this.#control = new Map(Object.entries(stored?.entries ?? {}))
    this.#old = new Set(this.#control.keys())
    try { this.#store(this.#control) } catch (err) {
      options.log.error({ err }, 'the home cannot store the decisions of this node')
    }
  }

  /** Runs a command as a transaction: on return its writes are on disk; if it throws, nothing changes. */
  change (run: () => unknown): unknown {
    const writes = this.#writes = new Map<string, unknown>()
    let result: unknown
    try { result = run() } finally { this.#writes = null }
    if (writes.size === 0) return result
    const next = new Map(this.#control)
    for (const [key, value] of writes) enter(next, key, value)
    this.#store(next)
    this.#control = next
    for (const key of writes.keys()) this.#old.delete(key)
    this.changed.tell(new Set(writes.keys()))
    return result
  }

  section<T> (name: string, { writer, value: schema, carry }: SectionDecl): Section<T> {
    const { node: { nodeId }, log } = this.#options
    const prefix = `${name}/`
    const problemOf = schemaChecker(schema)
    if (carry === false) for (const key of this.#old) if (key.startsWith(prefix)) this.#control.delete(key)
    const map = (): Map<string, unknown> => writer === 'node' ? this.#own : this.#control
    const read = (key: string): T | undefined => {
      const value = this.#writes?.has(key) === true ? this.#writes.get(key) : map().get(key)
      return (this.#old.has(key) && problemOf(value) !== null ? undefined : value) as T | undefined
    }
    const write = (key: string, value: unknown): void => {
      if (writer === 'node') this.#writeOwn(key, value)
      else if (this.#writes !== null) this.#writes.set(key, value)
      else throw kernelError('not_master', `"${key}" is written by commands only.`)
    }
    return {
      put (key, value) {
        const problem = problemOf(value)
        if (problem !== null) throw new TypeError(`section "${name}", key "${key}": ${problem}`)
        write(prefix + key, deepFreeze(structuredClone(value)))
      },
      remove (key) { if (read(prefix + key) !== undefined) write(prefix + key, undefined) },
      get: (key, of = nodeId) => writer === 'node' && of !== nodeId ? undefined : read(prefix + key),
      entries: () => [...new Set([...map().keys(), ...this.#writes?.keys() ?? []])].flatMap((key) => {
        const value = key.startsWith(prefix) ? read(key) : undefined
        return value === undefined ? [] : [{ nodeId, key: key.slice(prefix.length), value }]
      }),
      observe: (fn) => this.changed.add(onPrefix(prefix, fn, log))
    }
  }

  #writeOwn (key: string, value: unknown): void {
    if (JSON.stringify(this.#own.get(key)) === JSON.stringify(value)) return
    enter(this.#own, key, value)
    this.changed.tell(new Set([key]))
  }

  #store (entries: ReadonlyMap<string, unknown>): void {
    const { path } = this.#options
    const stored: Stored = { term: this.term, entries: Object.fromEntries(entries) }
    if (path !== null) writeVersioned(path, FORMAT, stored)
  }
}
