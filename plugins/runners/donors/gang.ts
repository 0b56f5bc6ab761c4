/**
 * Gangs: programs on several nodes that run one model together. The first rank, the head, serves it. Its node
 * starts the other ranks each time the head starts, and all of them end with any one of them.
 */
import type { Socket } from 'node:net'
import {
  delay, kernelError, readRefusal, waitForCallback, whileLive, type Clock, type MemberParts,
  type RouteRequest, type Section
} from '../../../kernel/index.js'
import { freePort } from '../openai/program.js'
import { reasonOf } from '../process/errors.js'
import { kindOf, serves, type StatusKind } from '../process/states.js'
import type { RunnerSet } from '../instances/runner-set.js'
import type { Instance } from '../instances/sections.js'
import { assignmentOf, type Assignment } from '../instances/shapes.js'
import type { routes } from '../routes.js'
import type { GangOffer, GangPlan, RunnerStatus } from '../service.js'
import { isWaiting, whileDonors, type DonorPort, type RpcDrivers } from './driver.js'
import { roleOf, type GangRole, type RankRef } from './role.js'
import { connected, NODE_CALLER, TUNNEL_TYPE } from './tunnel.js'

/** Path at which a node starts its rank for the head's node, and ends it with the request. */
const GANGS_PATH = '/runners/gangs'
/** Limit in ms on the wait until a rank has ended the previous run and is ready for the next one. */
const READY_MS = 60_000
/** Limit in ms on the wait until a rank accepts a connection; the start of the head ends sooner. */
const MEET_MS = 1_200_000
const POLL_MS = 100
const STARTS_OR_ENDS: ReadonlySet<StatusKind> =
  new Set(['RunnerConnecting', 'RunnerIdle', 'RunnerFailed', 'RunnerShuttingDown'])

interface GangParts extends MemberParts {
  nodeId: string
  instances: Section<Instance>
  runners: Section<RunnerStatus>
  fleet: () => Pick<RunnerSet, 'get' | 'again'>
  drivers: Pick<RpcDrivers, 'forward'>
  clock: Clock
  newId (): string
  /** The program of an assignment. Throws if it cannot run in a gang on this node. */
  offer (assignment: Assignment): GangOffer & { program: string }
}

/** A rank on this node. `run` identifies a start of the head; `joins` ends the other ranks of that start. */
interface Entry {
  run: string
  end: AbortController
  port: number
  next: DonorPort | null
  joins?: AbortController
  start?: () => void
}

export class Gangs {
  readonly #parts: GangParts
  readonly #entries = new Map<string, Entry>()

