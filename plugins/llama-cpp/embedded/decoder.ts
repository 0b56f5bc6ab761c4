/**
 * Continuous batching: each step decodes one token per answer, and as many prompt tokens as fit into the
 * target time. Short steps let cancelled requests end early.
 */
import { EngineError, type EngineEnv } from '../../../kernel/api/engine.js'
import { BATCH } from '../engine.js'
import type { NativeContext } from './binding.js'

/** Number of prompt tokens in the first step, and the minimum per step. */
const FIRST_PART = 32
const LEAST_PART = 4
/** A step longer than LONG_MS halves the number of prompt tokens per step, one below SHORT_MS doubles it. */
const LONG_MS = 300
const SHORT_MS = 100
/**
 * A slot is reused for its cached prefix if the prefix is more than this fraction of the prompt; otherwise
 * the least recently used slot is taken.
 */
const WORTH_KEEPING = 0.1

export interface Job {
  readonly prompt: readonly number[]
  readonly isCancelled: boolean
  /** Called when the job gets a slot, in which `cached` tokens of its prompt are already decoded. */
  started (cached: number): void
  /** Chooses the next token from the logits at this batch index; null ends the answer. */
  next (at: number): Promise<number | null>
  failed (error: unknown): void
}

interface Slot {
  readonly id: number, tokens: number[], job: Job | null
  /** Tokens of the job that have not been decoded yet. */
  pending: number[]
  used: number
  /** Start number of the job in this slot; the jobs that started first come first. */
  since: number
}

export class Decoder {
  private readonly context: NativeContext
  private readonly window: number
  private readonly env: Pick<EngineEnv, 'work'>
  private readonly now: () => number
  private readonly slots: readonly Slot[]
  private readonly batch: number
  private readonly waiting: Job[] = []
  private steps = 0
  private started = 0
  private running: Promise<void> | undefined
  private closed = false
  /** Current limit on prompt tokens per step. */
  private part = FIRST_PART

  constructor (
    context: NativeContext, { slots, window }: { slots: number, window: number },
    env: Pick<EngineEnv, 'work'>, now: () => number
  ) {
    this.context = context
    this.window = window
    this.env = env
    this.now = now
    this.batch = Math.max(BATCH, slots)
    this.slots = Array.from({ length: slots }, (_, id) =>
      ({ id, tokens: [], job: null, pending: [], used: 0, since: 0 }))
  }

  submit (job: Job): void {
    this.waiting.push(job)
    this.running ??= this.run()
  }

  async close (): Promise<void> {
    this.closed = true
    await this.running
    await this.context.dispose()
  }

  private async run (): Promise<void> {
    // Wait a turn, so that jobs submitted together start in the same step.
    await new Promise<void>((resolve) => { setImmediate(resolve) })
    try {
      while (!this.closed) {
        this.leaveCancelled()
        this.assign()
        if (this.slots.every(({ job }) => job === null)) return
        await this.step()
      }
    } finally {
      this.running = undefined
      if (this.closed) this.fail(new EngineError('cancelled', 'the model is being unloaded'))
    }
  }

  private leaveCancelled (): void {
    for (const slot of this.slots) if (slot.job?.isCancelled === true) slot.job = null
    const staying = this.waiting.filter(({ isCancelled }) => !isCancelled)
    this.waiting.splice(0, this.waiting.length, ...staying)
  }

  private assign (): void {
    while (this.waiting.length > 0) {
      const free = this.slots.filter(({ job }) => job === null)
      if (free.length === 0) return
      const job = this.waiting.shift()!
      const found = free.map((slot) => ({ slot, common: commonLength(slot.tokens, job.prompt) }))
      const best = found.reduce((a, b) => b.common > a.common ? b : a)
      const oldest = found.reduce((a, b) => b.slot.used < a.slot.used ? b : a)
      const { slot, common } = best.common > job.prompt.length * WORTH_KEEPING ? best : oldest
      // Decode the prompt's last token even if it is cached, because its logits are needed.
      const kept = this.trim(slot, Math.min(common, job.prompt.length - 1))
      slot.job = job
      slot.pending = job.prompt.slice(kept)
      slot.since = ++this.started
      job.started(kept)
    }
  }

