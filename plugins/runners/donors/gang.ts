/**
 * Gangs: programs on several nodes that run one model together. The first rank, the head, serves it. Its node
 * starts the other ranks each time the head starts, and all of them end with any one of them.
 */
import type { Socket } from 'node:net'
import { delay, kernelError, readRefusal, whileLive } from '../../../kernel/index.js'
import type { RouteRequest, Section } from '../../../kernel/index.js'
import { freePort } from '../openai/program.js'
import { reasonOf } from '../process/errors.js'
import { kindOf } from '../process/states.js'
import type { RunnerSet } from '../instances/runner-set.js'
import type { Instance } from '../instances/sections.js'
import { assignmentOf, type Assignment } from '../instances/shapes.js'
import type { routes } from '../routes.js'
import type { RunnerStatus } from '../service.js'
import { isWaiting, whileDonors, type DriverParts, type RpcDrivers } from './driver.js'
import { roleOf, type GangOffer, type GangPlan, type GangRole, type RankRef } from './role.js'
import { connected, NODE_CALLER, TUNNEL_TYPE } from './tunnel.js'

/** Path at which a node starts its rank for the head's node, and ends it with the request. */
const GANGS_PATH = '/runners/gangs'
/** Limit in ms on the wait until a rank has ended the previous run and is ready for the next one. */
const READY_MS = 60_000
const POLL_MS = 100
const STARTS_OR_ENDS = /^Runner(Connecting|Idle|Failed|ShuttingDown)$/

interface GangParts extends Omit<DriverParts, 'log' | 'lost'> {
  nodeId: string
  instances: Section<Instance>
  fleet: () => Pick<RunnerSet, 'get' | 'again'>
  drivers: Pick<RpcDrivers, 'forward'>
  /** The program of an assignment. */
  offer (assignment: Assignment): GangOffer & { program: string }
}

/** A rank on this node. `run` identifies a start of the head; `joins` ends the other ranks of that start. */
interface Entry {
  run: string
  end: AbortController
  port: number
  next?: number
  joins?: AbortController
  start?: () => void
}

export class Gangs {
  readonly #parts: GangParts
  readonly #entries = new Map<string, Entry>()

