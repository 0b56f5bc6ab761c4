/** Runs an external program as a child of the runner process. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { EngineError, type EngineEnv } from '../../../kernel/api/engine.js'
import { RateMeter } from '../process/limits.js'
import { processorTicks, processTreeBytes } from '../process/proc.js'
import { withoutPaths } from './errors.js'

/** A clock with timers, which tests replace. */
export interface Clock { now: () => number, pause: (ms: number) => Promise<void> }

export interface EngineParts {
  clock: Clock
  /** Ends the runner process. */
  die: (error: Error) => void
  /** Receives each line of the program's log. */
  echo: (line: string) => void
}

export interface ProgramParts extends EngineParts {
  /** The program's name in messages. */
  name: string
  path: string
  args: readonly string[]
  env: EngineEnv
  /** Variables of the program's environment besides the runner's own. */
  variables?: Readonly<Record<string, string>>
  /** Reason of the error if the program exits before it is ready; `said` is its output. */
  reasonOf?: (said: string) => string
}

export const LOOPBACK = '127.0.0.1'
const CLOSE_MS = 3_000
const MS = 1_000
/** Clock ticks per second in /proc, on every Linux. */
const TICKS = 100
const LINE_CHARS = 500
const KEPT_LINES = 5
/** Limit on the lines per time window that go to the node's log; any more are only counted. */
const LOGGED_LINES = 10
const WINDOW_MS = 10_000
/** Routine lines, about seven per request, dropped because each would pass through three processes. */
const ROUTINE = /^[\d.]+ I slot /
const CAUSE = /\b(error|fail(ed|ure)?|abort(ed)?|assert|exception|fatal|out of memory)\b/i
const ALARMING = RegExp(`\\bwarn(ing)?\\b|${CAUSE.source}`, 'i')

