const KiB = 1024
const MiB = 1024 * KiB

/** Every deadline and bound of a runner, with its default. Times in milliseconds, sizes in bytes. */
export const DEFAULT_LIMITS = {
  /** Spawn to the first frame. */
  firstReportMs: 120_000,
  /** Loading without progress: the larger of this and the model's bytes at `loadBytesPerSecond`. */
  loadMinMs: 120_000,
  loadBytesPerSecond: 20_000_000,
  /** Deadline of the warmup inference; `SVC_WARMUP_DEADLINE_SECONDS` replaces the default. */
  warmupMs: 300_000,
  /** What the node adds before it kills by itself, so that the runner's own watchdog speaks first. */
  warmupGraceMs: 750,
  /** Announced work is overdue after max(workMinMs, workFactor x measured time per unit x units). */
  workMinMs: 10_000,
  workFactor: 10,
  /** Longest time the runner's event loop may stand still outside announced work. */
  loopBlockedMs: 12_000,
  /** Longest pause between two chunks of a task, after the first, while the reader has credit. */
  chunkIdleMs: 120_000,
  /** A cancelled task must have ended in the runner by then. */
  cancelMs: 10_000,
  /** One step of the escalating stop: cancel, SIGTERM, SIGKILL. */
  stopStepMs: 5_000,
  /** How often deadlines are looked at. A deadline counts as passed when two looks agree. */
  checkMs: 500,
  rssPollMs: 2_000,
  /** Wait before a restart: first, doubled each time, at most, and the random share added on top. */
  backoffFirstMs: 1_000,
  backoffMaxMs: 30_000,
  backoffJitter: 0.25,
  /** This many failures inside the window end the restarts. */
  breakerFailures: 3,
  breakerWindowMs: 60_000,
  /** Ready for this long forgets earlier failures. */
  readyClearMs: 600_000,
  /** Credit of one task: what the runner may send ahead of the reader. */
  windowChunks: 64,
  windowBytes: MiB,
  maxFrameBytes: 16 * MiB,
  /** Frames other than chunks; a runner that sends more is killed. */
  controlFramesPerSecond: 2_000,
  /** Output of the runner: a longer line is split, more lines are counted and dropped. */
  lineBytes: 8 * KiB,
  linesPerSecond: 200,
  logFileBytes: 5_000_000,
  flightEntries: 128
}
export type RunnerLimits = Readonly<typeof DEFAULT_LIMITS>

/** What the runner itself has to know of the limits; travels in the first frame. */
export type HostLimits = Pick<RunnerLimits,
  'warmupMs' | 'loopBlockedMs' | 'windowChunks' | 'windowBytes' | 'maxFrameBytes'>

const WARMUP_VARIABLE = 'SVC_WARMUP_DEADLINE_SECONDS'
/** A day: longer than any real warmup, and far from where timers overflow. */
const WARMUP_MAX_SECONDS = 86_400

/**
 * The limits in force: the defaults, then `SVC_WARMUP_DEADLINE_SECONDS`, then what the caller sets.
 * Throws RangeError naming the variable or field when a value is not a positive number.
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

/**
 * Counts events per second in fixed windows that start with their first event. Pure: time (monotonic
 * milliseconds) is an argument.
 */
export class RateMeter {
  readonly #perSecond: number
  #windowStart = -Infinity
  #count = 0

  constructor (perSecond: number) { this.#perSecond = perSecond }

  /** True when the next event would be beyond the rate. */
  full (nowMs: number): boolean {
    return nowMs - this.#windowStart < 1_000 && this.#count >= this.#perSecond
  }

  /** Notes one event; false when it is beyond the rate. */
  admit (nowMs: number): boolean {
    if (nowMs - this.#windowStart >= 1_000) {
      this.#windowStart = nowMs
      this.#count = 0
    }
    this.#count += 1
    return this.#count <= this.#perSecond
  }
}
