import type { Fact } from '../../../kernel/cli/index.js'

/** A number found in text: its value, its unit in a normalised spelling, and its original text. */
export interface Amount { readonly value: number, readonly unit: string, readonly text: string }

/** Spellings of each unit. Units are not converted, so 1.5 GB is not 1500 MB. */
const UNITS: Readonly<Record<string, readonly string[]>> = {
  '%': ['%', 'percent'],
  B: ['B', 'byte', 'bytes'],
  KB: ['KB', 'kB'],
  MB: ['MB', 'megabyte', 'megabytes'],
  GB: ['GB', 'gigabyte', 'gigabytes'],
  TB: ['TB'],
  KiB: ['KiB'],
  MiB: ['MiB'],
  GiB: ['GiB'],
  TiB: ['TiB'],
  ms: ['ms', 'millisecond', 'milliseconds'],
  s: ['s', 'sec', 'second', 'seconds'],
  min: ['min', 'm', 'minute', 'minutes'],
  h: ['h', 'hour', 'hours'],
  d: ['d', 'day', 'days']
}
const UNIT_OF = new Map(Object.entries(UNITS).flatMap(([unit, all]) => all.map((word) => [word, unit])))

/** Excludes digits inside an id, a time, a version or an address. */
const NUMBER = new RegExp([
  '(?<![\\p{L}\\p{N}_.:/@#-])', '(\\d{1,3}(?:,\\d{3})+(?:\\.\\d+)?|\\d+(?:\\.\\d+)?)',
  '(?:\\s?(%|[A-Za-z]+))?', '(?![\\p{L}\\p{N}_]|[.,:/@-]\\d|[:/@-]\\p{L})'
].join(''), 'gu')
const SPELT = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten',
  'eleven', 'twelve']

/**
 * Finds the numbers in text: digits, optionally with commas between thousands, and the words "two" to
 * "twelve". Ignores digits in ids, times, versions and addresses.
 */
export function numbersIn (text: string): Amount[] {
  const digits = [...text.matchAll(NUMBER)].map(([whole, number, word = '']): Amount =>
    ({ value: Number(number!.replaceAll(',', '')), unit: UNIT_OF.get(word) ?? '', text: whole.trim() }))
  const pairs = [...text.toLowerCase().matchAll(/\b([a-z]+)\b(?=\s([a-z]+)|)/g)]
  const words = pairs.flatMap(([word, , next = '']): Amount[] => {
    const value = SPELT.indexOf(word)
    return value < 2 ? [] : [{ value, unit: UNIT_OF.get(next) ?? '', text: word }]
  })
  return [...digits, ...words]
}

/** The counts that an answer may state: of facts, of subjects, and of facts with the same level or code. */
export function countsOf (facts: readonly Fact[]): Set<number> {
  const by = (key: (fact: Fact) => string): number[] =>
    facts.map((fact) => facts.filter((one) => key(one) === key(fact)).length)
  const names = new Set(facts.flatMap(({ about }) => about))
  return new Set([facts.length, names.size, ...by(({ level }) => level), ...by(({ code }) => code)])
}
