/** Requests of real clients, as `npm run test:real -- record` records them in recorded/CLIENT.json. */
import { readFileSync } from 'node:fs'

/** A request, and the form of the answer that the client understood, if it does not depend on the model. */
export interface Recorded {
  method: string, path: string, headers: Record<string, string>, body?: unknown
  answer: { status: number, type: string, form?: unknown }
}
/** Requests of one version of a client. */
export interface Recording { program: string, version: string, requests: Recorded[] }

export const fileOf = (client: string): URL => new URL(`recorded/${client}.json`, import.meta.url)
export const recordingOf = (client: string): Recording =>
  JSON.parse(readFileSync(fileOf(client), 'utf8')) as Recording

/** Fields whose values are part of the form. */
const NAMES = ['type', 'role', 'object', 'finish_reason', 'stop_reason', 'done_reason', 'status', 'event']

/**
 * The form of a value: names and types of the fields, and the different forms of the elements of lists.
 * Steps of a stream that have the same form count once.
 */
export function formOf (value: unknown, name = ''): unknown {
  if (Array.isArray(value)) return distinct(value.map((one) => formOf(one)))
  if (value === null) return 'null'
  if (typeof value !== 'object') {
    return typeof value === 'string' && NAMES.includes(name) ? `"${value}"` : typeof value
  }
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1)
    .map(([key, one]) => [key, formOf(one, key)]))
}

function distinct (forms: unknown[]): unknown[] {
  const texts = forms.map((form) => JSON.stringify(form))
  return forms.filter((_form, i) => texts.indexOf(texts[i]!) === i)
}

/** The form of an answer: of JSON, of the values of a stream in their order, or of JSON lines. */
export function answerForm (type: string, body: string): unknown {
  if (type.startsWith('text/event-stream')) {
    return formOf(body.split('\n').filter((line) => line.startsWith('data: '))
      .map((line) => line === 'data: [DONE]' ? line : JSON.parse(line.slice(6)) as unknown))
  }
  if (type.includes('ndjson')) {
    return formOf(body.trim().split('\n').map((line) => JSON.parse(line) as unknown))
  }
  return type.includes('json') ? formOf(JSON.parse(body)) : typeof body
}

/** Lists the differences of two forms, as `path: before -> now`. */
export function differences (before: unknown, now: unknown, path: string): string[] {
  if (JSON.stringify(before) === JSON.stringify(now)) return []
  if (!isFields(before) || !isFields(now)) return [`${path}: ${said(before)} -> ${said(now)}`]
  return [...new Set([...Object.keys(before), ...Object.keys(now)])]
    .flatMap((key) => differences(before[key], now[key], `${path}.${key}`))
}

const isFields = (form: unknown): form is Record<string, unknown> =>
  typeof form === 'object' && form !== null
const said = (form: unknown): string => form === undefined ? 'absent' : JSON.stringify(form).slice(0, 200)
