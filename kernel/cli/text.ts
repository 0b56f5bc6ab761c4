import type { VerbContext } from './verb.js'

export { showBytes } from './bytes.js'

/** Formats a count with its noun: `1 node`, `2 nodes`. */
export const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`

const STEPS = [['d', 86_400], ['h', 3600], ['m', 60], ['s', 1]] as const

/** Formats a duration with at most two units: `9s`, `1h12m`, `3d`. */
export function formatDuration (seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  const first = STEPS.findIndex(([, size]) => whole >= size)
  if (first < 0) return '0s'
  const [unit, size] = STEPS[first]!
  const rest = STEPS[first + 1]
  const more = rest === undefined ? 0 : Math.floor((whole % size) / rest[1])
  return `${Math.floor(whole / size)}${unit}${more > 0 ? `${more}${rest![0]}` : ''}`
}

/** Formats a duration, for instance as `0.4 ms`, `312 ms`, `1.31 s` or `2m10s`. */
export function showMs (ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`
  if (ms < 1000) return `${Math.round(ms)} ms`
  return ms < 60_000 ? `${(ms / 1000).toFixed(2)} s` : formatDuration(ms / 1000)
}

/** Formats a time for people, with the date unless it is today: `14:05:09 UTC`, `2026-01-31 14:05:09 UTC`. */
export function showTime (ms: number, nowMs: number): string {
  const [day, time] = new Date(ms).toISOString().slice(0, 19).split('T')
  return `${new Date(nowMs).toISOString().startsWith(day!) ? '' : `${day!} `}${time!} UTC`
}

const SPAN = /^(\d{1,9})(s|m|h|d)?$/

/** Parses a duration such as `90`, `90s`, `15m`, `2h` or `1d` to seconds; undefined for anything else. */
export function readSpan (text: string): number | undefined {
  const found = SPAN.exec(text)
  if (found === null) return undefined
  return Number(found[1]) * STEPS.find(([unit]) => unit === (found[2] ?? 's'))![1]
}

/**
 * Parses a point in time: a duration before `now` (ms since 1970) such as `10m`, a time, or an event index.
 * Returns it as the API expects it, times as ISO-8601; null for other text.
 */
export function parseTimeOrIndex (text: string, now: number): string | null {
  if (/^\d{1,15}$/.test(text)) return text
  const span = readSpan(text)
  const ms = span !== undefined ? now - span * 1000
    : /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(new Date(ms).getTime()) ? null : new Date(ms).toISOString()
}

export const MOMENTS = 'expected a duration such as 10m, a time such as 2026-01-31T08:00Z, or an index'

/** Syntax of model ids; the node applies stricter checks. */
const MODEL_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,95}\/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$/

/** True for text such as `acme/voice`. Excludes `..`, so that an id cannot lead to another URL path. */
export const isModelId = (text: string): boolean => MODEL_ID.test(text) && !text.includes('..')

/** Returns the model id. Throws VerbError (2) for text that is not one. */
export function readModelId (ctx: Pick<VerbContext, 'fail'>, text: string): string {
  if (isModelId(text)) return text
  throw ctx.fail(2, `"${text.slice(0, 200)}" is not a model id: expected org/name, such as acme/voice`)
}

/** Like `readModelId`; also accepts names of models without files, such as `chat` or `ollama/qwen3:8b`. */
export function readModelName (ctx: Pick<VerbContext, 'fail'>, text: string): string {
  return /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,299}$/.test(text) && !/\.\.|\/\/|\/$/.test(text) ? text
    : readModelId(ctx, text)
}

/** An option as a number; undefined if absent. Throws VerbError (2) if it is not valid. */
export function readNumber (
  ctx: VerbContext, flag: string, given: unknown,
  { min, max = Number.MAX_SAFE_INTEGER, whole = true }: { min: number, max?: number, whole?: boolean }
): number | undefined {
  if (given === undefined) return undefined
  const text = String(given).trim()
  // Number also reads `0x50` and `1e3`, which are more likely mistakes.
  const readable = whole ? /^-?\d+$/.test(text) : text !== ''
  const value = readable ? Number(text) : NaN
  if (value >= min && value <= max && (!whole || Number.isSafeInteger(value))) return value
  const kind = whole ? 'a whole number' : 'a number'
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`
  throw ctx.fail(2, `${flag} ${text.slice(0, 200)}: expected ${kind} ${range}`)
}

export const modelInPath = (modelId: string): string => modelId.split('/').map(encodeURIComponent).join('/')

const SPAN_MS: Readonly<Record<string, number>> = { h: 3_600_000, d: 86_400_000, w: 604_800_000 }

/**
 * Parses a token's expiry to ISO-8601: a duration after `now` in ms (`12h`, `90d`, `4w`) or a date; null if
 * it is not in the future.
 */
export function expiryOf (text: string, now: number): string | null {
  const span = /^(\d{1,5})([hdw])$/.exec(text)
  const at = span === null
    ? /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
    : now + Number(span[1]) * SPAN_MS[span[2]!]!
  return at > now ? new Date(at).toISOString() : null
}
