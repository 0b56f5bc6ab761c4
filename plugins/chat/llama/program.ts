/** An external program as a child of the runner process: its output, its end. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import type { EngineEnv } from '../../../kernel/api/engine.js'
import { LineCutter, Output } from './output.js'

/** Time as a runner process has it; a test brings its own. */
export interface Clock {
  /** Monotonic, in ms. */
  now: () => number
  pause: (ms: number) => Promise<void>
}

/** What the engine is made of beside its spec. */
export interface EngineParts {
  clock: Clock
  /** Ends the runner: its model is gone. */
  die: (error: Error) => void
  /** Takes the program's own log, line by line. */
  echo: (line: string) => void
}

/** What a program is started with. */
export interface ProgramParts extends Pick<EngineParts, 'clock' | 'echo'> {
  /** What it is called in messages. */
  name: string
  path: string
  args: readonly string[]
  env: EngineEnv
}

export const LOOPBACK = '127.0.0.1'
const CLOSE_MS = 3_000

/** A port of this machine's own address that nobody listens on just now. */
export async function freePort (): Promise<number> {
  const server = createServer().listen(0, LOOPBACK)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** A program that runs, or did. It is in the runner's process group, which is killed as a whole. */
export class Program {
  /** Resolves to what happened when the program has ended. */
  readonly ended: Promise<string>
  private readonly child: ChildProcess
  private readonly clock: Clock
  private end: string | null = null

  constructor ({ name, path, args, env, clock, echo }: ProgramParts) {
    this.clock = clock
    env.log('info', `starting ${name}`, { binary: path, arguments: args.join(' ') })
    const child = this.child = spawn(path, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    const output = new Output((line, leftOut) => {
      env.log('warn', `${name}: ${line}`, leftOut === 0 ? {} : { linesLeftOut: leftOut })
    }, clock.now)
    // The program's own log goes to the runner's, which is bounded; what looks bad also to the node's.
    for (const stream of [child.stdout, child.stderr]) {
      const cutter = new LineCutter()
      stream.on('data', (bytes: Uint8Array) => {
        for (const line of cutter.push(bytes)) {
          output.add(line)
          echo(line)
        }
      })
    }
    this.ended = new Promise((resolve) => {
      child.once('error', (error) => { resolve(`could not be started: ${error.message}`) })
      // Not `exit`: its last words are still to be read then.
      child.once('close', (code, signal) => {
        const how = signal === null ? `exited with code ${code}` : `was ended by ${signal}`
        resolve(output.last === '' ? how : `${how}; its last lines: ${output.last}`)
      })
    })
    void this.ended.then((how) => { this.end = how })
  }

  get pid (): number | undefined { return this.child.pid }

  /** How the program has ended; null while it has not, also a moment later. */
  async endOf (withinMs: number): Promise<string | null> {
    await Promise.race([this.ended, this.clock.pause(withinMs)])
    return this.end
  }

  /** Ends the program: by asking, then by force. */
  async close (): Promise<void> {
    this.child.kill('SIGTERM')
    if (await this.endOf(CLOSE_MS) === null) this.child.kill('SIGKILL')
    await this.ended
  }
}