  constructor (parts: GangParts) { this.#parts = parts }

  release (runnerId: string): void {
    this.#entries.get(runnerId)?.end.abort()
    this.#entries.delete(runnerId)
  }

  /**
   * Resolves when all other ranks are ready to start, or when the runner is released. Calls `waits` with
   * those that are not. Throws if their programs differ.
   */
  async prepare (assignment: Assignment, role: GangRole, waits: (message: string) => void): Promise<void> {
    if (role.rank > 0) return
    const { newId, fleet } = this.#parts
    const { runnerId } = assignment
    const end = new AbortController()
    const lost = (message: string): void => {
      if (end.signal.aborted) return
      this.release(runnerId)
      void fleet().again(runnerId, message)
    }
    const entry = await this.#enter(assignment, role, { run: newId(), end }, lost)
    const others = role.ranks.slice(1)
    await whileDonors(this.#parts, others, end.signal, isWaiting(this.#parts, waits))
    if (end.signal.aborted) return
    await Promise.all(others.map((rank) => this.#ask(assignment, rank, entry, end.signal)))
    entry.start = () => {
      entry.joins = new AbortController()
      entry.run = newId()
      const signal = AbortSignal.any([end.signal, entry.joins.signal])
      for (const rank of others) {
        const over = this.#ask(assignment, rank, entry, signal, entry.run)
        void over.then(() => 'ended', reasonOf).then((why) => {
          if (!signal.aborted) lost(`the rank on ${rank.nodeId} is lost: ${why}`)
        })
      }
    }
  }

  /** Ports and addresses by which a rank meets the others; null before `prepare`. `head`: another one. */
  plan (
    assignment: Assignment, { rank, ranks: { length: size } }: GangRole, head?: Partial<GangPlan>
  ): GangPlan | null {
    const { port, next } = this.#entries.get(assignment.runnerId) ?? {}
    const { address, network } = this.#parts.offer(assignment)
    return port === undefined ? null
      : { rank, size, port, next, address, network, headAddress: address, headPort: port, ...head }
  }

  /** Call when a runner's status changes: its start begins a run of its gang, and its end ends the run. */
  moved (runnerId: string, status: RunnerStatus): void {
    const entry = this.#entries.get(runnerId)
    if (STARTS_OR_ENDS.test(kindOf(status))) entry?.joins?.abort()
    if ('RunnerConnecting' in status) entry?.start?.()
  }

  /** Connects to the program of a rank on this node, as soon as it listens for this run. */
  async connect (runnerId: string, run: string, signal: AbortSignal): Promise<Socket> {
    for (;;) {
      const entry = this.#entries.get(runnerId)
      const socket = entry?.run !== run ? null : await connected(entry.port, signal).catch(() => null)
      if (socket !== null) return socket
      await delay(this.#parts.clock, POLL_MS, signal)
    }
  }

  /**
   * Handler of POST /runners/gangs: runs the rank on this node until the request ends; without `run` it only
   * compares the programs. Throws `not_found` unless the node of the first rank asks, and `instance_lost`.
   */
  async join (request: RouteRequest<typeof routes.gang>): Promise<void> {
    const { nodeId, cluster, instances, fleet, newId } = this.#parts
    const { member, body: { instanceId, runnerId, run, program, ...head } } = request
    const instance = instances.get(instanceId)
    const role = instance === undefined ? null : roleOf(instance, nodeId)
    const assignment = instance === undefined ? null : assignmentOf(instance, nodeId)
    if (member === null || role?.kind !== 'gang' || assignment?.runnerId !== runnerId ||
      cluster.resolve(role.ranks[0]!.nodeId)?.installId !== member) throw kernelError('not_found')
    const { program: own, problem } = this.#parts.offer(assignment)
    if (problem !== null) throw kernelError('instance_lost', `${nodeId} cannot take part: ${problem}.`)
    if (own !== program) throw kernelError('instance_lost', `${nodeId} has ${own}, others ${program}.`)
    if (run === undefined) return await request.open({ contentType: TUNNEL_TYPE }).end()
    const live = whileLive(this.#parts, member, request.signal)
    const end = new AbortController()
    const over = AbortSignal.any([live.signal, end.signal])
    try {
      const late = AbortSignal.any([live.signal, AbortSignal.timeout(READY_MS)])
      await whileDonors(this.#parts, [{ nodeId, runnerId }], late, (missing) =>
        missing.length > 0 || this.#entries.has(runnerId))
      if (late.aborted) throw kernelError('instance_lost', `The rank on ${nodeId} did not become ready.`)
      await this.#enter(assignment, role, { run, end }, () => { end.abort() })
      const stream = request.open({ contentType: TUNNEL_TYPE })
      const task = { kind: 'join', payload: { ...this.plan(assignment, role, head) } }
      for await (const _ of fleet().get(runnerId)?.supervisor?.open(newId(), task, over) ?? []) {
        await stream.write('.')?.catch(() => { end.abort() })
      }
      await stream.end()
    } finally {
      if (this.#entries.get(runnerId)?.end === end) {
        // A new process for the next run. A program that ended by itself has ended its runner.
        if (over.aborted) void fleet().again(runnerId, 'its gang has ended')
        this.release(runnerId)
      }
      live.end()
    }
  }

  /** Reserves the ports of a rank; `broke` is called if its connection to the next rank breaks. */
  async #enter (
    assignment: Assignment, { rank, ranks }: GangRole, of: Pick<Entry, 'run' | 'end'>,
    broke: (message: string) => void
  ): Promise<Entry> {
    const { runnerId, instanceId } = assignment
    this.release(runnerId)
    const entry: Entry = { ...of, port: 0 }
    this.#entries.set(runnerId, entry)
    // A port is free again until the program listens there.
    do entry.port = await freePort()
    while ([...this.#entries.values()].some((one) => one !== entry && one.port === entry.port))
    if (!this.#parts.offer(assignment).linked) return entry
    const to = ranks[(rank + 1) % ranks.length]!
    const next = await this.#parts.drivers.forward({ entry, broke }, instanceId, to)
    entry.next = next.port
    if (entry.end.signal.aborted) next.close()
    else entry.end.signal.addEventListener('abort', () => { next.close() })
    return entry
  }

  /** Asks the node of a rank. Without `run` it only compares programs; with one the answer lasts as long. */
  async #ask (
    assignment: Assignment, { nodeId, runnerId }: RankRef, { port }: Entry, signal: AbortSignal, run?: string
  ): Promise<void> {
    const { cluster } = this.#parts
    const { installId } = cluster.resolve(nodeId) ?? {}
    if (installId === undefined) throw kernelError('instance_lost', `The node ${nodeId} is gone.`)
    const live = whileLive(this.#parts, installId, signal)
    try {
      const { program, address: headAddress } = this.#parts.offer(assignment)
      const { instanceId } = assignment
      const { status, body } = await cluster.request(installId, {
        method: 'POST', path: GANGS_PATH, caller: NODE_CALLER, signal: live.signal,
        timeoutMs: READY_MS + 5_000, body: { instanceId, runnerId, program, headAddress, headPort: port, run }
      })
      if (status !== 200) throw kernelError('instance_lost', (await readRefusal(body))?.message)
      for await (const _ of body) { /* A byte now and then says that it runs. */ }
    } finally {
      live.end()
    }
  }
}
