import { HEALED, QUIET, RECOVERY, type SimMode } from './plan.js'
import type { Leader, Outcome, CommandReceipt } from '../../plugins/cluster/election/protocol.js'
import type { Directive, SimNode } from './node.js'

interface Stream {
  readonly node: SimNode
  readonly generation: number
  readonly sid: string | null
  ends: number
}

/** Watches a run and records every violation of the invariants I1 to I8. */
export class Invariants {
  readonly violations: string[] = []
  /** First receipt of each acknowledged command. */
  readonly acked = new Map<string, CommandReceipt>()
  readonly refused = new Map<string, string>()
  readonly streams = new Map<string, Stream>()
  elections = 0
  executed = 0
  directives = 0
  lastElection = 0
  readonly #mode: SimMode
  readonly #now: () => number
  readonly #masterOfSid = new Map<string, string>()
  readonly #masterOfTerm = new Map<number, string>()
  readonly #accepted = new Map<SimNode, { durable: number, here: number, generation: number }>()
  readonly #digests = new Map<string, number>()
  readonly #entered = new Map<string, number>()
  /** Sessions that a node has left, even temporarily, each with the node and its start. */
  readonly #left = new Set<string>()

  constructor (mode: SimMode, now: () => number) {
    this.#mode = mode
    this.#now = now
  }

  breach (what: string): void { this.violations.push(`${what} @${Math.round(this.#now())}`) }

