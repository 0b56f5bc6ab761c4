/** One sequence that a scheduler works on. */
import { EngineError } from '../../../kernel/api/engine.js'

/** What is to be written. Its methods are called in order; `ended` or `failed` is the last. */
export interface Job {
  readonly prompt: readonly number[]
  /** The work on the prompt begins; `cached` tokens of it need none. */
  started (cached: number): void
  /** Chooses the next token; `done` ends the sequence with it. What it throws fails this job only. */
  next (logits: Float32Array): { id: number, done: boolean }
  ended (): void
  failed (error: unknown): void
}

/** The state of a job. */
export class Sequence<B> {
  readonly job: Job
  /** Number in the order of arrival. */
  readonly order: number
  /** Prompt and what was written. While it is written, the last token is not yet fed. */
  readonly ids: number[]
  /** State while the prompt is fed. */
  state: B | null = null
  /** Sequences with the same prompt, which begin where this one's prompt ends. */
  followers: Array<Sequence<B>> = []
  /** A piece of the prompt has been fed. */
  fed = false
  /** None of the job's methods is called any more. */
  cancelled = false
  private started = false

  constructor (job: Job, order: number) {
    this.job = job
    this.order = order
    this.ids = [...job.prompt]
  }

  /** This one and its followers, without cancelled ones. */
  get alive (): Array<Sequence<B>> {
    return [this, ...this.followers].filter(({ cancelled }) => !cancelled)
  }

  /** Tells the job that its prompt is being worked on, once. */
  begin (cached: number): void {
    if (!this.started) this.job.started(cached)
    this.started = true
  }

  /** Ends the job with an error, unless it was cancelled. */
  fail (error: unknown): void {
    if (!this.cancelled) this.job.failed(error)
    this.cancelled = true
  }

  /** Lets the job choose. False when the sequence has ended. */
  advance (logits: Float32Array): boolean {
    try {
      if (hasNaN(logits)) throw notNumbers(this.ids.length)
      const { id, done } = this.job.next(logits)
      this.ids.push(id)
      if (done) this.job.ended()
      return !done
    } catch (error) {
      this.job.failed(error)
      return false
    }
  }
}

/** A plain loop: this runs over the whole vocabulary for every token. */
function hasNaN (numbers: Float32Array): boolean {
  for (let i = 0; i < numbers.length; i++) if (Number.isNaN(numbers[i])) return true
  return false
}

const notNumbers = (tokens: number): EngineError => new EngineError('provider_error',
  `the model computed NaN after ${tokens} tokens: its weights are damaged, or its numbers overflow`)
