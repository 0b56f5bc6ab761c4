import { invalid } from '../errors.js'

/** Thrown inside a run whose budget is spent; never leaves `Budget.run`. */
const SPENT = new Error('the budget is spent')
let current: Budget | null = null

/**
 * Bounds synchronous work on what a client wrote, so that no schema holds a runner's event loop. One step is
 * about 10 ns. Work is counted and not timed: the same schema is taken or refused on every machine.
 */
export class Budget {
  private readonly steps: number
  private left: number

  constructor (steps: number) {
    this.steps = steps
    this.left = steps
  }

  /** Runs `work`. Throws `invalid_request` at `path` where the budget or the stack is not enough. */
  run<T> (path: string, work: () => T): T {
    const outer = current
    current = this
    try {
      return work()
    } catch (error) {
      if (error !== SPENT && !(error instanceof RangeError)) throw error
      throw invalid(`${path}: this takes more than ${this.steps} steps of work; use fewer alternatives, ` +
        'properties and references, or simpler patterns', path)
    } finally {
      current = outer
    }
  }

  /** Steps that are left; none where it was spent. */
  get remaining (): number { return Math.max(0, this.left) }

  /** @internal */
  take (steps: number): void {
    this.left -= steps
    if (this.left < 0) throw SPENT
  }
}

/** Counts steps of the run that is under way; outside of one nothing is counted. */
export function spend (steps: number): void {
  current?.take(steps)
}
