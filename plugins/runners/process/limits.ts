const KiB = 1024
const MiB = 1024 * KiB

/** Every deadline and bound of a runner, with its default. Times in milliseconds, sizes in bytes. */
export const DEFAULT_LIMITS = {
  /** Spawn to the first frame. */
  firstReportMs: 120_000,
  /** Loading without progress: the larger of this and the model's bytes at `loadBytesPerSecond`. */
  loadMinMs: 120_000,
  loadBytesPerSecond: 20_000_000,
  /** Deadline of the warmup inference; overridden by `SVC_WARMUP_DEADLINE_SECONDS`. */
  warmupMs: 300_000,
  /** Extra time before the node kills the process, so that the runner's own watchdog reports first. */
  warmupGraceMs: 750,
  /** Announced work is overdue after max(workMinMs, workFactor x measured time per unit x units). */
  workMinMs: 10_000,
  workFactor: 10,
  /** Longest block of the runner's event loop outside announced work. */
  loopBlockedMs: 12_000,
  /** Longest pause between two chunks of a task, after the first, while the reader has credit. */
  chunkIdleMs: 120_000,
  /** A cancelled task must end in the runner within this time. */
  cancelMs: 10_000,
  /** One step of the escalating stop: cancel, SIGTERM, SIGKILL. */
  stopStepMs: 5_000,
  /** Interval of the deadline check. A deadline has passed when two checks in a row agree. */
  checkMs: 500,
  rssPollMs: 2_000,
  /** Restart delay: first, maximum of the doubling, and random share on top. */
  backoffFirstMs: 1_000,
  backoffMaxMs: 30_000,
  backoffJitter: 0.25,
  breakerFailures: 3,
  breakerWindowMs: 60_000,
  /** Being ready this long clears earlier failures. */
  readyClearMs: 600_000,
  /** Credit of one task: how far the runner may send ahead of the reader. */
  windowChunks: 64,
  windowBytes: MiB,
  maxFrameBytes: 16 * MiB,
  /** Frames other than chunks; a runner that sends more is killed. */
  controlFramesPerSecond: 2_000,
  /** Output of the runner: a longer line is split; excess lines are counted and dropped. */
  lineBytes: 8 * KiB,
  linesPerSecond: 200,
  logFileBytes: 5_000_000,
  flightEntries: 128
}
export type RunnerLimits = Readonly<typeof DEFAULT_LIMITS>

/** The limits that the runner process needs; sent in the first frame. */
export type HostLimits = Pick<RunnerLimits,
  'warmupMs' | 'loopBlockedMs' | 'windowChunks' | 'windowBytes' | 'maxFrameBytes'>

const WARMUP_VARIABLE = 'SVC_WARMUP_DEADLINE_SECONDS'
/** A day: longer than any real warmup, and far below timer overflow. */
const WARMUP_MAX_SECONDS = 86_400

/**
 * The effective limits: the defaults, then `SVC_WARMUP_DEADLINE_SECONDS`, then `overrides`. Throws RangeError
 * naming the variable or field if a value is not a positive number.
 */
export function resolveLimits (
  overrides: Partial<RunnerLimits> = {}, env: Record<string, string | undefined> = process.env
): RunnerLimits {
  const limits = { ...DEFAULT_LIMITS, ...warmupFrom(env), ...overrides }
  for (const [name, value] of Object.entries(limits)) {
    const least = name === 'backoffJitter' ? 0 : Number.MIN_VALUE
    if (typeof value !== 'number' || !Number.isFinite(value) || value < least) {
      throw new RangeError(`runner limit ${name} must be a number above 0, got ${String(value)}`)
    }
  }
  return limits
}

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

/** Counts events per second in fixed windows that start with their first event. Times are monotonic ms. */
export class RateMeter {
  readonly #perSecond: number
  #windowStart = -Infinity
  #count = 0

  constructor (perSecond: number) { this.#perSecond = perSecond }

  /** True if the next event would exceed the rate. */
  full (nowMs: number): boolean {
    return nowMs - this.#windowStart < 1_000 && this.#count >= this.#perSecond
  }

  /** Counts one event; false if it exceeds the rate. */
  admit (nowMs: number): boolean {
    if (nowMs - this.#windowStart >= 1_000) {
      this.#windowStart = nowMs
      this.#count = 0
    }
    this.#count += 1
    return this.#count <= this.#perSecond
  }
}
