/**
 * A donor runs llama.cpp's rpc-server as a child of the runner process, so that a llama-server on another
 * node can use this machine's memory and processors. The rpc-server listens on loopback only; the nodes
 * forward the connection.
 */
import { connect } from 'node:net'
import {
  EngineError, type EngineChunk, type EngineEnv, type EngineSession, type ModelSpec
} from '../../../kernel/api/engine.js'
import { findDonor } from './binary.js'
import { textOf } from '../../runners/language/json.js'
import { deviceName, devicesOf, splitOf, type LayerShare } from './command-line.js'
import { freePort, LOOPBACK, Program, type EngineParts } from '../../runners/openai/program.js'

const POLL_MS = 50

export interface DonorOptions {
  flags: ReadonlySet<string>, port: number, threads: number, backend: string
  /** How the donor's layers are divided among its devices; null for a single device. */
  split?: LayerShare | null
}

export function donorArguments ({ flags, port, threads, backend, split }: DonorOptions): string[] {
  const devices = devicesOf(split ?? { layers: 1 })
  const names = devices.map(({ gpu }) => gpu === null ? 'CPU' : deviceName(backend, gpu))
  return [
    '--host', LOOPBACK, '--port', String(port),
    ...[
      ['--threads', String(threads)],
      // Name exactly the devices in the plan, because the driver assigns a share to each named device.
      ['--device', backend === 'cpu' ? 'CPU' : names.join(',')]
    ].filter(([name]) => flags.has(name as string)).flat()
  ]
}

async function answers (port: number): Promise<boolean> {
  const socket = connect(port, LOOPBACK)
  return await new Promise((resolve) => {
    socket.once('connect', () => { resolve(true) })
    socket.once('error', () => { resolve(false) })
  }).finally(() => { socket.destroy() }) as boolean
}

interface RpcProcess { program: Program, port: number }

/**
 * Starts a donor, whose only task returns its port. Each start of a driver (`run`) gets a fresh rpc-server,
 * because data left in its memory by an earlier driver makes a tensor split compute wrong answers. @throws
 * EngineError if the start fails, or if a newer run has replaced this one
 */
export async function startDonor (
  spec: ModelSpec, env: EngineEnv, parts: EngineParts
): Promise<EngineSession> {
  const { options, threads, backend } = spec
  const { path, flags } = await findDonor(options)
  const start = async (): Promise<RpcProcess> => {
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
  const serverFor = async (run: string): Promise<RpcProcess> => {
    if (runs.includes(run)) {
      if (runs.at(-1) === run) return await ready
      throw new EngineError('instance_lost', 'the driver has restarted since')
    }
    if (runs.push(run) > 1) {
      ready = ready.then(async ({ program }) => {
        await program.close()
        return now = await start()
      })
      // Without an rpc-server this runner is useless, so end it.
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
        throw new EngineError('invalid_request', `this runner is a donor and has no task ${kind}`)
      }
      yield { payload: { port: (await serverFor(textOf(payload['run']))).port } }
    },
    info: () => ({ port: now.port, serverPid: now.program.pid }),
    close: async () => { await now.program.close() }
  }
}
