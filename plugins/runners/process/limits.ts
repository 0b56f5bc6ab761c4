const MiB = 1024 ** 2

/** Every deadline and bound of a runner, with its default. Times in milliseconds, sizes in bytes. */
export const DEFAULT_LIMITS = {
  /** Limit on the time from spawn to the first frame. */
  firstReportMs: 120_000,
  /** Limit on loading without progress, unless reading the model at `loadBytesPerSecond` takes longer. */
  loadMinMs: 120_000,
  loadBytesPerSecond: 20_000_000,
  /** Deadline of the warmup inference; overridden by `SVC_WARMUP_DEADLINE_SECONDS`. */
  warmupMs: 300_000,
  /** Extra time before the node kills the process, so that the runner's own watchdog reports first. */
  warmupGraceMs: 750,
  /** Announced work is overdue after max(workMinMs, workFactor x measured time per unit x units). */
  workMinMs: 10_000,
  workFactor: 10,
  /** Limit on the time for which the runner's event loop is blocked outside announced work. */
  loopBlockedMs: 12_000,
  /** Limit on the pause between two chunks of a task while the reader has credit. */
  chunkIdleMs: 120_000,
  /** Limit on the time until a cancelled task has ended in the runner. */
  cancelMs: 10_000,
  /** Duration of each step of the escalating stop: cancel, SIGTERM, SIGKILL. */
  stopStepMs: 5_000,
  /** Interval of the deadline check. A deadline counts as passed if two checks in a row find the same one. */
  checkMs: 500,
  rssPollMs: 2_000,
  /** Restart delays: the first, the maximum after doubling, and the random share that is added. */
  backoffFirstMs: 1_000,
  backoffMaxMs: 30_000,
  backoffJitter: 0.25,
  breakerFailures: 3,
  breakerWindowMs: 60_000,
  /** Time in ready state that clears earlier failures. */
  readyClearMs: 600_000,
  /** Credit for one task: chunks and bytes that the runner may send ahead of the reader. */
  windowChunks: 64,
  windowBytes: MiB,
  maxFrameBytes: 16 * MiB,
  /** Limit on frames other than chunks; a runner that sends more is killed. */
  controlFramesPerSecond: 2_000,
  /** Limits on the runner's output: a longer line is split, and excess lines are counted and dropped. */
  lineChars: 8_192,
  linesPerSecond: 200,
  logFileBytes: 5_000_000,
  flightEntries: 128
}
export type RunnerLimits = Readonly<typeof DEFAULT_LIMITS>

/** The limits that the runner process itself needs; sent in the first frame. */
export type HostLimits = Pick<RunnerLimits,
  'warmupMs' | 'loopBlockedMs' | 'windowChunks' | 'windowBytes' | 'maxFrameBytes'>

const WARMUP_VARIABLE = 'SVC_WARMUP_DEADLINE_SECONDS'
/** A day: longer than any real warmup, and far below the overflow of a timer. */
const WARMUP_MAX_SECONDS = 86_400

/**
 * The effective limits: the defaults, then `SVC_WARMUP_DEADLINE_SECONDS`, then `overrides`. Throws RangeError
 * naming the variable if its value is not a valid number of seconds.
 */
export const resolveLimits = (
  overrides: Partial<RunnerLimits> = {}, env: Record<string, string | undefined> = process.env
): RunnerLimits => ({ ...DEFAULT_LIMITS, ...warmupFrom(env), ...overrides })

function warmupFrom (env: Record<string, string | undefined>): Partial<RunnerLimits> {
  const text = env[WARMUP_VARIABLE]
  if (text === undefined || text === '') return {}
  const seconds = Number(text)
  if (!(seconds > 0 && seconds <= WARMUP_MAX_SECONDS)) {
    throw new RangeError(`${WARMUP_VARIABLE} must be a number of seconds above 0 and at most ` +
      `${WARMUP_MAX_SECONDS}, got "${text}". Unset it for the default of ${DEFAULT_LIMITS.warmupMs / 1000}.`)
  }
  return { warmupMs: seconds * 1000 }
}

/** Counts events in fixed windows, which start with their first event. Times are monotonic ms. */
export class RateMeter {
  readonly #most: number
  readonly #windowMs: number
  #windowStart = -Infinity
  #count = 0

  constructor (most: number, windowMs = 1_000) {
    this.#most = most
    this.#windowMs = windowMs
  }

  /** True if the next event would exceed the rate. */
  full (nowMs: number): boolean {
    return nowMs - this.#windowStart < this.#windowMs && this.#count >= this.#most
  }

  /** Counts one event; false if it exceeds the rate. */
  admit (nowMs: number): boolean {
    if (nowMs - this.#windowStart >= this.#windowMs) {
      this.#windowStart = nowMs
      this.#count = 0
    }
    this.#count += 1
    return this.#count <= this.#most
  }
}
