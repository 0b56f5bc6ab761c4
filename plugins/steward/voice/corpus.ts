import type { Evidence, Fact } from '../../../kernel/cli/index.js'

export interface Known {
  readonly facts: readonly Fact[]
  readonly unknown: readonly string[]
  readonly question: string
  /** Whether the whole cluster was examined; if not, the text must not say that everything is fine. */
  readonly examined: boolean
  /** Subjects of the answer's facts. The text must name one of them, unless the list is empty. */
  readonly about: readonly string[]
}

export interface Corpus {
  /** Whether the findings or the question contain the text as a whole word. */
  has (word: string): boolean
  /** Whether the findings or the question contain the text verbatim. */
  includes (text: string): boolean
  /** Like `has`, but searches only the question and the subjects, evidence and remedies of the facts. */
  named (word: string): boolean
}

/** Matches text in backticks. */
export const SPAN = /`+([^`]*)`+/g

const WORD = /[\p{L}\p{N}_]/u

export function corpusOf ({ facts, unknown, question }: Known): Corpus {
  const named = [question, ...facts.flatMap(({ about, evidence, remedy }) =>
    [...about, ...evidence.map(evidenceText), remedy ?? ''])].join('\n')
  const all = withTimes([named, ...unknown, ...facts.map(({ text, code }) => `${text} ${code}`)].join('\n'))
  return {
    has: (word) => standsIn(all, word) || standsIn(all, word.toLowerCase()),
    includes: (text) => all.includes(text), named: (word) => named.includes(word)
  }
}

/** The commands that the remedies of these facts name in backticks. */
export const commandsOf = (facts: readonly Fact[]): Set<string> => new Set(facts.flatMap(({ remedy }) =>
  [...(remedy ?? '').matchAll(SPAN)].map(([, command]) => command!.trim())))

export function namesOf (facts: readonly Fact[]): string[] {
  const names = facts.flatMap(({ about, evidence }) =>
    [...about, ...evidence.flatMap((one) => one.kind === 'node' ? [one.name] : [])])
  return [...new Set(names)].filter((name) => name !== '')
}

/** All texts in a fact. */
export const wholeOf = (fact: Fact): string =>
  [fact.text, ...fact.about, fact.remedy ?? '', ...fact.evidence.map(evidenceText)].join('\n')

/** Sentences and lines, without Markdown list and heading marks. */
export function sentencesOf (text: string): string[] {
  return text.split(/(?<=[.!?])\s+|\n+/)
    .map((line) => line.replace(/^\s*(?:#{1,4}\s+|[-*•]\s+|\d{1,2}[.)]\s+)*/, '').trim())
    .filter((line) => line !== '')
}

const evidenceText = (evidence: Evidence): string =>
  Object.entries(evidence).filter(([key]) => key !== 'kind').map(([, value]) => String(value)).join(' ')

/** Appends the date and the time of day of each ISO time as separate words. */
const withTimes = (text: string): string => text +
  [...text.matchAll(/(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(\.\d+)?Z?/g)]
    .map(([, day, minute, second = '']) => `\n${day!} ${minute!} ${minute!}${second}`).join('')

export function standsIn (text: string, word: string): boolean {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (!WORD.test(text[at - 1] ?? ' ') && !WORD.test(text[at + word.length] ?? ' ')) return true
  }
  return false
}
