import type { Dispatcher } from 'undici'
import { delay, outgoingDispatcher, type Clock, type Logger } from '../../kernel/index.js'
import type { ShippingStats } from './service.js'

/** Limits on the queue, beyond which the oldest lines are dropped. */
const MAX_QUEUED_LINES = 10_000
const MAX_QUEUED_BYTES = 4 * 1024 ** 2
/** Limits on the lines and bytes of one request. */
const MAX_BATCH_LINES = 500
const MAX_BATCH_BYTES = 512 * 1024
/** A longer line is dropped, because receivers would refuse it. */
const MAX_LINE_BYTES = 256 * 1024
const FIRST_RETRY_MS = 1000
const LAST_RETRY_MS = 60_000
/** Upper bound for the receiver's Retry-After. */
const MAX_RETRY_AFTER_MS = 300_000
const SEND_TIMEOUT_MS = 10_000
/** Milliseconds to wait for more lines, so that they share a request. */
const LINGER_MS = 250
/** Limit in ms on the time that `close()` spends on sending queued lines. */
const CLOSE_MS = 2000
/** Limit on the bytes read from a response body, whose content is ignored. */
const MAX_ANSWER = 16 * 1024

export interface ShipperOptions {
  url: string
  clock: Clock
  /** Random number, uniform in [0, 1). */
  random: () => number
  log: Pick<Logger, 'warn'>
  limits?: Partial<ShipLimits>
}

export interface ShipLimits {
  queuedLines: number
  queuedBytes: number
  sendTimeoutMs: number
  closeMs: number
}

export type Answer = { readonly status: number, readonly retryAfter?: string } | { readonly error: string }

/** What happens to a batch after the response: delivered, dropped (`refused`) or resent after a pause. */
export type Verdict = 'taken' | 'refused' | 'later'

export function classifyResponse (answer: Answer): Verdict {
  if ('error' in answer) return 'later'
  const { status } = answer
  if (status >= 200 && status < 300) return 'taken'
  return status === 400 || status === 413 || status === 422 ? 'refused' : 'later'
}

/**
 * Pause in ms before the next attempt: a random 50 to 100% of a delay that doubles up to a minute, or the
 * receiver's Retry-After (seconds or a date, at most five minutes) if that is longer. Pure.
 */
export function pauseMs (failures: number, chance: number, retryAfter?: string, nowMs = 0): number {
  const full = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.max(0, failures - 1))
  return Math.max(full * (0.5 + chance / 2), Math.min(MAX_RETRY_AFTER_MS, retryAfterMs(retryAfter, nowMs)))
}

function retryAfterMs (retryAfter: string | undefined, nowMs: number): number {
  if (retryAfter === undefined) return 0
  if (/^\d{1,9}$/.test(retryAfter)) return Number(retryAfter) * 1000
  const date = Date.parse(retryAfter)
  return Number.isNaN(date) ? 0 : Math.max(0, date - nowMs)
}

/** Posts JSON lines without delaying the node; retries with growing pauses. */
export class LogShipper {
  readonly #options: ShipperOptions
  readonly #limits: ShipLimits
  // Created only if lines are shipped: loading undici takes a tenth of the start-up time.
  readonly #agent: Promise<Dispatcher> = outgoingDispatcher('named', { connections: 1, pipelining: 1 })

