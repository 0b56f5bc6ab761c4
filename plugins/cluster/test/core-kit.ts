import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ClusterCore } from '../cluster.js'
import { openMembers, type Members } from '../members/file.js'
import { decodeFrame, encodeFrame, type FrameKind } from '../links/frames.js'
import { newNodeId } from '../../../kernel/boot/identity.js'
import { clusterTiming } from '../election/timing.js'
import { kernelError, type SvcError } from '../../../kernel/api/errors.js'
import { prepareHome } from '../../../kernel/boot/home.js'
import { kernelManifest } from '../../../kernel/plugins/kernel-manifest.js'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { schemaChecker } from '../../../kernel/api/validate.js'
import type { LinkPeer, Transport } from '../cluster.js'
import type { QuorumSetting } from '../election/rules.js'
import type { Admission, Applicant } from '../members/member.js'
import type { EventDecl, Logger, NodeInfo } from '../../../kernel/api/plugin.js'

export interface Owner { teardown (fn: () => unknown): unknown }
export interface Told { node: string, kind: string, payload: Record<string, unknown> }
type Kind = Exclude<FrameKind, 'telemetry'>

/** A frame in transit; a filter may change its body, or return null to drop it. */
export interface Frame { from: string, to: string, kind: Kind, body: Record<string, unknown> }
export type Filter = (frame: Frame) => unknown

/** One node; its install id ends in its number. */
export interface CoreNode {
  readonly name: string
  readonly installId: string
  readonly node: NodeInfo
  readonly core: ClusterCore
  readonly members: Members
  readonly peers: () => (LinkPeer & { version: string })[]
  readonly running: boolean
  readonly lines: string[]
}

export interface CoreCluster {
  readonly clock: ManualClock
  readonly nodes: readonly CoreNode[]
  /** All events in order, validated against their declarations. */
  readonly events: Told[]
  /** `ID REASON` of each link that a node dropped. */
  readonly dropped: string[]
  readonly filters: Filter[]
  at (n: number): CoreNode
  join (by: CoreNode, admitter?: Omit<Admission, 'node'>): Promise<CoreNode>
  /** Waits until all these nodes follow one master, in one session and with the same control data. */
  agreed (on?: readonly CoreNode[]): Promise<CoreNode>
  others (node: CoreNode): CoreNode[]
  cut (a: readonly CoreNode[], b: readonly CoreNode[]): void
  heal (): void
  /** Ends a node without announcing it. */
  kill (node: CoreNode): void
  /** Restarts a node from its home, as a new process. */
  restart (node: CoreNode): void
  /** Freezes a node's process; timers and messages wait until `thaw`. */
  freeze (node: CoreNode): void
  thaw (node: CoreNode): void
  /** Makes a node's disk refuse every write, or accept them again. */
  breakDisk (node: CoreNode, broken?: boolean): void
  run (ms: number): Promise<void>
  until<T> (what: string, look: () => T | undefined | false | null): Promise<T>
  /** Advances time until the promise is settled. */
  settled<T> (promise: Promise<T>): Promise<T>
  told (kind: string): Record<string, unknown>[]
  forget (): void
}

export interface CoreOptions {
  nodes?: number
  quorum?: QuorumSetting
  /** Called with each new core before it starts, including after restarts. */
  prepare?: (core: ClusterCore, name: string) => void
  /** One-way delay of frames in ms. */
  delayMs?: number
  seed?: number
}

const LIMIT_MS = 120_000
const STEP_MS = 20

/** A cluster of `nodes` nodes that joined one after the other, and agree. */
export async function coreCluster (t: Owner, options: CoreOptions = {}): Promise<CoreCluster> {
  const cluster = new Net(t, options)
  const first = cluster.add(false)
  for (let n = 1; n < (options.nodes ?? 3); n++) await cluster.join(first)
  await cluster.agreed()
  return cluster
}

