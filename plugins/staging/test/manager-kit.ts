import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { systemClock } from '../../../kernel/api/clock.js'
import {
  kernelError, SvcError, type Channel, type Cluster, type MemberRequest, type MemberResponse, type NodeView,
  type RouteRequest, type Section, type StreamHead
} from '../../../kernel/index.js'
import { startPlugin, type Rig, type StartOptions } from '../../../kernel/testing/index.js'
import type { StagingContext } from '../manifest.js'
import { errors } from '../declarations.js'
import { createStaging } from '../index.js'
import { withEngines } from './cards-kit.js'
import type { FakeHub } from './hub-kit.js'

export interface Test { teardown (fn: () => unknown): void }

export function scratch (t: Test): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'svc-manager-')))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  return folder
}

/** Polls until the condition holds; the test's own timeout ends it. */
export async function until (what: () => unknown): Promise<void> {
  while (!await what()) await new Promise((resolve) => { setTimeout(resolve, 5) })
}

export interface NodeOptions {
  store?: string
  staging?: string
  hub?: FakeHub
  headroomBytes?: number
  env?: Record<string, string>
  more?: Record<string, unknown>
  start?: StartOptions
}

/** Starts the plugin with real folders and the system clock. */
export async function startNode (t: Test, options: NodeOptions = {}): Promise<Rig> {
  const { store, staging, hub, headroomBytes = 0, more = {}, start = {}, env = {} } = options
  const plugin = createStaging({ env, random: () => 0.01, headroomBytes })
  return await startPlugin(t, plugin, {
    clock: systemClock,
    off: [withEngines],
    ...start,
    settings: {
      model_store: {
        hub: hub === undefined ? { enabled: false } : { url: hub.url, redirect_hosts: [hub.cdnHost] },
        ...store === undefined ? {} : { store_path: store },
        ...more
      },
      ...staging === undefined ? {} : { node_cache_path: staging },
      ...start.settings
    }
  })
}

export interface Answer { status: number, body: Record<string, unknown>, headers: Record<string, unknown> }

/** Sends an HTTP request to the node without a socket. */
export async function call (rig: Rig, method: string, url: string, payload?: unknown): Promise<Answer> {
  const answer = await rig.inject({ method, url, ...payload === undefined ? {} : { payload } })
  return { status: answer.statusCode, body: answer.json() as Record<string, unknown>,
    headers: answer.headers }
}

export const reasonOf = ({ body }: Answer): unknown =>
  (body['error'] as { reason?: unknown } | undefined)?.reason

/** Downloads a model into a node's store; resolves with the final status. */
export async function pull (rig: Rig, id: string, body: object = {}): Promise<Record<string, unknown>> {
  const begun = await call(rig, 'POST', `/store/models/${id}/download`, body)
  if (begun.status !== 200) throw new Error(JSON.stringify(begun.body))
  let last: Record<string, unknown> = {}
  await until(async () => {
    last = (await call(rig, 'GET', `/store/models/${id}/download/status`)).body
    return !['pending', 'downloading'].includes(String(last['status']))
  })
  return last
}

export const eventsOf = (rig: Rig, kind: string): Record<string, unknown>[] =>
  rig.events.filter((event) => event.kind === kind).map(({ payload }) => payload)

export const codes = (rig: Rig): string[] => rig.conflicts().map(({ code }) => code)

export function errorOf (
  reason: keyof typeof errors, message?: string, details?: Record<string, unknown>
): SvcError {
  return new SvcError(reason, errors[reason], message, details)
}

/** A section in memory, with the entries of all nodes. */
export interface MemorySection<T> extends Section<T> {
  says (nodeId: string, key: string, value: T): void
  unsays (nodeId: string, key: string): void
  /** Marks a node as lost: its entries are no longer listed, but still available by its id. */
  lost (nodeId: string): void
}

export function memorySection<T> (self: string): MemorySection<T> {
  const all = new Map<string, Map<string, T>>()
  const old = new Set<string>()
  const of = (nodeId: string): Map<string, T> => {
    const known = all.get(nodeId) ?? new Map<string, T>()
    all.set(nodeId, known)
    return known
  }
  return {
    put: (key, value) => { of(self).set(key, value) },
    remove: (key) => { of(self).delete(key) },
    get: (key, nodeId = self) => of(nodeId).get(key),
    * entries () {
      for (const [nodeId, entries] of all) {
        if (old.has(nodeId)) continue
        for (const [key, value] of entries) yield { nodeId, key, value }
      }
    },
    observe: () => () => {},
    says: (nodeId, key, value) => { of(nodeId).set(key, value) },
    unsays: (nodeId, key) => { of(nodeId).delete(key) },
    lost: (nodeId) => { old.add(nodeId) }
  }
}

/** A plugin context for this cluster, with sections in memory. */
export function contextOf (
  cluster: Cluster, { sections, ...more }: { sections?: Partial<StagingContext['sections']> } &
    Partial<Record<Exclude<keyof StagingContext, 'sections'>, unknown>> = {}
): StagingContext {
  const { installId, nodeId } = cluster.self
  const none = (): void => {}
  const section = (): Section<never> => memorySection<never>(nodeId)
  const context = {
    clock: systemClock, log: { debug: none, info: none, warn: none, error: none, fatal: none },
    node: { installId, nodeId }, deps: { cluster, state: { onChange: () => none } },
    error: errorOf, emit: none, raise: none, clear: none, effect: none,
    ...more,
    sections: {
      modelCopies: section(), storeModels: section(), customCards: section(),
      stores: section(), storeHosts: section(), modelLists: section(), ...sections
    }
  }
  return context as unknown as StagingContext
}

