import type { Dispatcher } from 'undici'
import {
  backoffMs, deadline, delay, outgoingDispatcher, type Clock, type Logger
} from '../../kernel/index.js'
import type { ShippingStats } from './service.js'

const LIMITS = {
  /** Limits on the queue, beyond which the oldest lines are dropped. */
  queuedLines: 10_000,
  queuedBytes: 4 * 1024 ** 2,
  sendTimeoutMs: 10_000,
  /** Limit on the time that `close()` spends on sending queued lines. */
  closeMs: 2000
}
/** Limits on the lines and bytes of one request. */
const MAX_BATCH_LINES = 500
const MAX_BATCH_BYTES = 512 * 1024
/** A longer line is dropped, because receivers would refuse it. */
const MAX_LINE_BYTES = 256 * 1024
const RETRY = { minMs: 1000, maxMs: 60_000 }
/** Upper bound for the receiver's Retry-After. */
const MAX_RETRY_AFTER_MS = 300_000
/** Milliseconds to wait for more lines, so that they share a request. */
const LINGER_MS = 250
/** Limit on the bytes read from a response body, whose content is ignored. */
const MAX_ANSWER = 16 * 1024

export interface ShipperOptions {
  url: string
  clock: Clock
  /** Random number, uniform in [0, 1). */
  random: () => number
  log: Pick<Logger, 'warn'>
  limits?: Partial<typeof LIMITS>
}

/** The outcome of a request: null if the receiver took the batch. It is dropped if `refused`, else resent. */
export type Failure = { readonly problem: string, readonly refused: boolean, readonly waitMs: number } | null

/** The failure in a response, or null. `retryAfter`: seconds or a date; `waitMs`: at most 5 minutes. Pure. */
export function failureOf (status: number, retryAfter: string, nowMs: number): Failure {
  if (status >= 200 && status < 300) return null
  const redirect = status >= 300 && status < 400 ? ': redirects are not followed' : ''
  const ms = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1000 : Date.parse(retryAfter) - nowMs
  return {
    problem: `it answered ${status}${redirect}`, refused: [400, 413, 422].includes(status),
    waitMs: Number.isNaN(ms) ? 0 : Math.min(MAX_RETRY_AFTER_MS, ms)
  }
}

/** Posts JSON lines without delaying the node; retries with growing pauses. */
export class LogShipper {
  readonly #options: ShipperOptions
  readonly #limits: typeof LIMITS
  // Created only if lines are shipped: loading undici takes a tenth of the start-up time.
  readonly #agent: Promise<Dispatcher> = outgoingDispatcher('named', { connections: 1, pipelining: 1 })

  /** Abort pauses between attempts (`#stop`), and requests in progress (`#cut`). */
  readonly #stop = new AbortController()
  readonly #cut = new AbortController()
  /** Lines of the current request, until the receiver has taken or refused them. */
  #batch: string[] = []
  #queue: string[] = []
  /** Bytes of the batch and the queue. */
  #bytes = 0
  #running: Promise<void> | null = null
  #closing: Promise<void> | null = null
  #sent = 0
  #dropped = 0
  #reportedDropped = 0
  #failures = 0
  #problem: string | null = null
  #lastSentAt: string | null = null

  constructor (options: ShipperOptions) {
    this.#options = options
    this.#limits = { ...LIMITS, ...options.limits }
  }

  get shipping (): ShippingStats {
    return {
      sent: this.#sent, dropped: this.#dropped, waiting: this.#waiting, waitingBytes: this.#bytes,
      failures: this.#failures, problem: this.#problem, lastSentAt: this.#lastSentAt
    }
  }

  get #waiting (): number { return this.#batch.length + this.#queue.length }

