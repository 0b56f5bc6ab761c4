import { showBytes as bytes } from '../../../../kernel/cli/bytes.js'

export { bytes }

export const rate = (bytesPerSecond: number): string => `${bytes(bytesPerSecond)}/s`

/** A duration in its two largest units: `3 min 20 s`. */
export function span (ms: number): string {
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), 'd'], [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'], [Math.floor(seconds) % 60, 's']
  ]
  const first = parts.findIndex(([value]) => value > 0)
  return parts.slice(first, first + 2).filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`).join(' ')
}

/** Time since a moment: `just now`, `3 min 20 s ago`. */
export function ago (at: string, now: number): string {
  const ms = now - Date.parse(at)
  return ms < 2000 ? 'just now' : `${span(ms)} ago`
}

export const percent = (ratio: number): string => `${Math.round(ratio * 100)} %`

export function clock (at: string | number): string {
  const moment = new Date(at)
  const time = moment.toLocaleTimeString(undefined, { hour12: false })
  return moment.toDateString() === new Date().toDateString() ? time : `${moment.toLocaleDateString()} ${time}`
}

export const day = (at: string): string => new Date(at).toLocaleDateString()

/** `1 node`, `3 nodes`. */
export function count (n: number, noun: string, plural = `${noun}s`): string {
  return `${n} ${n === 1 ? noun : plural}`
}

export function grouped<T> (list: readonly T[], keyOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const one of list) {
    const key = keyOf(one)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [one])
    else group.push(one)
  }
  return groups
}

export const toggled = <T>(list: readonly T[], one: T, on: boolean): T[] =>
  [...list.filter((other) => other !== one), ...on ? [one] : []]

/** Joins the words that are not empty with a middle dot. */
export const joined = (words: readonly (string | null | undefined)[]): string =>
  words.filter((word) => word != null && word !== '').join(' · ')

/** At most `most` characters of a text, with `…` in place of the rest. */
export const shortened = (text: string, most = 48): string =>
  text.length > most ? `${text.slice(0, most - 1)}…` : text

/** A code example with a title and an optional note. */
export interface Lines { name: string, code: string, note?: string }

/** A sentence split at its commands in backticks. */
export function commandsIn (sentence: string): { text: string, command: boolean }[] {
  return sentence.split('`').map((text, index) => ({ text, command: index % 2 === 1 }))
    .filter(({ text }) => text !== '')
}
