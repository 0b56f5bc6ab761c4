/**
 * A donor: llama.cpp's rpc-server as a child of the runner process. It lends this machine's memory and work
 * to a server on another node, which reaches it through the node; it listens on this machine only.
 */
import { access } from 'node:fs/promises'
import { connect } from 'node:net'
import { dirname, isAbsolute, join } from 'node:path'
import {
  EngineError, type EngineChunk, type EngineEnv, type EngineSession, type EngineTask, type ModelSpec
} from '../../../kernel/api/engine.js'
import { askHelp, readHelp } from './binary.js'
import { freePort, LOOPBACK, Program, type EngineParts } from './program.js'

/** Looked for where the operator named no other: newer builds have the second name. */
const DEFAULT_PROGRAMS = ['rpc-server', 'ggml-rpc-server']
const NEEDED = ['--host', '--port']
const POLL_MS = 50

/**
 * The programs to try in turn: what SVC_LLAMA_RPC_SERVER_BIN names, which the node has checked; else the one
 * beside the llama-server that SVC_LLAMA_SERVER_BIN names; else those in PATH.
 * @throws EngineError for a path that is not absolute
 */
export async function donorBinariesOf (options: Readonly<Record<string, unknown>>): Promise<string[]> {
  const { donorBinary: given, serverBinary: server } = options
  if (typeof given === 'string' && isAbsolute(given)) return [given]
  if (given !== undefined) {
    throw new EngineError('provider_error',
      `SVC_LLAMA_RPC_SERVER_BIN is ${JSON.stringify(given)}: it takes an absolute path`)
  }
  if (typeof server !== 'string') return DEFAULT_PROGRAMS
  for (const beside of DEFAULT_PROGRAMS.map((name) => join(dirname(server), name))) {
    if (await access(beside).then(() => true, () => false)) return [beside]
  }
  return DEFAULT_PROGRAMS
}

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

/** The first program that is there, and its options. @throws EngineError for none, or no rpc-server */
async function examined ([path, ...others]: string[]): Promise<{ path: string, flags: ReadonlySet<string> }> {
  const absent = 'there is no rpc-server or ggml-rpc-server beside llama-server or in PATH: install ' +
    'llama.cpp built with GGML_RPC, or set SVC_LLAMA_RPC_SERVER_BIN to the absolute path of its ' +
    'rpc-server, and restart svc'
  if (path === undefined) throw new EngineError('provider_error', absent)
  const help = await askHelp(path, isAbsolute(path) ? null : absent).catch((error: Error) => {
    if (error.message !== absent) throw error
  })
  if (help === undefined) return await examined(others)
  const { flags } = readHelp(help)
  const missing = NEEDED.filter((name) => !flags.has(name))
  if (missing.length === 0) return { path, flags }
  throw new EngineError('provider_error', `${path} is no rpc-server of llama.cpp: its --help does not name ` +
    `${missing.join(', ')}. Set SVC_LLAMA_RPC_SERVER_BIN to one and restart svc`)
}

/** Whether somebody listens there. */
async function answers (port: number): Promise<boolean> {
  const socket = connect(port, LOOPBACK)
  return await new Promise((resolve) => {
    socket.once('connect', () => { resolve(true) })
    socket.once('error', () => { resolve(false) })
  }).finally(() => { socket.destroy() }) as boolean
}

/** Starts a donor. @throws EngineError where that fails */
export async function startDonor (
  spec: ModelSpec, env: EngineEnv, parts: EngineParts
): Promise<EngineSession> {
  const { options, threads, backend } = spec
  const { path, flags } = await examined(await donorBinariesOf(options))
  const port = await freePort()
  const args = donorArguments({ flags, port, threads, backend })
  const program = new Program({ ...parts, env, name: 'rpc-server', path, args })
  while (!await answers(port)) {
    const end = await program.endOf(POLL_MS)
    if (end !== null) throw new EngineError('provider_error', `rpc-server ${end}`)
  }
  const session = new DonorSession(program, port)
  void program.ended.then((how) => { if (!session.closing) parts.die(new Error(`rpc-server ${how}`)) })
  return session
}

/** A donor that runs. Its only task tells the node where it listens. */
class DonorSession implements EngineSession {
  closing = false
  private readonly program: Program
  private readonly port: number

  constructor (program: Program, port: number) {
    this.program = program
    this.port = port
  }

  async warmup (): Promise<void> {
    if (!await answers(this.port)) throw new EngineError('provider_error', 'rpc-server does not listen')
  }

  async * run ({ kind }: EngineTask): AsyncGenerator<EngineChunk> {
    if (kind !== 'endpoint') {
      throw new EngineError('invalid_request', `this runner only lends its memory: no task ${kind}`)
    }
    yield { payload: { port: this.port } }
  }

  info (): Record<string, unknown> { return { port: this.port, serverPid: this.program.pid } }

  async close (): Promise<void> {
    this.closing = true
    await this.program.close()
  }
}
