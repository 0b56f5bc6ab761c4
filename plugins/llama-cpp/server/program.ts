/** An external program as a child of the runner process: its start, its output, its end. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import type { EngineEnv } from '../../../kernel/api/engine.js'
import { startError } from './errors.js'

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

export interface ProgramParts extends EngineParts {
  /** What it is called in messages. */
  name: string
  path: string
  args: readonly string[]
  env: EngineEnv
}

export const LOOPBACK = '127.0.0.1'
const CLOSE_MS = 3_000
const LINE_CHARS = 500
const KEPT_LINES = 5
/** Lines for the node's log in each window; the rest is counted. */
const LOGGED_LINES = 10
const WINDOW_MS = 10_000
/** What a server tells of every answer: seven lines, which would go through three processes to a file. */
const ROUTINE = /^[\d.]+ I slot /
const CAUSE = /\b(error|fail(ed|ure)?|abort(ed)?|assert|exception|fatal|out of memory)\b/i
const ALARMING = RegExp(`\\bwarn(ing)?\\b|${CAUSE.source}`, 'i')

/** A port of the loopback address that is free just now. */
export async function freePort (): Promise<number> {
  const server = createServer().listen(0, LOOPBACK)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/**
 * The runner's environment without what tells glibc to keep one heap, which is for Node: llama.cpp takes and
 * gives back some memory for each token, and that heap then asks the system anew each time.
 */
function programEnv (): NodeJS.ProcessEnv {
  const { MALLOC_ARENA_MAX: _, ...env } = process.env
  return env
}

/** A program that runs, or did. It is in the runner's process group, which is killed as a whole. */
export class Program {
  /** Resolves to what happened when the program has ended. */
  readonly ended: Promise<string>
  private readonly child: ChildProcess
  private readonly parts: ProgramParts
  private readonly output: Output
  private end: string | null = null
  private closing = false

  constructor (parts: ProgramParts) {
    const { name, path, args, env, clock, echo } = this.parts = parts
    env.log('info', `starting ${name}`, { binary: path, arguments: args.join(' ') })
    const child = this.child = spawn(path, args, { stdio: ['ignore', 'pipe', 'pipe'], env: programEnv() })
    const output = this.output = new Output((line, leftOut) => {
      env.log('warn', `${name}: ${line}`, leftOut === 0 ? {} : { linesLeftOut: leftOut })
    }, clock.now)
    // The program's own log goes to the runner's, which is bounded; what looks bad also to the node's.
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
      // Not `exit`: there may be output to read after that.
      child.once('close', (code, signal) => {
        resolve(signal === null ? `exited with code ${code}` : `was ended by ${signal}`)
      })
    })
    void this.ended.then((how) => { this.end = how })
  }

  /** The last of its own log, for those who operate the node: no error of a request has it. */
  private get lastLines (): string {
    return this.output.last === '' ? '' : `; its last lines: ${this.output.last}`
  }

  get pid (): number | undefined { return this.child.pid }

  /**
   * Waits until it is ready, asking after each pause.
   * @throws what `startError` makes when the program ends before, and what `ready` throws
   */
  async until (ready: () => Promise<boolean>, pauseMs: number): Promise<void> {
    while (!await ready()) {
      const end = await this.endOf(pauseMs)
      if (end === null) continue
      const why = this.output.causes.length === 0 ? this.lastLines : `: ${this.output.causes.join('; ')}`
      throw startError(`${this.parts.name} ${end}${why}`)
    }
  }

  /** From now on the runner ends with the program, unless that is closed. */
  dieWithIt (): void {
    const { name, die, env } = this.parts
    void this.ended.then((how) => {
      if (this.closing) return
      env.log('error', `${name} ${how}${this.lastLines}`)
      die(new Error(`${name} ${how}`))
    })
  }

  /** How the program has ended; null while it has not, also a moment later. */
  async endOf (withinMs: number): Promise<string | null> {
    await Promise.race([this.ended, this.parts.clock.pause(withinMs)])
    return this.end
  }

  /** Ends the program: by asking, then by force. */
  async close (): Promise<void> {
    this.closing = true
    this.child.kill('SIGTERM')
    if (await this.endOf(CLOSE_MS) === null) this.child.kill('SIGKILL')
    await this.ended
  }
}

/** Cuts output into lines, long ones into their first 500 characters. */
export class LineCutter {
  private readonly decoder = new TextDecoder()
  private rest = ''

  push (bytes: Uint8Array): string[] {
    const lines = (this.rest + this.decoder.decode(bytes, { stream: true })).split(/[\r\n]+/)
    // One character more than is kept shows that the line is too long.
    this.rest = (lines.pop() as string).slice(0, LINE_CHARS + 1)
    return lines.filter((line) => line !== '').map(cut)
  }
}

const cut = (line: string): string => line.length > LINE_CHARS ? `${line.slice(0, LINE_CHARS)}…` : line

/** Keeps the last lines, and hands alarming ones to a log, a few at a time. `now` is monotonic, in ms. */
export class Output {
  private readonly log: (line: string, leftOut: number) => void
  private readonly now: () => number
  private readonly kept: string[] = []
  /** The first two lines with words of a failure, without their times; others are what came of it. */
  readonly causes: string[] = []
  private since = -Infinity
  private logged = 0
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
    const now = this.now()
    if (now - this.since >= WINDOW_MS) {
      this.since = now
      this.logged = 0
    }
    if (++this.logged > LOGGED_LINES) {
      this.leftOut++
      return
    }
    this.log(line, this.leftOut)
    this.leftOut = 0
  }
}