function seeded (seed: number): () => number {
  let state = seed
  return () => {
    state = state + 0x6D2B79F5 | 0
    let mixed = Math.imul(state ^ state >>> 15, 1 | state)
    mixed = mixed + Math.imul(mixed ^ mixed >>> 7, 61 | mixed) ^ mixed
    return ((mixed ^ mixed >>> 14) >>> 0) / 2 ** 32
  }
}

interface Slot extends CoreNode {
  node: NodeInfo, core: ClusterCore, running: boolean, generation: number
  /** Timers that became due and messages that arrived while the node was frozen; null if it is not. */
  held: { timers: Set<() => void>, arrived: (() => void)[] } | null
}

class Net implements CoreCluster {
  readonly clock = manualClock()
  readonly events: Told[] = []
  readonly dropped: string[] = []
  readonly filters: Filter[] = []
  readonly #slots: Slot[] = []
  readonly #options: CoreOptions
  readonly #random: () => number
  readonly #owner: Owner
  /** Open links, and cut pairs, as `a b` with a < b. */
  readonly #up = new Set<string>()
  readonly #apart = new Set<string>()
  readonly #broken = new Set<string>()
  #seen = 0

  constructor (owner: Owner, options: CoreOptions) {
    this.#owner = owner
    this.#options = options
    this.#random = seeded(options.seed ?? 1)
    owner.teardown(() => { for (const slot of this.#slots) if (slot.running) this.kill(slot) })
  }

  get nodes (): readonly CoreNode[] { return this.#slots }

  at (n: number): CoreNode { return this.#slots[n]! }
  others (node: CoreNode): CoreNode[] { return this.#slots.filter((s) => s !== node && s.running) }
  told (kind: string): Record<string, unknown>[] {
    return this.events.slice(this.#seen).filter((e) => e.kind === kind).map((e) => e.payload)
  }

  forget (): void { this.#seen = this.events.length }

  add (joining: boolean): Slot {
    const home = mkdtempSync(join(tmpdir(), 'svc-core-'))
    this.#owner.teardown(() => { rmSync(home, { recursive: true, force: true }) })
    prepareHome(home)
    const slot = this.#slot(home)
    this.#slots.push(slot)
    if (!joining) this.#start(slot, false)
    return slot
  }

  async join (by: CoreNode, admitter: Omit<Admission, 'node'> = { by: ['operator'] }): Promise<CoreNode> {
    const slot = this.add(true)
    const membership = await this.settled(by.core.membership.admit(selfOf(slot), admitter))
    slot.members.replace(membership)
    this.#start(slot, true)
    await this.until(`${slot.name} follows`, () => slot.core.status().leader)
    return slot
  }

  async agreed (on: readonly CoreNode[] = this.#slots.filter((s) => s.running)): Promise<CoreNode> {
    return await this.until('one master and the same control data', () => {
      const [first, ...rest] = on.map(({ core }) => {
        const { leader } = core.status()
        const { seq, hash } = core.control.position()
        return leader === null ? undefined : `${leader.sid} ${leader.term} ${leader.master} ${seq} ${hash}`
      })
      if (first === undefined || rest.some((other) => other !== first)) return undefined
      return on.find((n) => n.core.session.isMaster && n.core.status().leader?.master === n.installId)
    })
  }

  cut (a: readonly CoreNode[], b: readonly CoreNode[]): void {
    for (const one of a) for (const other of b) this.#apart.add(pairOf(one, other))
    this.#relink()
  }

  heal (): void {
    this.#apart.clear()
    this.#relink()
  }

  kill (node: CoreNode): void {
    const slot = node as Slot
    slot.running = false
    slot.generation++
    slot.core.stop()
    this.#relink()
  }

  restart (node: CoreNode): void { this.#start(node as Slot, false) }

  breakDisk ({ name, node }: CoreNode, broken = true): void {
    if (broken) this.#broken.add(name)
    else this.#broken.delete(name)
    for (const file of ['promise.json', 'control.json']) {
      // A folder at the path of the temporary file makes the write fail.
      const blocked = join(node.home, 'state', `${file}.${process.pid}.tmp`)
      if (broken) mkdirSync(blocked)
      else rmSync(blocked, { recursive: true })
    }
  }

  freeze (node: CoreNode): void { (node as Slot).held = { timers: new Set(), arrived: [] } }

  thaw (node: CoreNode): void {
    const slot = node as Slot
    const { timers, arrived } = slot.held!
    slot.held = null
    for (const fn of [...timers, ...arrived]) fn()
  }

  #clockOf (slot: Slot): ManualClock {
    const gate = (fn: () => void) => (): void => {
      if (slot.held === null) fn()
      else slot.held.timers.add(fn)
    }
    const { clock } = this
    return { ...clock,
      after: (ms, fn) => clock.after(ms, gate(fn)), every: (ms, fn) => clock.every(ms, gate(fn)) }
  }

  async run (ms: number): Promise<void> { await this.clock.advance(ms) }

  async until<T> (what: string, look: () => T | undefined | false | null): Promise<T> {
    for (let passed = 0; passed <= LIMIT_MS; passed += STEP_MS) {
      const found = look()
      if (found !== undefined && found !== false && found !== null) return found
      await this.clock.advance(STEP_MS)
    }
    throw new Error(`waited in vain: ${what}; ${this.#slots.map(summary).join('; ')}`)
  }

  async settled<T> (promise: Promise<T>): Promise<T> {
    let done = false
    const mark = (): void => { done = true }
    promise.then(mark, mark)
    await this.until('a promise', () => done)
    return await promise
  }

  #slot (home: string): Slot {
    const n = this.#slots.length + 1
    const installId = `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
    const name = `n${n}`
    const node = { nodeId: '', installId, name, home, version: '1.0.0', configPath: null }
    const slot: Slot = {
      name, installId, node, running: false, generation: 0, lines: [], held: null,
      core: undefined as unknown as ClusterCore,
      members: openMembers({ home, self: candidate(installId, name), now: this.clock.now }),
      peers: () => this.#peersOf(slot)
    }
    slot.members.onChange(() => { this.clock.after(0, () => { this.#relink() }) })
    return slot
  }

  #start (slot: Slot, joining: boolean): void {
    const { members, lines } = slot
    slot.node = { ...slot.node, nodeId: newNodeId() }
    slot.running = true
    const keep = (_: object, message: string): void => { lines.push(message) }
    const skip = (): void => {}
    const log: Logger = { debug: skip, info: skip, warn: keep, error: keep, fatal: keep }
    slot.core = new ClusterCore({
      node: slot.node, clock: this.#clockOf(slot), log, members, joining,
      random: this.#random,
      quorum: this.#options.quorum ?? 1,
      timing: clusterTiming({ heartbeat_ms: 2000, election_timeout_ms: 3000 }),
      folder: join(slot.node.home, 'state'),
      diskWrites: async () => !this.#broken.has(slot.name),
      self: () => selfOf(slot),
      apiUrl: () => `http://${slot.name}:80`,
      transport: this.#transport(slot),
      emit: (kind, payload) => { this.#emitted(slot, kind, payload) }
    })
    this.#options.prepare?.(slot.core, slot.name)
    slot.core.start()
    this.#relink()
  }

  #emitted ({ name }: Slot, kind: string, payload: Record<string, unknown>): void {
    const decl = (kernelManifest.events as Record<string, EventDecl>)[kind]
    const problem = decl === undefined ? 'is not declared' : schemaChecker(decl.payload)(payload)
    if (problem !== null) throw new Error(`the event ${kind} ${problem}: ${JSON.stringify(payload)}`)
    this.events.push({ node: name, kind, payload })
  }

  #transport (slot: Slot): Transport {
    const { generation } = slot
    const own = (): boolean => slot.running && slot.generation === generation
    return {
      send: (to, kind, body) => own() && this.#send(slot, to, kind as Kind, body),
      broadcast: (kind, body) => own()
        ? this.#peersOf(slot).filter((p) => this.#send(slot, p.installId, kind as Kind, body)).length
        : 0,
      peers: () => this.#peersOf(slot),
      request: async () => { throw kernelError('unreachable') },
      drop: (id) => {
        this.dropped.push(id)
        const other = this.#slots.find((s) => s.installId === id)
        if (other !== undefined) this.#set(slot, other, false, 'not_member')
      }
    }
  }

  #peersOf (slot: CoreNode): (LinkPeer & { version: string })[] {
    return this.#slots.filter((s) => this.#up.has(pairOf(s, slot))).map((s) => ({
      installId: s.installId, nodeId: s.node.nodeId, name: s.name, apiUrl: `http://${s.name}:80`,
      address: '10.0.0.1:1', rttMs: 1, version: s.node.version
    }))
  }

