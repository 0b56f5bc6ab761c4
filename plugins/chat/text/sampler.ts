import { EngineError } from '../../../kernel/api/engine.js'
import { Penalties } from './penalties.js'
import type { Truncation } from './select.js'
import type { ChosenToken, SamplingParams, TokenChooser } from './types.js'

/** What OpenAI's API reports for a token that is all but impossible. */
const MIN_LOGPROB = -9999
const GREEDY_BELOW = 1e-5

/** Restricts the next token, by the tokens that were chosen before. */
export interface Constraint {
  /** Sets the logits of tokens that are not allowed to -Infinity. */
  mask (logits: Float32Array): void
  /** Whether the token may come next, also in view of the tokens that remain. */
  allows (id: number): boolean
  /** Sets the logits of all tokens to -Infinity that `allows` refuses; slow, exact. */
  restrict (logits: Float32Array): void
  /** Takes the token that was chosen. */
  accept (id: number): void
}

/** What is the same for all sequences of a model. */
export interface SamplerShared {
  /** Ids that stand for nothing (holes, rows beyond the tokenizer). */
  forbidden: Int32Array
  truncation: Truncation
  /** Sums of probabilities, a buffer that is kept between calls. */
  sums: Float64Array
}

/**
 * A chooser of tokens. The order: `logit_bias` is added, then the penalties (see penalties.ts), then the
 * grammar, then temperature, top_k, top_p, min_p. Temperature 0 takes the greatest logit, of equals the
 * lowest id. Log probabilities are of the model's own distribution: at
 * temperature 1 before bias, penalties, grammar and truncation, as in OpenAI's API (since March 2024, when
 * biases stopped to affect them) and in vLLM (raw_logprobs).
 */
export function tokenChooser (
  params: SamplingParams, shared: SamplerShared, random: () => number, constraint: Constraint | null
): TokenChooser {
  const bias = Object.entries(params.logitBias).map(([id, value]) => [Number(id), value] as const)
  const penalties = new Penalties(params)
  return {
    prompt (ids) { penalties.prompt(ids) },
    choose (logits) {
      const raw = params.logprobs ? Float32Array.from(logits) : null
      for (const id of shared.forbidden) if (id < logits.length) logits[id] = -Infinity
      for (const [id, value] of bias) if (id in logits) logits[id] = (logits[id] as number) + value
      penalties.apply(logits)
      const id = pick(logits, params, shared, random, constraint)
      penalties.chose(id)
      constraint?.accept(id)
      return raw === null ? { id, logprob: null, top: [] } : withLogprobs(raw, id, params.topLogprobs)
    }
  }
}

/** Tokens tried and refused before all of them are checked. */
const MAX_TRIES = 8

function pick (
  logits: Float32Array, params: SamplingParams, shared: SamplerShared, random: () => number,
  constraint: Constraint | null
): number {
  const draw = (): number => {
    const best = greatest(logits)
    return params.temperature < GREEDY_BELOW ? best
      : sample(logits, logits[best] as number, params, shared, random())
  }
  if (constraint === null) return draw()
  if (params.temperature < GREEDY_BELOW) {
    // The greatest allowed logit is the greatest one where that is allowed: no mask is needed then.
    const best = draw()
    if (constraint.allows(best)) return best
  }
  constraint.mask(logits)
  return drawAllowed(logits, draw, constraint)
}

/**
 * Draws until a token is allowed; refused ones are taken out, which leaves the distribution of the others.
 */
function drawAllowed (logits: Float32Array, draw: () => number, constraint: Constraint): number {
  const refused: [number, number][] = []
  while (refused.length < MAX_TRIES && logits.some((x) => x > -Infinity)) {
    const id = draw()
    if (constraint.allows(id)) return id
    refused.push([id, logits[id] as number])
    logits[id] = -Infinity
  }
  for (const [id, value] of refused) logits[id] = value
  constraint.restrict(logits)
  return draw()
}

/** The id of the greatest logit, of equals the lowest. Throws when there is none, or one is not a number. */
function greatest (logits: Float32Array): number {
  let id = -1
  let best = -Infinity
  for (let i = 0; i < logits.length; i++) {
    const x = logits[i] as number
    if (x > best) {
      best = x
      id = i
    } else if (x !== x) {
      throw broken(`the logit of token ${i} is not a number`)
    }
  }
  if (id < 0 || best === Infinity) {
    throw broken(id < 0 ? 'no token has a finite logit' : `the logit of token ${id} is infinite`)
  }
  return id
}

function broken (what: string): EngineError {
  return new EngineError('provider_error', `the model's output cannot be used: ${what}. Its weights or its ` +
    'arithmetic (try another quantization) are broken')
}

/** Inverse transform over the remaining tokens; `u` in [0, 1). */
function sample (
  logits: Float32Array, best: number, params: SamplingParams, shared: SamplerShared, u: number
): number {
  const { temperature, topK, topP, minP } = params
  const all = topK <= 0 && topP >= 1 && minP <= 0
  const ids = all ? null : shared.truncation.keep(logits, best, params)
  const count = ids?.length ?? logits.length
  if (shared.sums.length < count) shared.sums = new Float64Array(logits.length)
  const { sums } = shared
  let total = 0
  for (let i = 0; i < count; i++) {
    const id = ids === null ? i : ids[i] as number
    total += Math.exp(((logits[id] as number) - best) / temperature)
    sums[i] = total
  }
  const wanted = u * total
  let at = 0
  while (at < count - 1 && (sums[at] as number) <= wanted) at++
  return ids === null ? at : ids[at] as number
}

function withLogprobs (raw: Float32Array, id: number, count: number): ChosenToken {
  const best = raw[greatest(raw)] as number
  let sum = 0
  for (let i = 0; i < raw.length; i++) sum += Math.exp((raw[i] as number) - best)
  const norm = best + Math.log(sum)
  const of = (i: number): number => Math.max(MIN_LOGPROB, (raw[i] as number) - norm)
  const top = mostLikely(raw, Math.min(count, raw.length)).map((i) => ({ id: i, logprob: of(i) }))
  return { id, logprob: of(id), top }
}

/** The `count` greatest (at most 20 or so) by insertion into a short sorted list. */
function mostLikely (raw: Float32Array, count: number): number[] {
  const ids: number[] = []
  if (count <= 0) return ids
  for (let i = 0; i < raw.length; i++) {
    const x = raw[i] as number
    if (ids.length === count && !(x > (raw[ids[count - 1] as number] as number))) continue
    let at = ids.length
    while (at > 0 && x > (raw[ids[at - 1] as number] as number)) at--
    ids.splice(at, 0, i)
    if (ids.length > count) ids.pop()
  }
  return ids
}