  /** Abort pauses between attempts (`#stop`), and requests in progress (`#cut`). */
  readonly #stop = new AbortController()
  readonly #cut = new AbortController()
  #queue: string[] = []
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
    this.#limits = {
      queuedLines: MAX_QUEUED_LINES, queuedBytes: MAX_QUEUED_BYTES, sendTimeoutMs: SEND_TIMEOUT_MS,
      closeMs: CLOSE_MS, ...options.limits
    }
  }

  get shipping (): ShippingStats {
    return {
      sent: this.#sent, dropped: this.#dropped, waiting: this.#queue.length, waitingBytes: this.#bytes,
      failures: this.#failures, problem: this.#problem, lastSentAt: this.#lastSentAt
    }
  }

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
    this.#trim()
    this.#running ??= this.#run()
  }

  /** Sends the queued lines for at most 2 s, then stops. */
  close (): Promise<void> {
    this.#closing ??= this.#finish()
    return this.#closing
  }

  #trim (): void {
    let excess = 0
    const { queuedLines, queuedBytes } = this.#limits
    while (this.#queue.length - excess > queuedLines || this.#bytes > queuedBytes) {
      this.#bytes -= Buffer.byteLength(this.#queue[excess]!)
      excess += 1
    }
    this.#queue.splice(0, excess)
    this.#dropped += excess
  }

  async #run (): Promise<void> {
    await this.#pause(LINGER_MS)
    while (this.#queue.length > 0 && this.#closing === null) await this.#pause(await this.#step())
    // Do not await anything after finding the queue empty, so that the next line starts a new run.
    this.#running = null
  }

  async #finish (): Promise<void> {
    this.#stop.abort()
    const { clock } = this.#options
    const done = clock.after(this.#limits.closeMs, () => { this.#cut.abort() })
    await this.#running
    while (this.#queue.length > 0 && !this.#cut.signal.aborted) if (await this.#step() > 0) break
    done()
    await (await this.#agent).destroy()
  }

  async #pause (ms: number): Promise<void> {
    if (ms > 0) await delay(this.#options.clock, ms, this.#stop.signal).catch(() => {})
  }

  async #step (): Promise<number> {
    const batch = this.#take()
    const answer = await this.#send(batch.join(''))
    const verdict = classifyResponse(answer)
    if (verdict === 'taken') return this.#taken(batch.length)
    if (verdict === 'refused') this.#dropped += batch.length
    else this.#putBack(batch)
    return this.#failed(answer)
  }

  #take (): string[] {
    let count = 0
    let bytes = 0
    while (count < Math.min(MAX_BATCH_LINES, this.#queue.length)) {
      const size = Buffer.byteLength(this.#queue[count]!)
      if (count > 0 && bytes + size > MAX_BATCH_BYTES) break
      bytes += size
      count += 1
    }
    this.#bytes -= bytes
    return this.#queue.splice(0, count)
  }

  #putBack (batch: readonly string[]): void {
    this.#queue.unshift(...batch)
    this.#bytes += Buffer.byteLength(batch.join(''))
    this.#trim()
  }

  #taken (lines: number): number {
    const { clock, log } = this.#options
    const failures = this.#failures
    this.#sent += lines
    this.#failures = 0
    this.#problem = null
    this.#lastSentAt = new Date(clock.now()).toISOString()
    const dropped = this.#dropped - this.#reportedDropped
    // While lines keep overflowing the queue, report the drops once at the end, not with every batch.
    if (failures > 0 || (dropped > 0 && this.#queue.length === 0)) {
      this.#reportedDropped = this.#dropped
      log.warn({ failures, dropped }, 'log lines are shipped again')
    }
    return 0
  }

  #failed (answer: Answer): number {
    const { clock, random, log } = this.#options
    this.#failures += 1
    this.#problem = 'error' in answer ? answer.error : problemOf(answer.status)
    if (this.#failures === 1) {
      log.warn({ problem: this.#problem },
        'cannot ship log lines to logging.ingest_url; a full queue drops the oldest lines')
    }
    const retryAfter = 'error' in answer ? undefined : answer.retryAfter
    return pauseMs(this.#failures, random(), retryAfter, clock.now())
  }

  async #send (text: string): Promise<Answer> {
    const { clock } = this.#options
    const timeout = new AbortController()
    const cancel = clock.after(this.#limits.sendTimeoutMs, () => { timeout.abort() })
    try {
      return await this.#post(text, AbortSignal.any([timeout.signal, this.#cut.signal]))
    } catch (error) {
      if (timeout.signal.aborted) return { error: `no response within ${this.#limits.sendTimeoutMs} ms` }
      return { error: this.#cut.signal.aborted ? 'the node is stopping' : reasonOf(error) }
    } finally {
      cancel()
    }
  }

  async #post (text: string, signal: AbortSignal): Promise<Answer> {
    const { origin, pathname, search } = new URL(this.#options.url)
    const { statusCode, headers, body } = await (await this.#agent).request({
      origin,
      path: `${pathname}${search}`,
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      body: text,
      signal
    })
    // Ignore errors while reading the body, because only the status matters.
    await body.dump({ limit: MAX_ANSWER }).catch(() => {})
    const retryAfter = headers['retry-after']
    return typeof retryAfter === 'string' ? { status: statusCode, retryAfter } : { status: statusCode }
  }
}

/** Omits the receiver's URL, because its path or query may contain a secret. */
function reasonOf (error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return code ?? message
}

function problemOf (status: number): string {
  return status >= 300 && status < 400
    ? `it answered ${status}: redirects are not followed`
    : `it answered ${status}`
}
