/** A llama.cpp server as a child of the runner process. */
import { randomBytes } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import type { EngineEnv, EngineSession } from '../../../kernel/api/engine.js'
import type { Binary } from './binary.js'
import { serverError, startReason } from './errors.js'
import { serverArguments, type StartOptions } from './command-line.js'
import { Client, type Address } from '../../runners/openai/client.js'
import { freePort, LOOPBACK, Program, type EngineParts } from '../../runners/openai/program.js'

export interface ServerParts extends Omit<StartOptions, 'flags' | 'address' | 'keyFile'>, EngineParts {
  binary: Binary
  modelId: string
  /** Size of the model's files in bytes, which approximates the memory of a server that is ready. */
  modelBytes: number
  env: EngineEnv
  /** The rpc-server that runs this node's rank of a tensor split; it is closed together with the server. */
  own?: EngineSession | null
}

/** Socket path, relative to the working folder because the length of socket paths is limited. */
const NAME = 'llama-server'
const SOCKET = 'llama.sock'
const KEY_FILE = 'llama.key'
const KEY_BYTES = 32
const POLL_MS = 100
const KIB = 1024

/** A memory size in bytes from `/proc/<pid>/status`; 0 if unavailable. */
async function memory (pid: number | undefined, name: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * KIB
}

export class LlamaServer {
  readonly client: Client
  readonly program: Program
  private readonly parts: ServerParts

  private constructor (program: Program, client: Client, parts: ServerParts) {
    this.program = program
    this.client = client
    this.parts = parts
  }

  /** Starts the server; resolves before the server listens (see `ready`). */
  static async start (parts: ServerParts): Promise<LlamaServer> {
    const { binary, modelId } = parts
    const key = randomBytes(KEY_BYTES).toString('hex')
    await Promise.all([SOCKET, KEY_FILE].map(async (path) => { await rm(path, { force: true }) }))
    await writeFile(KEY_FILE, `${key}\n`, { mode: 0o600 })
    const address: Address = binary.sockets
      ? { socketPath: SOCKET }
      : { host: LOOPBACK, port: await freePort() }
    const args = serverArguments({ ...parts, flags: binary.flags, address, keyFile: KEY_FILE })
    const program = new Program({ ...parts, name: NAME, path: binary.path, args, reasonOf: startReason })
    return new LlamaServer(program, new Client({
      address, name: NAME, key, toError: (body, status) => serverError(body, modelId, status)
    }), parts)
  }

  /** Peak memory in bytes; 0 if unavailable. */
  async peakBytes (): Promise<number> { return await memory(this.program.pid, 'VmHWM') }

  /** Waits until the model is loaded, and reports progress. @throws EngineError if the server exits */
  async ready (): Promise<void> {
    const { client, program, parts: { env, modelBytes } } = this
    const total = Math.max(modelBytes, 1)
    await program.until(async () => {
      if (await client.healthy()) return true
      env.progress(Math.min(await memory(program.pid, 'VmRSS'), total - 1), total)
      return false
    }, POLL_MS)
    await rm(KEY_FILE, { force: true })
    env.progress(total, total)
  }

  async close (): Promise<void> {
    this.client.close()
    await this.program.close()
    await this.parts.own?.close?.()
    await rm(SOCKET, { force: true })
  }
}
