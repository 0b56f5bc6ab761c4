import { PART_SPANS_MAX } from './spans.js'
import type { ClockNote, SpanAttrs, SpanPart, SpanPlace, TaskAbout } from './spans.js'

/** Bounds on what another process may say. */
const PLACES_MAX = 64
const KINDS_MAX = 256
const TEXT_MAX = 128
const ATTRS_MAX = 32
/** A part tells of a day at most. */
const MICROS_MAX = 86_400_000_000

type Fields = Record<string, unknown>

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isText = (value: unknown): value is string => typeof value === 'string' && value.length <= TEXT_MAX
const isTime = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
const isProcess = (value: unknown): boolean => value === 'node' || value === 'runner'
const isNode = (value: unknown): boolean => value === null || isText(value)
const listOf = (value: unknown, most: number, fits: (one: unknown) => boolean): boolean =>
  Array.isArray(value) && value.length <= most && value.every(fits)

const isPlace = (value: unknown): value is SpanPlace =>
  isObject(value) && isNode(value['nodeId']) && isProcess(value['process']) && isCount(value['rank'])

const isClock = (value: unknown): value is ClockNote => isObject(value) && isNode(value['nodeId']) &&
  isProcess(value['process']) && isTime(value['offsetMs']) && isTime(value['uncertaintyMs'])

const isKind = (value: unknown): boolean => Array.isArray(value) && value.length === 2 && value.every(isText)

function isAbout (value: unknown): value is TaskAbout {
  if (!isObject(value)) return false
  const { taskId, modelId, capability } = value
  return isText(taskId) && typeof modelId === 'string' && modelId.length <= 2 * TEXT_MAX && isText(capability)
}

/** True for facts that fit a span. */
export function areAttrs (value: unknown): value is SpanAttrs {
  if (!isObject(value)) return false
  const entries = Object.entries(value)
  return entries.length <= ATTRS_MAX && entries.every(([key, fact]) =>
    isText(key) && (isText(fact) || isTime(fact) || typeof fact === 'boolean'))
}

function areSpans (spans: unknown, places: number, kinds: number): spans is number[] {
  if (!Array.isArray(spans) || spans.length % 5 !== 0 || spans.length > 5 * PART_SPANS_MAX) return false
  return spans.every((value, i) => {
    if (!Number.isSafeInteger(value) || Math.abs(value as number) > MICROS_MAX) return false
    const field = i % 5
    const least = field === 2 ? -MICROS_MAX : 0
    const limit = field === 0 ? places : field === 1 ? kinds : Number.POSITIVE_INFINITY
    return value >= least && value < limit
  })
}

/** What another process says it recorded, checked; null when it is no such thing. Pure. */
export function readPart (value: unknown): SpanPart | null {
  if (!isObject(value)) return null
  const { receivedMs, sentMs, places, kinds, spans, attrs, clocks, about, dropped } = value
  const fine = isTime(receivedMs) && isTime(sentMs) && sentMs >= receivedMs &&
    listOf(places, PLACES_MAX, isPlace) && listOf(kinds, KINDS_MAX, isKind) &&
    listOf(clocks, PLACES_MAX, isClock) && isCount(dropped) && (about === null || isAbout(about)) &&
    areSpans(spans, (places as unknown[]).length, (kinds as unknown[]).length) &&
    isObject(attrs) && Object.entries(attrs).length <= PART_SPANS_MAX && Object.values(attrs).every(areAttrs)
  return fine ? value as unknown as SpanPart : null
}