  constructor (parts: GangParts) { this.#parts = parts }

  release (runnerId: string): void {
    const entry = this.#entries.get(runnerId)
    this.#entries.delete(runnerId)
    entry?.joins?.abort()
    entry?.end.abort()
    entry?.next?.close()
  }

  /**
   * Resolves when all other ranks are ready to start, or when the runner is released. Calls `waits` with
   * those that are not. Throws if their programs differ.
   */
  async prepare (assignment: Assignment, role: GangRole, waits: (message: string) => void): Promise<void> {
    if (role.rank > 0) return
    const { newId, fleet } = this.#parts
    const { runnerId } = assignment
    const lost = (message: string): void => {
      if (this.#entries.get(runnerId) !== entry) return
      this.release(runnerId)
      void fleet().again(runnerId, message)
    }
    const entry = await this.#enter(assignment, role, newId(), lost)
    const { signal } = entry.end
    await whileDonors(this.#parts, role.others, signal, isWaiting(waits))
    if (signal.aborted) return
    await Promise.all(role.others.map(async (rank) => { await this.#ask(assignment, rank, signal) }))
    entry.start = () => {
      const joins = entry.joins = new AbortController()
      const run = entry.run = newId()
      for (const rank of role.others) {
        void this.#ask(assignment, rank, joins.signal, run).then(() => 'ended', reasonOf).then((why) => {
          if (!joins.signal.aborted) lost(`the rank on ${rank.nodeId} is lost: ${why}`)
        })
      }
    }
  }

  /** What the head's program needs to meet the others; null before `prepare`. */
  plan (assignment: Assignment, role: GangRole): GangPlan | null {
    const entry = this.#entries.get(assignment.runnerId)
    const { address = null } = this.#parts.offer(assignment)
    return entry === undefined ? null : planOf(entry, role, address, entry.port)
  }

  /** Call when a runner's status changes: its start begins a run of its gang, and its end ends the run. */
  moved (runnerId: string, status: RunnerStatus): void {
    const entry = this.#entries.get(runnerId)
    if (STARTS_OR_ENDS.has(kindOf(status))) entry?.joins?.abort()
    if ('RunnerConnecting' in status) entry?.start?.()
  }

  /** Connects to the program of a rank on this node, as soon as it listens for this run. */
  async connect (runnerId: string, run: string, signal: AbortSignal): Promise<Socket> {
    for (;;) {
      const entry = this.#entries.get(runnerId)
      const socket = entry?.run !== run ? null : await connected(entry.port).catch(() => null)
      if (socket !== null) return socket
      await delay(this.#parts.clock, POLL_MS, signal)
    }
  }

  /** Handler of POST /runners/gangs: runs the rank on this node until the request ends. */
  async join (request: RouteRequest<typeof routes.gang>): Promise<void> {
    const { nodeId: self, newId, fleet } = this.#parts
    const { body: { runnerId, run, program, address, port } } = request
    const { member, role, assignment } = this.#checkHead(request)
    const own = this.#parts.offer(assignment).program
    if (own !== program) {
      throw kernelError('instance_lost', `${self} has ${own}, but the first rank has ${program}.`)
    }
    if (run === undefined) {
      await request.open({ contentType: TUNNEL_TYPE }).end()
      return
    }
    const { signal, end } = whileLive(this.#parts, member, request.signal)
    try {
      await this.#untilReady(runnerId, signal)
      const entry = await this.#enter(assignment, role, run, () => { this.release(runnerId) })
      try {
        const stream = request.open({ contentType: TUNNEL_TYPE })
        const task = { kind: 'join', payload: { ...planOf(entry, role, address, port) } }
        const until = AbortSignal.any([signal, entry.end.signal])
        for await (const _ of fleet().get(runnerId)?.supervisor?.open(newId(), task, until) ?? []) {
          await stream.write(Buffer.from('.'))
        }
        await stream.end()
      } finally {
        // A new process for the next run. A program that ended by itself has ended its runner.
        if (signal.aborted || entry.end.signal.aborted) void fleet().again(runnerId, 'its gang has ended')
        this.release(runnerId)
      }
    } finally {
      end()
    }
  }

  /** Throws `not_found` unless the request comes from the node of the first rank of its instance. */
  #checkHead (
    { body: { instanceId, runnerId }, member }: RouteRequest<typeof routes.gang>
  ): { member: string, role: GangRole, assignment: Assignment } {
    const { nodeId, instances, cluster } = this.#parts
    const instance = instances.get(instanceId)
    const role = instance === undefined ? null : roleOf(instance, nodeId)
    const assignment = instance === undefined ? null : assignmentOf(instance, nodeId)
    if (member === null || role?.kind !== 'gang' || assignment?.runnerId !== runnerId ||
      cluster.resolve(role.headNode)?.installId !== member) throw kernelError('not_found')
    return { member, role, assignment }
  }

  /** Waits until the previous run has ended and the runner of this rank is ready. Throws `instance_lost`. */
  async #untilReady (runnerId: string, signal: AbortSignal): Promise<void> {
    const { nodeId, runners } = this.#parts
    const isReady = (): boolean => !this.#entries.has(runnerId) &&
      serves(kindOf(runners.get(runnerId, nodeId) ?? { RunnerIdle: {} }))
    const over = AbortSignal.any([signal, AbortSignal.timeout(READY_MS)])
    while (!isReady()) {
      if (over.aborted) throw kernelError('instance_lost', `The rank on ${nodeId} did not become ready.`)
      await waitForCallback((callback) => runners.observe(callback), over)
    }
  }

  /** Reserves the ports of a rank; `broke` is called if its connection to the next rank breaks. */
  async #enter (
    assignment: Assignment, role: GangRole, run: string, broke: (message: string) => void
  ): Promise<Entry> {
    const { runnerId, instanceId } = assignment
    this.release(runnerId)
    const entry: Entry = { run, end: new AbortController(), port: 0, next: null }
    this.#entries.set(runnerId, entry)
    entry.port = await freePort()
    const next = !this.#parts.offer(assignment).linked ? null
      : await this.#parts.drivers.forward({ entry, broke, acceptMs: MEET_MS }, instanceId, role.next)
    if (entry.end.signal.aborted) next?.close()
    else entry.next = next
    return entry
  }

  /** Asks the node of a rank. Without `run` it only compares programs; with one the answer lasts as long. */
  async #ask (
    assignment: Assignment, { nodeId, runnerId }: RankRef, signal: AbortSignal, run?: string
  ): Promise<void> {
    const { cluster, offer } = this.#parts
    const { installId } = cluster.resolve(nodeId) ?? {}
    if (installId === undefined) throw kernelError('instance_lost', `The node ${nodeId} is gone.`)
    const live = whileLive(this.#parts, installId, signal)
    try {
      const { program, address = null } = offer(assignment)
      const { port = 0 } = this.#entries.get(assignment.runnerId) ?? {}
      const { instanceId } = assignment
      const { status, body } = await cluster.request(installId, {
        method: 'POST', path: GANGS_PATH, caller: NODE_CALLER, signal: live.signal,
        timeoutMs: READY_MS + 5_000,
        body: { instanceId, runnerId, program, address, port, ...run === undefined ? {} : { run } }
      })
      if (status !== 200) throw kernelError('instance_lost', (await readRefusal(body))?.message)
      for await (const _ of body) { /* A byte now and then says that it runs. */ }
    } finally {
      live.end()
    }
  }
}

const planOf = (
  { port, next }: Entry, { rank, size }: GangRole, headAddress: string | null, headPort: number
): GangPlan => ({ rank, size, port, next: next?.port ?? null, headAddress, headPort })
