/** Ranks of a gang: programs of one model on several nodes, which the first rank's node starts and ends. */
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { EngineError, type EngineSession } from '../../../kernel/api/engine.js'
import { LOOPBACK, type Program } from '../../runners/openai/program.js'
import type { GangPlan } from '../../runners/service.js'
import type { Values } from './command.js'

/** File in the runner's folder with the addresses of all ranks, a list of lists. */
const HOSTS = 'hosts.json'
/** Time in ms between two signs that a rank runs, below the node's limit on silent tasks. */
const ALIVE_MS = 5_000

/** Values of the placeholders that a gang adds. Only the own entry and the next one in `hosts` are used. */
export async function gangValues (gang: GangPlan | undefined): Promise<Values> {
  if (gang === undefined) return { own: LOOPBACK }
  const { rank, size, port, next, address: own, network, headAddress: head, headPort } = gang
  const values = {
    rank: String(rank), ranks: String(size), own, interface: network, head, head_port: String(headPort)
  }
  if (next === undefined) return values
  const ports = Array.from({ length: size }, (_, i) => i === rank ? port : i === (rank + 1) % size ? next : 1)
  await writeFile(HOSTS, JSON.stringify(ports.map((one) => [`${LOOPBACK}:${one}`])))
  return { ...values, hosts: HOSTS }
}

/** A rank other than the first. It starts its program for the one task `join`, and ends with it. */
export function rankSession (
  start: (gang: GangPlan) => Promise<Program>, die: (error: Error) => void
): EngineSession {
  let program: Program | undefined
  return {
    async warmup () {},
    async * run ({ kind, payload }, signal) {
      if (kind !== 'join' || program !== undefined) {
        throw new EngineError('invalid_request', `this rank has no task ${kind} now`)
      }
      program = await start(payload as unknown as GangPlan)
      const left = once(signal, 'abort').then(() => null)
      try {
        while (!signal.aborted) {
          yield { payload: {} }
          const how = await Promise.race([program.endOf(ALIVE_MS), left])
          if (how === null || signal.aborted) continue
          die(new Error(`a rank ${how}: ${program.said}`))
          throw new EngineError('instance_lost', `its program ${how}: ${program.said}`)
        }
      } finally {
        await program.close()
      }
    },
    info: () => ({ serverPid: program?.pid ?? null }),
    async close () { await program?.close() }
  }
}