  /** Truncates a slot to `length` tokens, or to none if the cache cannot remove a range. */
  private trim (slot: Slot, length: number): number {
    const { context } = this
    if (length === slot.tokens.length) return length
    // With windowed attention the cache may have dropped tokens that a shorter prefix needs.
    const seen = context.getSequenceKvCacheMinPosition(slot.id) <= Math.max(0, length - this.window)
    if (length > 0 && seen && context.removeTokenCellsFromSequence(slot.id, length, -1)) {
      slot.tokens.length = length
      return length
    }
    context.disposeSequence(slot.id)
    slot.tokens = []
    return 0
  }

  private async step (): Promise<void> {
    const { context, env } = this
    this.steps++
    const parts = this.share()
    const size = parts.reduce((sum, { tokens }) => sum + tokens.length, 0)
    context.initBatch(size)
    const places = parts.map(({ slot, tokens, isLast }) => context.addToBatch(slot.id, slot.tokens.length,
      Uint32Array.from(tokens), Uint32Array.from(isLast ? [tokens.length - 1] : []))[0])
    const startedAt = this.now()
    try {
      await env.work('decode', size, async () => { await context.decodeBatch() })
    } catch (error) {
      for (const { slot } of parts) this.drop(slot, error)
      return
    }
    if (parts.some(({ tokens }) => tokens.length > 1)) this.adapt(this.now() - startedAt)
    for (const { slot, tokens } of parts) {
      slot.tokens.push(...tokens)
      slot.used = this.steps
    }
    // Sample sequentially, because the addon's samplers share the batch's logits without a lock.
    for (const [i, { slot }] of parts.entries()) {
      if (places[i] !== undefined) await this.choose(slot, places[i])
    }
  }

  /** Chooses a step's tokens: one per running answer, then prompt tokens in order of start. */
  private share (): { slot: Slot, tokens: number[], isLast: boolean }[] {
    const busy = this.slots.filter(({ job, pending }) => job !== null && pending.length > 0)
      .sort((a, b) => Math.min(a.pending.length, 2) - Math.min(b.pending.length, 2) || a.since - b.since)
    const answers = busy.filter(({ pending }) => pending.length === 1).length
    let left = Math.min(this.batch, answers + this.part)
    return busy.flatMap((slot) => {
      const tokens = slot.pending.splice(0, left)
      left -= tokens.length
      return tokens.length === 0 ? [] : [{ slot, tokens, isLast: slot.pending.length === 0 }]
    })
  }

  /** Adapts the number of prompt tokens per step to the duration of the last step. */
  private adapt (ms: number): void {
    if (ms > LONG_MS) this.part = Math.max(LEAST_PART, Math.floor(this.part / 2))
    else if (ms < SHORT_MS) this.part = Math.min(BATCH, this.part * 2)
  }

  private async choose (slot: Slot, at: number): Promise<void> {
    const { job } = slot
    if (job === null || job.isCancelled) return
    try {
      const token = await job.next(at)
      if (token === null) slot.job = null
      else slot.pending = [token]
    } catch (error) {
      slot.job = null
      job.failed(error)
    }
  }

  /** Fails a slot's job and clears the slot, because its cache is undefined after a failed step. */
  private drop (slot: Slot, error: unknown): void {
    this.context.disposeSequence(slot.id)
    slot.tokens = []
    slot.job?.failed(new EngineError('provider_error', `llama.cpp failed: ${(error as Error).message}`))
    slot.job = null
  }

  private fail (error: EngineError): void {
    for (const job of [...this.slots.flatMap(({ job }) => job ?? []), ...this.waiting]) job.failed(error)
    for (const slot of this.slots) slot.job = null
    this.waiting.length = 0
  }
}

function commonLength (a: readonly number[], b: readonly number[]): number {
  let length = 0
  while (length < a.length && length < b.length && a[length] === b[length]) length++
  return length
}