/** A `learning` argument for StoreAccess: false, since the test's node already knows the cluster. */
export const known = (): boolean => false

export type Serve = (request: MemberRequest, from: string) => Promise<MemberResponse> | MemberResponse

export interface NetNode extends Cluster {
  serve: Serve
  readonly asked: MemberRequest[]
}

/** A cluster in memory: channels, requests, and nodes that can be lost. Ids: `i-NAME`, `n-NAME`. */
export class Network {
  readonly #nodes = new Map<string, NodeView & { live: boolean }>()
  readonly #clusters = new Map<string, NetNode>()
  readonly #channels = new Map<string, Map<string, (from: string, message: never) => void>>()
  readonly #peers = new Map<string, Set<(change: { installId: string, up: boolean }) => void>>()

  node (name: string, serve: Serve = () => json(404, { error: { message: 'nothing here' } })): NetNode {
    const installId = `i-${name}`
    this.#nodes.set(installId, {
      installId, nodeId: `n-${name}`, name, self: false, live: true, master: false, apiUrl: null
    })
    this.#peers.set(installId, new Set())
    const made = this.#cluster(installId, serve)
    this.#clusters.set(installId, made)
    for (const [other, listeners] of this.#peers) {
      if (other !== installId) for (const fn of listeners) fn({ installId, up: true })
    }
    return made
  }

  lose (name: string): void {
    const installId = `i-${name}`
    this.#nodes.get(installId)!.live = false
    for (const [other, listeners] of this.#peers) {
      if (other !== installId) for (const fn of listeners) fn({ installId, up: false })
    }
  }

  #cluster (own: string, serve: Serve): NetNode {
    const views = (): NodeView[] => [...this.#nodes.values()]
      .map((node) => ({ ...node, self: node.installId === own }))
      .sort((a, b) => Number(b.self) - Number(a.self))
    const asked: MemberRequest[] = []
    return {
      serve,
      asked,
      self: { installId: own, nodeId: this.#nodes.get(own)!.nodeId },
      masterInstallId: own,
      nodes: views,
      admittedBy: () => [],
      resolve: (ref) => views().find(({ nodeId, installId, name, self }) =>
        [nodeId, installId, name].includes(ref) || (ref === 'local' && self)),
      channel: <T>(name: string, receive: (from: string, message: T) => void) =>
        this.#channel(own, name, receive),
      lives: () => {},
      onPeers: (fn) => {
        const listeners = this.#peers.get(own)!
        listeners.add(fn)
        return () => { listeners.delete(fn) }
      },
      request: async (installId, request) => {
        const to = this.#clusters.get(installId)
        if (to === undefined || this.#nodes.get(installId)?.live !== true) throw kernelError('unreachable')
        to.asked.push(request)
        return await to.serve(request, own)
      }
    }
  }

  #channel<T> (own: string, name: string, receive: (from: string, message: T) => void): Channel<T> {
    const all = this.#channels.get(name) ?? new Map<string, (from: string, message: never) => void>()
    this.#channels.set(name, all)
    all.set(own, receive)
    const send = (to: string, message: T): boolean => {
      const live = this.#nodes.get(to)?.live === true && this.#nodes.get(own)?.live === true
      if (!live || !all.has(to)) return false
      const copy = JSON.parse(JSON.stringify(message)) as never
      setImmediate(() => { all.get(to)?.(own, copy) })
      return true
    }
    return {
      send,
      broadcast: (message) => [...all.keys()].filter((to) => to !== own && send(to, message)).length,
      close: () => { if (all.get(own) === receive) all.delete(own) }
    }
  }
}

export function json (status: number, body: unknown): MemberResponse {
  return { status, headers: {}, body: Readable.from([Buffer.from(JSON.stringify(body))]) }
}

/** A fake request for a handler; `head` and `sent` contain the response that the handler streams. */
export interface FakeRequest extends RouteRequest {
  readonly head: StreamHead | undefined
  readonly sent: Buffer
}

export function fakeRequest (parts: Partial<Record<keyof RouteRequest, unknown>> = {}): FakeRequest {
  const written: Buffer[] = []
  const request = {
    params: {}, query: {}, body: {}, headers: {}, requestId: 'r', member: null,
    caller: { id: 'local', mode: 'direct', authorities: new Set(['read', 'operator', 'cluster:write']) },
    signal: new AbortController().signal,
    head: undefined as StreamHead | undefined,
    get sent () { return Buffer.concat(written) },
    open (head: StreamHead) {
      request.head = head
      return {
        write: async (bytes: Uint8Array | string) => {
          written.push(Buffer.from(bytes as string))
        },
        end: async () => {},
        cut: () => {},
        closed: false
      }
    }
  }
  return Object.assign(request, parts) as FakeRequest
}

/** Rejects if the promise has not settled after `ms`, so that only the hanging test fails. */
export async function soon<T> (promise: Promise<T>, ms = 3000): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => { reject(new Error(`nothing happened for ${ms} ms`)) }, ms)
  })
  return await Promise.race([promise, late]).finally(() => { clearTimeout(timer) })
}
