/**
 * A llama.cpp server as a child of the runner process: its start, its health, its end. It is in the runner's
 * process group, which is killed as a whole when the runner ends, however it ends.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { EngineError, type EngineEnv } from '../../../kernel/engine.js'
import { serverArguments, type StartOptions } from './arguments.js'
import type { Binary } from './binary.js'
import { Client, type Address } from './http.js'
import { LineCutter, Output } from './output.js'

/** Time as a runner process has it; a test brings its own. */
export interface Pulse {
  /** Monotonic, in ms. */
  now: () => number
  pause: (ms: number) => Promise<void>
}

/** What a server is made of, beside its address and key, which are made here. */
export interface ServerParts extends Omit<StartOptions, 'flags' | 'address' | 'keyFile'> {
  binary: Binary
  modelId: string
  /** Bytes of the model's files: the server has about as much in memory when it is ready. */
  modelBytes: number
  env: EngineEnv
  pulse: Pulse
  /** Takes the server's own log, line by line. */
  echo: (line: string) => void
}

/** In the runner's own folder, which is its working folder: the path of a socket has to be short. */
const SOCKET = 'llama.sock'
const KEY_FILE = 'llama.key'
const KEY_BYTES = 32
const LOOPBACK = '127.0.0.1'
const POLL_MS = 100
const CLOSE_MS = 3_000
const KIB = 1024

async function freePort (): Promise<number> {
  const server = createServer().listen(0, LOOPBACK)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** A line of `/proc/<pid>/status` in bytes; 0 where there is none. */
async function memory (pid: number | undefined, name: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * KIB
}

/** A server that runs, or did. */
export class LlamaServer {
  readonly client: Client
  /** Resolves to what happened when the server has ended. */
  readonly ended: Promise<string>
  private readonly child: ChildProcess
  private readonly parts: ServerParts
  private readonly output: Output
  private end: string | null = null
  /** Its end was asked for. */
  closing = false

  private constructor (child: ChildProcess, client: Client, parts: ServerParts) {
    this.child = child
    this.client = client
    this.parts = parts
    const { env, pulse } = parts
    this.output = new Output((line, leftOut) => {
      env.log('warn', `llama-server: ${line}`, leftOut === 0 ? {} : { linesLeftOut: leftOut })
    }, pulse.now)
    this.listen()
    this.ended = new Promise(resolve => {
      child.once('error', error => { resolve(`could not be started: ${error.message}`) })
      // Not `exit`: its last words are still to be read then.
      child.once('close', (code, signal) => {
        const how = signal === null ? `exited with code ${code}` : `was ended by ${signal}`
        resolve(this.output.last === '' ? how : `${how}; its last lines: ${this.output.last}`)
      })
    })
    void this.ended.then(how => { this.end = how })
  }

  /** Starts a server. It does not listen yet. */
  static async start (parts: ServerParts): Promise<LlamaServer> {
    const { binary, modelId, env } = parts
    const key = randomBytes(KEY_BYTES).toString('hex')
    await Promise.all([SOCKET, KEY_FILE].map(async path => { await rm(path, { force: true }) }))
    await writeFile(KEY_FILE, `${key}\n`, { mode: 0o600 })
    const address: Address = binary.sockets
      ? { socketPath: SOCKET }
      : { host: LOOPBACK, port: await freePort() }
    const args = serverArguments({ ...parts, flags: binary.flags, address, keyFile: KEY_FILE })
    env.log('info', 'starting llama-server', { binary: binary.path, arguments: args.join(' ') })
    const child = spawn(binary.path, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    return new LlamaServer(child, new Client(address, key, modelId), parts)
  }

  get pid (): number | undefined { return this.child.pid }

  /** The most memory it has had, in bytes; 0 where the system does not tell. */
  async peakBytes (): Promise<number> { return await memory(this.pid, 'VmHWM') }

  /** Waits until the model is loaded, reporting how far that is. @throws EngineError when the server ends */
  async ready (): Promise<void> {
    const { env, pulse, modelBytes } = this.parts
    const total = Math.max(modelBytes, 1)
    while (!await this.client.healthy()) {
      await Promise.race([this.ended, pulse.pause(POLL_MS)])
      if (this.end !== null) throw new EngineError('provider_error', `llama-server ${this.end}`)
      env.progress(Math.min(await memory(this.pid, 'VmRSS'), total - 1), total)
    }
    await rm(KEY_FILE, { force: true })
    env.progress(total, total)
  }

  /** How the server has ended; null while it has not, also a moment later. */
  async endOf (withinMs: number): Promise<string | null> {
    await Promise.race([this.ended, this.parts.pulse.pause(withinMs)])
    return this.end
  }

  /** Ends the server: by asking, then by force. */
  async close (): Promise<void> {
    this.closing = true
    this.client.close()
    this.child.kill('SIGTERM')
    if (await this.endOf(CLOSE_MS) === null) this.child.kill('SIGKILL')
    await this.ended
    await rm(SOCKET, { force: true })
  }

  /** The server's own log goes to the runner's, which is bounded; what looks bad also to the node's. */
  private listen (): void {
    for (const stream of [this.child.stdout, this.child.stderr]) {
      const cutter = new LineCutter()
      stream?.on('data', (bytes: Uint8Array) => {
        for (const line of cutter.push(bytes)) {
          this.output.add(line)
          this.parts.echo(line)
        }
      })
    }
  }
}
