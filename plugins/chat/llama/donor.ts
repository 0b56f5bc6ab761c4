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
import { freePort, LOOPBACK, Program, type EngineParts } from './program.js'

const POLL_MS = 50

/** What a donor is started with. */
export interface DonorOptions { flags: ReadonlySet<string>, port: number, threads: number, backend: string }

/** The arguments for a donor: one device of it, on this machine's own address. */
export function donorArguments ({ flags, port, threads, backend }: DonorOptions): string[] {
  return [
    '--host', LOOPBACK, '--port', String(port),
    ...[
      ['--threads', String(threads)],
      // Of several GPUs the first, as placement counts them; else it would offer each as a device.
      ['--device', backend === 'cpu' ? 'CPU' : `${backend.toUpperCase()}0`]
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

/** Starts a donor. Its only task tells the node where it listens. @throws EngineError where that fails */
export async function startDonor (
  spec: ModelSpec, env: EngineEnv, parts: EngineParts
): Promise<EngineSession> {
  const { options, threads, backend } = spec
  const { path, flags } = await findDonor(options)
  const port = await freePort()
  const args = donorArguments({ flags, port, threads, backend })
  const program = new Program({ ...parts, env, name: 'rpc-server', path, args })
  await program.until(async () => await answers(port), POLL_MS)
  program.dieWithIt()
  return {
    async warmup () {
      if (!await answers(port)) throw new EngineError('provider_error', 'rpc-server does not listen')
    },
    async * run ({ kind }): AsyncGenerator<EngineChunk> {
      if (kind !== 'endpoint') {
        throw new EngineError('invalid_request', `this runner only lends its memory: no task ${kind}`)
      }
      yield { payload: { port } }
    },
    info: () => ({ port, serverPid: program.pid }),
    close: async () => { await program.close() }
  }
}
