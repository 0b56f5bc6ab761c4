/**
 * A donor: llama.cpp's rpc-server as a child of the runner process. It offers this machine's memory and
 * processors to a llama-server on another node, which reaches it through the node; it listens on this machine
 * only.
 */
import { connect } from 'node:net'
import {
  EngineError, type EngineChunk, type EngineEnv, type EngineSession, type ModelSpec
} from '../../../kernel/api/engine.js'
import { findDonor } from './binary.js'
import { textOf } from '../../runners/language/json.js'
import { deviceName, devicesOf, splitOf, type LayerShare } from './command-line.js'
import { freePort, LOOPBACK, Program, type EngineParts } from './program.js'

const POLL_MS = 50

export interface DonorOptions {
  flags: ReadonlySet<string>
  port: number
  threads: number
  backend: string
  /** What its devices hold; null for one of them. */
  split?: LayerShare | null
}

/** The arguments for a donor: the devices that placement counts on, on this machine's own address. */
export function donorArguments ({ flags, port, threads, backend, split }: DonorOptions): string[] {
  const devices = devicesOf(split ?? { layers: 1 })
  const names = devices.map(({ gpu }) => gpu === null ? 'CPU' : deviceName(backend, gpu))
  return [
    '--host', LOOPBACK, '--port', String(port),
    ...[
      ['--threads', String(threads)],
      // All that is named is a device of the driver, which has a share for each.
      ['--device', backend === 'cpu' ? 'CPU' : names.join(',')]
    ].filter(([name]) => flags.has(name as string)).flat()
  ]
}

/** Whether a program listens on a port of this machine. */
async function answers (port: number): Promise<boolean> {
  const socket = connect(port, LOOPBACK)
  return await new Promise((resolve) => {
    socket.once('connect', () => { resolve(true) })
    socket.once('error', () => { resolve(false) })
  }).finally(() => { socket.destroy() }) as boolean
}

interface Lending { program: Program, port: number }

/**
 * Starts a donor. Its only task tells the node where it listens. Each start of a driver, a `run`, gets a
 * program of its own: with what an earlier one has left in the memory of an rpc-server, a tensor split gives
 * wrong answers. A run that was followed by another gets none. @throws EngineError where that fails
 */
export async function startDonor (
  spec: ModelSpec, env: EngineEnv, parts: EngineParts
): Promise<EngineSession> {
  const { options, threads, backend } = spec
  const { path, flags } = await findDonor(options)
  const start = async (): Promise<Lending> => {
    const port = await freePort()
    const args = donorArguments({ flags, port, threads, backend, split: splitOf(options) })
    const program = new Program({ ...parts, env, name: 'rpc-server', path, args })
    await program.until(async () => await answers(port), POLL_MS)
    program.dieWithIt()
    return { program, port }
  }
  let now = await start()
  let ready = Promise.resolve(now)
  const runs: string[] = []
  const lend = async (run: string): Promise<Lending> => {
    if (runs.includes(run)) {
      if (runs.at(-1) === run) return await ready
      throw new EngineError('instance_lost', 'the driver has started anew since')
    }
    if (runs.push(run) > 1) {
      ready = ready.then(async ({ program }) => {
        await program.close()
        return now = await start()
      })
      // There is nothing to lend any more, and no reason to stay.
      ready.catch((error: unknown) => { parts.die(error as Error) })
    }
    return await ready
  }
  return {
    async warmup () {
      if (!await answers(now.port)) throw new EngineError('provider_error', 'rpc-server does not listen')
    },
    async * run ({ kind, payload }): AsyncGenerator<EngineChunk> {
      if (kind !== 'endpoint') {
        throw new EngineError('invalid_request', `this runner only lends its memory: no task ${kind}`)
      }
      yield { payload: { port: (await lend(textOf(payload['run']))).port } }
    },
    info: () => ({ port: now.port, serverPid: now.program.pid }),
    close: async () => { await now.program.close() }
  }
}