/** Finds a free TCP port on loopback. */
export async function freePort (): Promise<number> {
  const server = createServer().listen(0, LOOPBACK)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/**
 * The environment without the glibc setting for a single heap, which suits Node. llama.cpp allocates and
 * frees memory for each token, and a single heap would return it to the system each time.
 */
function programEnv (): NodeJS.ProcessEnv {
  const { MALLOC_ARENA_MAX: _, ...env } = process.env
  return env
}

/** A child process. It shares the runner's process group, so both are killed together. */
export class Program {
  /** Resolves with a description when the program has ended. */
  readonly ended: Promise<string>
  private readonly child: ChildProcess
  private readonly parts: ProgramParts
  private readonly output: Output
  private readonly startedMs: number
  private end: string | null = null
  private closing = false

  constructor (parts: ProgramParts) {
    const { name, path, args, env, clock, echo, variables } = this.parts = parts
    this.startedMs = clock.now()
    env.log('info', `starting ${name}`, { binary: path, arguments: args.join(' ') })
    const child = this.child = spawn(path, args, {
      stdio: ['ignore', 'pipe', 'pipe'], env: { ...programEnv(), ...variables }
    })
    const output = this.output = new Output((line, leftOut) => {
      env.log('warn', `${name}: ${line}`, leftOut === 0 ? {} : { linesLeftOut: leftOut })
    }, clock.now)
    // All lines go to the runner's log, which has a size limit; warnings and errors go to the node's log too.
    for (const stream of [child.stdout, child.stderr]) {
      const cutter = new LineCutter()
      stream.on('data', (bytes: Uint8Array) => {
        for (const line of cutter.push(bytes).filter((said) => !ROUTINE.test(said))) {
          output.add(line)
          echo(line)
        }
      })
    }
    this.ended = new Promise((resolve) => {
      child.once('error', (error) => { resolve(`could not be started: ${error.message}`) })
      // Wait for `close` instead of `exit`, because output may follow `exit`.
      child.once('close', (code, signal) => {
        resolve(signal === null ? `exited with code ${code}` : `was ended by ${signal}`)
      })
    })
    void this.ended.then((how) => { this.end = how })
  }

  /** The program's last log lines, for operators only; they must not be in errors sent to clients. */
  private get lastLines (): string {
    return this.output.last === '' ? '' : `; its last lines: ${this.output.last}`
  }

  get pid (): number | undefined { return this.child.pid }

  /** CPU time of the program and its descendants; where the system does not tell it, the time since start. */
  get processorSeconds (): number {
    const { clock } = this.parts
    const ticks = this.pid === undefined ? null : processTreeBytes(this.pid, processorTicks)
    return ticks === null ? (clock.now() - this.startedMs) / MS : ticks / TICKS
  }

  /** The lines that report failures, or else the last lines, without paths. */
  get said (): string { return withoutPaths(this.output.causes.join('; ') || this.output.last) }

  /**
   * Polls `ready` until it is true; passes on errors that `ready` throws.
   * @throws EngineError if the program exits first
   */
  async until (ready: () => Promise<boolean>, pauseMs: number): Promise<void> {
    while (!await ready()) {
      const end = await this.endOf(pauseMs)
      if (end === null) continue
      const why = this.output.causes.length === 0 ? this.lastLines : `: ${this.output.causes.join('; ')}`
      throw new EngineError(this.parts.reasonOf?.(why) ?? 'provider_error',
        withoutPaths(`${this.parts.name} ${end}${why}`))
    }
  }

  /** Makes the runner end when the program exits. */
  dieWithIt (): void {
    const { name, die, env } = this.parts
    void this.ended.then((how) => {
      if (this.closing) return
      env.log('error', `${name} ${how}${this.lastLines}`)
      die(new Error(`${name} ${how}`))
    })
  }

  /** Describes how the program ended; null if it is still running after `withinMs`. */
  async endOf (withinMs: number): Promise<string | null> {
    await Promise.race([this.ended, this.parts.clock.pause(withinMs)])
    return this.end
  }

  /** Ends the program with SIGTERM, and with SIGKILL if it does not exit in time. */
  async close (): Promise<void> {
    this.closing = true
    this.child.kill('SIGTERM')
    if (await this.endOf(CLOSE_MS) === null) this.child.kill('SIGKILL')
    await this.ended
  }
}

/** Splits output into lines and truncates them to 500 characters. */
export class LineCutter {
  private readonly decoder = new TextDecoder()
  private rest = ''

  push (bytes: Uint8Array): string[] {
    const lines = (this.rest + this.decoder.decode(bytes, { stream: true })).split(/[\r\n]+/)
    // Keep one extra character, by which `cut` recognizes that the line was truncated.
    this.rest = (lines.pop() as string).slice(0, LINE_CHARS + 1)
    return lines.filter((line) => line !== '').map(cut)
  }
}

const cut = (line: string): string => line.length > LINE_CHARS ? `${line.slice(0, LINE_CHARS)}…` : line

/** Keeps the last lines, and logs warnings and errors at a limited rate. `now` is monotonic time in ms. */
export class Output {
  private readonly log: (line: string, leftOut: number) => void
  private readonly now: () => number
  private readonly kept: string[] = []
  /** The first two lines that report a failure, without timestamps; later ones are usually consequences. */
  readonly causes: string[] = []
  private readonly meter = new RateMeter(LOGGED_LINES, WINDOW_MS)
  private leftOut = 0

  constructor (log: (line: string, leftOut: number) => void, now: () => number) {
    this.log = log
    this.now = now
  }

  add (line: string): void {
    this.kept.push(line)
    if (this.kept.length > KEPT_LINES) this.kept.shift()
    if (this.causes.length < 2 && CAUSE.test(line)) this.causes.push(line.replace(/^[\d.]+ [A-Z] /, ''))
    if (ALARMING.test(line)) this.alarm(line)
  }

  get last (): string { return this.kept.join(' | ') }

  private alarm (line: string): void {
    if (this.meter.admit(this.now())) {
      this.log(line, this.leftOut)
      this.leftOut = 0
    } else this.leftOut++
  }
}
