/** Ranks of a gang: programs of one model on several nodes, which the first rank's node starts and ends. */
import { writeFile } from 'node:fs/promises'
import { networkInterfaces } from 'node:os'
import {
  EngineError, type EngineChunk, type EngineSession, type EngineTask, type ModelSpec
} from '../../../kernel/api/engine.js'
import { LOOPBACK, type Program } from '../../runners/openai/program.js'
import type { GangPlan } from '../../runners/service.js'
import type { Values } from './command.js'

/** File in the runner's folder with the addresses of all ranks, a list of lists. */
const HOSTS = 'hosts.json'
/** Time in ms between two signs that a rank runs, below the node's limit on silent tasks. */
const ALIVE_MS = 5_000

/** The rank that a runner is; null if the model runs on one node. @throws EngineError without its plan */
export function gangIn ({ options }: ModelSpec): GangPlan | null {
  const { gang } = options as { gang?: GangPlan | null }
  if (gang === null) throw new EngineError('provider_error', 'the ranks of this model are not prepared')
  return gang ?? null
}

/** Values of the placeholders that a gang adds. Only the own entry and the next one in `hosts` are used. */
export async function gangValues ({ options }: ModelSpec, gang: GangPlan | null): Promise<Values> {
  if (gang === null) return { own: LOOPBACK }
  const { rank, size, port, next, headAddress: head, headPort } = gang
  const { interface: network } = options['collectives'] as { interface?: string }
  const own = networkInterfaces()[network ?? '']?.find(({ family }) => family === 'IPv4')?.address ?? LOOPBACK
  const values = { rank: String(rank), ranks: String(size), own }
  if (next === null) return { ...values, interface: network, head: head ?? own, head_port: String(headPort) }
  const ports = Array.from({ length: size }, (_, i) => i === rank ? port : i === (rank + 1) % size ? next : 1)
  await writeFile(HOSTS, JSON.stringify(ports.map((one) => [`${LOOPBACK}:${one}`])))
  return { ...values, hosts: HOSTS }
}

/** A rank other than the first. It starts its program for the one task `join`, and ends with it. */
export class RankSession implements EngineSession {
  private readonly start: (gang: GangPlan) => Promise<Program>
  private readonly die: (error: Error) => void
  private program: Program | null = null

  constructor (start: (gang: GangPlan) => Promise<Program>, die: (error: Error) => void) {
    this.start = start
    this.die = die
  }

  async warmup (): Promise<void> {}

  async * run ({ kind, payload }: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    if (kind !== 'join' || this.program !== null) {
      throw new EngineError('invalid_request', `this rank has no task ${kind} now`)
    }
    const program = this.program = await this.start(payload as unknown as GangPlan)
    const left = new Promise<null>((resolve) => { signal.addEventListener('abort', () => { resolve(null) }) })
    try {
      while (!signal.aborted) {
        yield { payload: {} }
        const how = await Promise.race([program.endOf(ALIVE_MS), left])
        if (how !== null && !signal.aborted) {
          this.die(new Error(`a rank ${how}: ${program.said}`))
          throw new EngineError('instance_lost', `its program ${how}: ${program.said}`)
        }
      }
    } finally {
      await program.close()
    }
  }

  info (): Record<string, unknown> { return { serverPid: this.program?.pid ?? null } }

  async close (): Promise<void> { await this.program?.close() }
}