  /** I1: one master per session id; with a majority quorum also one master per term. */
  becameMaster (node: SimNode, { sid, term }: Leader): void {
    this.elections++
    this.lastElection = this.#now()
    if (this.#masterOfSid.has(sid)) this.breach(`I1 session id used twice: ${sid}`)
    this.#masterOfSid.set(sid, node.id)
    const other = this.#masterOfTerm.get(term)
    if (this.#mode === 'B' && other !== undefined) {
      this.breach(`I1 two masters in term ${term}: ${other}, ${node.id}`)
    }
    this.#masterOfTerm.set(term, node.id)
  }

  /**
   * I2: a node's accepted term never decreases; across restarts this covers only terms that its disk had
   * stored. Also updates the sessions of instances for I5.
   */
  accepted (node: SimNode, next: Leader | null, previous: Leader | null): void {
    if (previous !== null && previous.sid !== next?.sid) {
      this.#left.add(`${node.id}/${node.generation}/${previous.sid}`)
    }
    if (next === null) return
    const old = this.#accepted.get(node)
    const here = old?.generation === node.generation ? old.here : 0
    const durable = old?.durable ?? 0
    if (next.term < Math.max(here, durable)) {
      this.breach(`I2 ${node.id} accepted term ${next.term} after ${Math.max(here, durable)}`)
    }
    const stored = (node.disk.hardState?.term ?? 0) >= next.term ? next.term : 0
    this.#accepted.set(node, {
      durable: Math.max(durable, stored), here: Math.max(here, next.term), generation: node.generation
    })
    // Running instances now belong to the new session.
    for (const instance of node.running.keys()) node.running.set(instance, next.sid)
  }

  opened (stream: string, node: SimNode, sid: string | null): void {
    this.streams.set(stream, { node, generation: node.generation, sid, ends: 0 })
  }

  /** I4, first half: no stream ends twice. */
  terminal (stream: string): void {
    const known = this.streams.get(stream)
    if (known === undefined) this.breach(`I4 end of an unknown stream ${stream}`)
    else if (++known.ends > 1) this.breach(`I4 stream ${stream} ended ${known.ends} times`)
  }

  /** Retries get the command's first receipt: always with a majority quorum, else within a session. */
  answered (id: string, outcome: Outcome): void {
    if (!outcome.ok) {
      this.refused.set(id, outcome.code)
      return
    }
    const { sid, term, seq } = outcome
    const first = this.acked.get(id)
    const same = first?.sid === sid && first.term === term && first.seq === seq
    if (first !== undefined && !same && (this.#mode === 'B' || first.sid === sid)) {
      this.breach(`I8 command ${id} answered as ${first.term}/${first.seq} and as ${term}/${seq}`)
    }
    if (first === undefined) this.acked.set(id, { sid, term, seq })
  }

  /** I7: entries with equal numbers are equal. I8: a command is entered at most once per session. */
  logChanged (node: SimNode): void {
    const { log } = node.disk
    const last = log.at(-1)
    if (last === undefined) return
    const place = this.#mode === 'B' ? `${last.term}/${log.length}` : `${last.sid}/${last.term}/${log.length}`
    const known = this.#digests.get(place)
    if (known === undefined) this.#digests.set(place, last.digest)
    else if (known !== last.digest) this.breach(`I7 two contents at ${place}, one on ${node.id}`)
    if (last.kind !== 'command') return
    const key = `${last.sid} ${last.id}`
    const before = this.#entered.get(key)
    if (before === undefined) {
      this.executed++
      this.#entered.set(key, log.length)
    } else if (before !== log.length) {
      this.breach(`I8 command ${last.id} entered at ${before} and at ${log.length}`)
    }
  }

  /**
   * I5: a worker acts only for the master and term that it follows, and never below the term that it
   * promised; no instance has two sessions.
   */
  carriesOut (node: SimNode, { token, sid, instance }: Directive, leader: Leader | null): void {
    this.directives++
    const { term, master } = token
    if (term < node.promised) this.breach(`I5 ${node.id} acted below its promise`)
    if (leader === null || leader.sid !== sid || leader.term !== term || leader.master !== master) {
      this.breach(`I5 ${node.id} acted for ${sid}/${term} while it follows ${leader?.sid}/${leader?.term}`)
    }
    node.running.set(instance, sid)
    for (const [other, of] of node.running) {
      if (of !== sid) this.breach(`I5 ${node.id} runs ${other} under ${of} and ${instance} under ${sid}`)
    }
  }

  /** Checks I3, I4 and I6 on the final state. */
  finish (nodes: readonly SimNode[]): void {
    const now = this.#now()
    const masters = nodes.filter((node) => node.isMaster)
    const leaders = nodes.map((node) => `${node.id}:${node.leader?.sid ?? '-'}`).join(' ')
    const [master] = masters
    if (masters.length !== 1 || master === undefined) {
      return this.breach(`I6 ${masters.length} masters: ${leaders}`)
    }
    const sid = master.leader?.sid
    if (nodes.some((node) => node.leader?.sid !== sid)) this.breach(`I6 not one session: ${leaders}`)
    if (now - this.lastElection < QUIET) this.breach('I6 an election near the end')
    this.#keptAll(master)
    this.#sameCopies(nodes, master)
    this.#endedOnce()
  }

  #keptAll ({ disk: { log } }: SimNode): void {
    if (this.#mode === 'A') return
    for (const [id, { seq }] of this.acked) {
      if (log[seq - 1]?.id !== id) this.breach(`I3 acknowledged ${id} is not at ${seq}`)
    }
  }

  #sameCopies (nodes: readonly SimNode[], master: SimNode): void {
    const last = master.disk.log.at(-1)
    for (const { id, disk } of nodes) {
      const same = disk.log.at(-1)?.digest === last?.digest
      if (!same) this.breach(`I7 ${id} holds something else than its master`)
    }
  }

  #endedOnce (): void {
    for (const [id, { node, generation, sid, ends }] of this.streams) {
      if (node.generation !== generation) continue
      const over = sid === null || node.leader?.sid !== sid
      if (over && ends !== 1) this.breach(`I4 stream ${id} of an ended session has ${ends} ends`)
      const left = this.#left.has(`${node.id}/${generation}/${sid}`)
      if (!left && sid !== null && ends !== 0) this.breach(`I4 stream ${id} was ended with its session alive`)
    }
  }
}

export const END = HEALED + RECOVERY
