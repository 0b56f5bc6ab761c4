import { casual, type ParsedResult } from 'chrono-node/en'
import type { World } from './entities.js'

/** The time that a question is about, ISO-8601. */
export interface When {
  readonly from: string
  readonly to: string
  /** The named moment, or the beginning of a time span. */
  readonly at: string
  /** The phrases that name the time: two for "between 14:00 and 15:00", none for "recently", else one. */
  readonly said: readonly string[]
}

type Now = Pick<World, 'nowMs' | 'zoneMin'>

interface Span { from: number, to: number, at: number }

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
/** "Around 14:05" covers this much time before and after 14:05. */
const AROUND_MS = 5 * MINUTE_MS
/** "Recently" covers this much time before now. */
const RECENT_MS = 6 * HOUR_MS
/** A clock time further ahead than this counts as yesterday's; allows for clocks that differ. */
const AHEAD_MS = 2 * MINUTE_MS
/** Number of characters at the start of a question in which a time is recognised. */
const READ_MOST = 1000

/** Parts of the day with their first and last hour; a night begins on the previous day. */
const PARTS: readonly (readonly [part: RegExp, from: number, to: number])[] = [
  [/night/i, -6, 6], [/morning/i, 5, 12], [/afternoon/i, 12, 18], [/evening/i, 18, 24]
]

const UNIT = '(?:sec(?:ond)?|min(?:ute)?|h(?:ou)?r|day|week|month|year)s?'
/** Match spans that end now: "the last two hours", and a word such as "within" before "two hours". */
const SPAN = new RegExp(`^(?:the )?(?:last|past|previous|for|in|within)\\b.*${UNIT}$`, 'i')
const BEFORE_SPAN = /\b(?:for|within|in the)\s*$/i
/** Words that look like a time but name none, or are ambiguous. */
const NO_TIME = new RegExp(`^(?:(?:right |just )?now|(?:this |the )?(?:second|${UNIT}|moment)|` +
  'may|mar|march|sun|sat|dec)$', 'i')

/** The time that a question names; null for none or a future one. Clock times are in the node's time zone. */
export function whenOf (text: string, now: Now): When | null {
  const read = text.slice(0, READ_MOST).replace(/\b(\d{1,2})\s?(?:h|uhr)\s?(\d{2})\b/gi, '$1:$2')
    .replace(/\b(\d{1,2})\s?uhr\b/gi, '$1:00')
    .replace(/\bbetween (\d{1,2}) and\b/gi, 'between $1:00 and')
    .replace(/\b(?:um|gegen)\b/gi, 'at')
  const found = casual.parse(read, { instant: new Date(now.nowMs), timezone: now.zoneMin })
    .filter((result) => !NO_TIME.test(result.text.trim()))
    .map((result) => ({ result, span: spanOf(result, read, now) }))
    .filter(({ span }) => span.at <= now.nowMs + AHEAD_MS)
  const [first, second] = found
  if (first === undefined) return recently(read, now.nowMs)
  const { result: { index, text: said }, span } = first
  if (second !== undefined && /\b(?:between|from)\b/i.test(read)) {
    return made({ ...span, from: span.at, to: second.span.at }, now, [said, second.result.text])
  }
  const since = /\b(?:since|seit|starting|after)\b/i.test(read.slice(0, index + said.length))
  return made(since ? { ...span, from: span.at, to: now.nowMs } : span, now, [said])
}

function spanOf ({ text, start, end, index }: ParsedResult, read: string, now: Now): Span {
  const { nowMs } = now
  const at = start.date().getTime()
  const day = midnightOf(at, now)
  const certain = start.isCertain('day')
  if (end != null) return past({ from: at, to: end.date().getTime(), at }, nowMs, certain)
  if (SPAN.test(text) || (BEFORE_SPAN.test(read.slice(0, index)) && !/ago$/i.test(text))) {
    const from = Math.min(at, nowMs)
    return { from, to: nowMs, at: from }
  }
  if (start.isCertain('hour')) {
    const around = { from: at - AROUND_MS, to: at + AROUND_MS, at }
    return past(around, nowMs, certain || start.isCertain('weekday'))
  }
  const part = PARTS.find(([words]) => words.test(text))
  if (part !== undefined) {
    const begins = /last night/i.test(text) ? midnightOf(nowMs, now) : day
    const [from, to] = [begins + part[1] * HOUR_MS, begins + part[2] * HOUR_MS]
    return past({ from, to, at: from }, nowMs, true)
  }
  // A weekday that is still to come this week means the one in the previous week.
  return past({ from: day, to: day + DAY_MS, at: day }, nowMs, certain, 7 * DAY_MS)
}

/** The midnight before a moment, in the node's time zone. */
function midnightOf (ms: number, { zoneMin }: Now): number {
  const ahead = zoneMin * MINUTE_MS
  return Math.floor((ms + ahead) / DAY_MS) * DAY_MS - ahead
}

/** Moves a future span back by `stepMs`, unless the text names its day (`certain`). */
function past ({ from, to, at }: Span, nowMs: number, certain: boolean, stepMs = DAY_MS): Span {
  const back = certain || at <= nowMs + AHEAD_MS ? 0 : stepMs
  return { from: from - back, to: to - back, at: at - back }
}

function recently (text: string, now: number): When | null {
  const agoMs = /\bjust now\b|\ba moment ago\b/i.test(text) ? 2 * AROUND_MS
    : /\b(?:recently|lately|of late)\b/i.test(text) ? RECENT_MS : null
  return agoMs === null ? null : made({ from: now - agoMs, to: now, at: now - agoMs }, { nowMs: now }, [])
}

function made ({ from, to, at }: Span, { nowMs }: Pick<Now, 'nowMs'>, said: readonly string[]): When {
  const iso = (ms: number): string => new Date(ms).toISOString()
  const end = Math.min(Math.max(from, to), nowMs)
  return { from: iso(Math.min(from, end)), to: iso(end), at: iso(at), said }
}

/** A time in the node's time zone, followed by the same time in UTC. */
export function clockWords (iso: string, zoneMin: number): string {
  const utc = iso.replace(/\.\d{3}Z$/, 'Z')
  if (zoneMin === 0) return utc
  const local = new Date(Date.parse(iso) + zoneMin * MINUTE_MS).toISOString()
  const [hours, minutes] = [Math.floor(Math.abs(zoneMin) / 60), Math.abs(zoneMin) % 60]
  const zone = `UTC${zoneMin < 0 ? '-' : '+'}${hours}${minutes === 0 ? '' : `:${minutes}`}`
  return `${local.slice(0, 10)} ${local.slice(11, 16)} ${zone} (${utc})`
}