  /** Queues a line; drops the oldest ones when the queue is full. */
  push (line: string): void {
    if (this.#closing !== null) return
    const size = Buffer.byteLength(line)
    if (size > MAX_LINE_BYTES) {
      this.#dropped += 1
      return
    }
    this.#queue.push(line)
    this.#bytes += size
    const { queuedLines, queuedBytes } = this.#limits
    while (this.#waiting > queuedLines || this.#bytes > queuedBytes) {
      this.#bytes -= Buffer.byteLength(this.#queue.shift()!)
      this.#dropped += 1
    }
    this.#running ??= this.#run()
  }

  /** Sends the queued lines for at most 2 s, then stops. */
  close (): Promise<void> {
    this.#closing ??= this.#finish()
    return this.#closing
  }

  async #run (): Promise<void> {
    await this.#pause(LINGER_MS)
    while (this.#waiting > 0 && this.#closing === null) await this.#pause(await this.#step())
    // Do not await anything after finding the queue empty, so that the next line starts a new run.
    this.#running = null
  }

  async #finish (): Promise<void> {
    this.#stop.abort()
    const { clock } = this.#options
    const done = clock.after(this.#limits.closeMs, () => { this.#cut.abort() })
    await this.#running
    while (this.#waiting > 0 && !this.#cut.signal.aborted) if (await this.#step() > 0) break
    done()
    await (await this.#agent).destroy()
  }

  async #pause (ms: number): Promise<void> {
    if (ms > 0) await delay(this.#options.clock, ms, this.#stop.signal).catch(() => {})
  }

  /** Sends a batch: the previous one if it failed. Returns the pause before the next request in ms. */
  async #step (): Promise<number> {
    if (this.#batch.length === 0) this.#batch = this.#take()
    const text = this.#batch.join('')
    const failure = await this.#send(text)
    if (failure === null) this.#sent += this.#batch.length
    else if (failure.refused) this.#dropped += this.#batch.length
    if (failure === null || failure.refused) {
      this.#batch = []
      this.#bytes -= Buffer.byteLength(text)
    }
    return this.#report(failure)
  }

  #take (): string[] {
    let [count, bytes] = [0, 0]
    for (const line of this.#queue.slice(0, MAX_BATCH_LINES)) {
      bytes += Buffer.byteLength(line)
      if (count > 0 && bytes > MAX_BATCH_BYTES) break
      count += 1
    }
    return this.#queue.splice(0, count)
  }

  #report (failure: Failure): number {
    const { clock, random, log } = this.#options
    const failures = this.#failures
    this.#problem = failure?.problem ?? null
    if (failure !== null) {
      this.#failures += 1
      if (failures === 0) {
        log.warn({ problem: failure.problem },
          'cannot ship log lines to logging.ingest_url; a full queue drops the oldest lines')
      }
      return Math.max(failure.waitMs, backoffMs(this.#failures, RETRY, random()))
    }
    this.#failures = 0
    this.#lastSentAt = new Date(clock.now()).toISOString()
    const dropped = this.#dropped - this.#reportedDropped
    // While lines keep overflowing the queue, report the drops once at the end, not with every batch.
    if (failures > 0 || (dropped > 0 && this.#queue.length === 0)) {
      this.#reportedDropped = this.#dropped
      log.warn({ failures, dropped }, 'log lines are shipped again')
    }
    return 0
  }

  async #send (body: string): Promise<Failure> {
    const { clock, url } = this.#options
    const { sendTimeoutMs } = this.#limits
    const late = new Error(`no response within ${sendTimeoutMs} ms`)
    const { signal, stop } = deadline(clock, sendTimeoutMs, () => late, this.#cut.signal)
    try {
      const { origin, pathname, search } = new URL(url)
      const answer = await (await this.#agent).request({
        origin, path: `${pathname}${search}`, method: 'POST', body,
        headers: { 'content-type': 'application/x-ndjson' }, signal
      })
      // Ignore errors while reading the body, because only the status matters.
      await answer.body.dump({ limit: MAX_ANSWER }).catch(() => {})
      return failureOf(answer.statusCode, String(answer.headers['retry-after']), clock.now())
    } catch (error) {
      // Omit the receiver's URL, because its path or query may contain a secret.
      const { code, message } = error as NodeJS.ErrnoException
      const reason = this.#cut.signal.aborted ? 'the node is stopping' : code ?? message
      const problem = signal.reason === late ? late.message : reason
      return { problem, refused: false, waitMs: 0 }
    } finally {
      stop()
    }
  }
}
