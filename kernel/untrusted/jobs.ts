/**
 * Runs jobs on untrusted input (model files, request schemas) in a child process. A worker thread is not
 * enough: V8 aborts the whole process if a thread at its heap limit needs one more large allocation.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { systemClock } from '../api/clock.js'
import { noInspector } from '../boot/inspector.js'

export interface JobBounds {
  /** Time limit of one job in ms of wall time. */
  deadlineMs: number
  /** JavaScript heap limit in MiB; the process may use as much again outside the heap. */
  heapMib: number
  /** Maximum size of the result in bytes of JSON. */
  resultBytes: number
  /** Limits on queued jobs, in total and per caller. */
  waiting: number
  waitingOfOne: number
}

/** A call to an exported function of a module. Arguments and result are JSON. */
export interface Job {
  module: string
  name: string
  args: readonly unknown[]
  /** Subject for error messages, such as `making its card`. */
  what: string
}

export type JobMessage = Omit<Job, 'what'> & Pick<JobBounds, 'resultBytes'>
export type JobReply =
  { kind: 'begins' } | { kind: 'result', json: string } | { kind: 'failed', message: string } |
  { kind: 'too_large', bytes: number }

export type JobProblem = 'failed' | 'deadline' | 'memory' | 'too_large' | 'ended' | 'overloaded' | 'closed'

/** Error of a job without a result: the job threw (`failed`) or exceeded a limit. */
export class JobError extends Error {
  override readonly name = 'JobError'
  readonly reason: JobProblem

  constructor (reason: JobProblem, message: string) {
    super(message)
    this.reason = reason
  }
}

/** Time limit in ms for loading a job's module. */
const LOAD_MS = 20_000
/** Milliseconds after which an idle process is stopped to free its memory. */
const IDLE_MS = 30_000
const ENTRY = new URL('./process.js', import.meta.url).href

const closed = ({ what }: Job): JobError => new JobError('closed', `${what} was stopped: the node stops`)

interface Waiting { job: Job, resolve: (json: string) => void, reject: (error: JobError) => void }

/** Runs jobs one at a time in a child process. Callers with queued jobs take turns. */
export class UntrustedJobs {
  readonly #bounds: JobBounds
  readonly #waiting = new Map<string, Waiting[]>()
  #running: Waiting | null = null
  #child: ChildProcess | null = null
  #stopTimer = (): void => {}
  #closed = false

  constructor (bounds: JobBounds) { this.#bounds = bounds }

  /** Pid of the child process; undefined before the first job and after an idle period. */
  get pid (): number | undefined { return this.#child?.pid }

  /** Throws JobError. */
  async run<T> (job: Job, caller: string): Promise<T> {
    const { waiting, waitingOfOne } = this.#bounds
    const own = this.#waiting.get(caller) ?? []
    const all = [...this.#waiting.values()].reduce((sum, { length }) => sum + length, 0)
    if (this.#closed) throw closed(job)
    if (all >= waiting || own.length >= waitingOfOne) {
      throw new JobError('overloaded', `${job.what} would wait for ${all} others, ${own.length} of this ` +
        `caller; at most ${waiting} and ${waitingOfOne} may wait: try again in a moment`)
    }
    const json = await new Promise<string>((resolve, reject) => {
      own.push({ job, resolve, reject })
      this.#waiting.set(caller, own)
      this.#next()
    })
    return JSON.parse(json) as T
  }

  /** Rejects the running job and all queued jobs. */
  close (): void {
    this.#closed = true
    const left = [...this.#waiting.values()].flat()
    this.#waiting.clear()
    for (const { job, reject } of left) reject(closed(job))
    this.#kill('closed')
  }

  #next (): void {
    const [first] = this.#waiting
    if (this.#running !== null || first === undefined) return
    const [caller, [next, ...others]] = first
    this.#waiting.delete(caller)
    if (others.length > 0) this.#waiting.set(caller, others)
    this.#running = next!
    const child = this.#child ??= this.#start()
    child.ref()
    child.channel?.ref()
    this.#within(LOAD_MS)
    const { module, name, args } = next!.job
    child.send({ module, name, args, resultBytes: this.#bounds.resultBytes } satisfies JobMessage, () => {})
  }

  #start (): ChildProcess {
    const { heapMib } = this.#bounds
    const loaders = process.execArgv.filter((flag) => flag.startsWith('--import='))
    // `ulimit -c 0` keeps an abort from writing a core file; `exec` replaces the shell with Node.
    const child = spawn('/bin/sh', ['-c', 'ulimit -c 0; exec "$0" "$@"', process.execPath, ...loaders,
      ...noInspector(), '--no-warnings', `--max-old-space-size=${heapMib}`, '--max-semi-space-size=8',
      '-e', 'import(process.argv[1])', ENTRY, String(2 * heapMib)],
    { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], env: {} })
    const current = (): boolean => this.#child === child
    child.on('message', (reply: JobReply) => { if (current()) this.#took(reply) })
    child.on('error', ({ message }) => { if (current()) this.#gone(message) })
    child.on('exit', (code, signal) => { if (current()) this.#gone(signal ?? `code ${code}`) })
    return child
  }

  #took (reply: JobReply): void {
    const { deadlineMs, resultBytes } = this.#bounds
    if (this.#running === null) return
    const { job: { what } } = this.#running
    switch (reply.kind) {
      case 'begins': this.#within(deadlineMs); break
      case 'result': this.#end(reply.json); break
      case 'failed': this.#end(new JobError('failed', reply.message)); break
      case 'too_large':
        this.#end(new JobError('too_large',
          `${what} returned ${reply.bytes} bytes, more than ${resultBytes}`))
    }
  }

  /** Rejects the running job. SIGABRT (from V8) or SIGKILL means that the job exceeded its memory limit. */
  #gone (how: string): void {
    this.#child = null
    if (this.#running === null) return
    const { job: { what } } = this.#running
    this.#end(/^SIG(ABRT|KILL)$/.test(how)
      ? new JobError('memory', `${what} needed more than ${this.#bounds.heapMib} MiB of memory`)
      : new JobError('ended', `${what} ended its process (${how})`))
  }

  /** Restarts the deadline of the running job. */
  #within (ms: number): void {
    this.#stopTimer()
    this.#stopTimer = systemClock.after(ms, () => { this.#kill('deadline', ms) })
  }

  #kill (reason: 'deadline' | 'closed', ms = 0): void {
    this.#child?.kill('SIGKILL')
    this.#child = null
    if (this.#running === null) return
    const { job } = this.#running
    this.#end(reason === 'closed' ? closed(job)
      : new JobError(reason, `${job.what} took longer than ${ms / 1000} s`))
  }

  #end (how: string | JobError): void {
    const { resolve, reject } = this.#running!
    this.#running = null
    this.#child?.unref()
    this.#child?.channel?.unref()
    this.#stopTimer()
    this.#stopTimer = systemClock.after(IDLE_MS, () => { this.#kill('closed') })
    if (typeof how === 'string') resolve(how)
    else reject(how)
    this.#next()
  }
}