  #send (slot: Slot, to: string, kind: Kind, body: unknown): boolean {
    const other = this.#slots.find((s) => s.installId === to)
    if (other === undefined || !this.#up.has(pairOf(slot, other))) return false
    const bytes = encodeFrame(kind, body)
    const link = [slot.generation, other.generation].join()
    this.clock.after(this.#options.delayMs ?? 2, () => {
      const same = [slot.generation, other.generation].join() === link && this.#up.has(pairOf(slot, other))
      const frame: Frame = {
        from: slot.installId, to, kind, body: (decodeFrame(bytes) as { body: Frame['body'] }).body
      }
      for (const filter of this.filters) frame.body = filter(frame) as Frame['body']
      if (!same || frame.body === null) return
      arrive(other, () => {
        if (other.core.frame(slot.installId, kind, frame.body)) return
        this.dropped.push(`${slot.installId} protocol`)
        this.#set(slot, other, false, 'protocol')
      })
    })
    return true
  }

  /** Links all pairs that run, know each other and are not cut. */
  #relink (): void {
    for (const [i, a] of this.#slots.entries()) {
      for (const b of this.#slots.slice(i + 1)) {
        const known = a.members.find(b.installId) !== undefined && b.members.find(a.installId) !== undefined
        this.#set(a, b, a.running && b.running && known && !this.#apart.has(pairOf(a, b)), 'closed')
      }
    }
  }

  #set (a: Slot, b: Slot, up: boolean, reason: string): void {
    const pair = pairOf(a, b)
    if (this.#up.has(pair) === up) return
    if (up) this.#up.add(pair)
    else this.#up.delete(pair)
    for (const [one, other] of [[a, b], [b, a]] as const) {
      if (!one.running) continue
      const peer = this.#peersOf(one).find((p) => p.installId === other.installId)
      arrive(one, () => {
        if (up) one.core.up(peer!)
        else one.core.down(other.installId, reason)
      })
    }
  }
}

/** Delivers an input to a node; a frozen node gets it later. */
function arrive (slot: Slot, act: () => void): void {
  if (slot.held === null) act()
  else slot.held.arrived.push(act)
}

function summary ({ name, core, running }: Slot): string {
  const { role, leader } = core.status()
  const { seq, hash } = core.control.position()
  return `${name}${running ? '' : ' (ended)'} ${role} of ${leader?.master.slice(-1)}:${leader?.term}, ` +
    `data ${seq} ${hash.slice(0, 4)}`
}

const pairOf = (a: CoreNode, b: CoreNode): string => [a.installId, b.installId].sort().join(' ')

function candidate (installId: string, name: string): Applicant {
  const fingerprint = createHash('sha256').update(installId).digest('base64url')
  return { installId, name, fingerprint, addresses: [`${name}:81`] }
}

export async function failure (promise: Promise<unknown>): Promise<SvcError> {
  return await promise.then(
    () => { throw new Error('it did not fail') }, (error: unknown) => error as SvcError)
}

export function selfOf ({ installId, name }: CoreNode): Applicant { return candidate(installId, name) }
