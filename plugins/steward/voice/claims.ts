import type { Fact } from '../../../kernel/cli/index.js'
import { namesOf, sentencesOf, SPAN, standsIn, wholeOf, type Known } from './corpus.js'
import { countsOf, numbersIn, type Amount } from './numbers.js'

/** Why an amount in the text is unfounded, or belongs to another subject; null if all are supported. */
export function amountsIn (text: string, known: Known): string | null {
  const { facts, unknown, question } = known
  const asked = numbersIn(question)
  const counts = countsOf(facts)
  const told = facts.map((one) => ({ fact: one, amounts: numbersIn(wholeOf(one)) }))
  const doubts = unknown.flatMap(numbersIn)
  const names = namesOf(facts)
  for (const sentence of sentencesOf(text.replace(SPAN, ' '))) {
    const about = names.filter((name) => standsIn(sentence, name))
    for (const amount of numbersIn(sentence)) {
      if (fits(amount, asked) || fits(amount, doubts)) continue
      if (amount.unit === '' && counts.has(amount.value)) continue
      const said = told.filter(({ amounts }) => fits(amount, amounts))
      if (said.length === 0) return `${amount.text} was not found`
      const theirs = about.length === 0 || said.some(({ fact }) =>
        about.some((name) => standsIn(wholeOf(fact), name)))
      if (!theirs) return `${amount.text} is not that of ${about.join(', ')}`
    }
  }
  return null
}

const fits = ({ value, unit }: Amount, among: readonly Amount[]): boolean =>
  among.some((one) => one.value === value && (unit === '' || one.unit === unit))

/** Regular expressions for words that report a fault. */
const FAULTS = [
  'down', 'lost', 'dead', 'unreachable', 'offline', 'fail(?:s|ed|ing|ures?)?', 'broken',
  'crash(?:ed|es|ing)?', 'errors?', 'faults?', 'faulty', 'stopped', 'missing', 'full', 'corrupt(?:ed)?',
  'expired', 'refused', 'stuck', 'hung', 'overloaded', 'unavailable', 'degraded', 'wrong', 'problems?',
  'trouble', 'lacks'
].join('|')
const WORKS = [
  'answer', 'fit', 'start', 'respond', 'run', 'load', 'ready', 'available', 'reachable', 'enough', 'placed',
  'alive'
].join('|')
const FAULT = new RegExp(`\\b(?:${FAULTS})\\b`, 'i')
/** "does not answer" and "is not ready" also report a fault. */
const LACKS = new RegExp(`\\b(?:not|cannot|can't|doesn't|isn't|aren't)\\s+(?:${WORKS})\\w*`, 'gi')
/** "no node is lost" reports no fault. */
const NEGATED = new RegExp(
  `\\b(?:no|not|nothing|none|never|without|neither|nor)\\b[^.,;]{0,40}?\\b(?:${FAULTS})\\b`, 'gi')
const FINE = new RegExp([
  'all (?:is |are |nodes are |models are )?(?:fine|well|good|healthy|ok|okay|up|ready)',
  'everything (?:is|works|looks|seems|runs)', 'nothing (?:is|seems) (?:wrong|broken)',
  'no (?:problems?|faults?|errors?|issues?)', '(?:is|are|looks|seems) (?:fine|healthy|well|ok|okay|good)',
  'works? (?:fine|well)'
].map((one) => `\\b(?:${one})\\b`).join('|'), 'i')

/**
 * Finds a fault in the text that no fact reports, or something called fine without a fact that says so; null
 * if there is neither.
 */
export function verdictIn (text: string, { facts, unknown, examined }: Known): string | null {
  const names = namesOf(facts)
  const clauses = sentencesOf(text.replace(SPAN, ' '))
    .flatMap((one) => one.split(/;| but | while | whereas /))
  for (const clause of clauses) {
    const about = names.filter((name) => standsIn(clause, name))
    const meant = facts.filter((fact) => about.length === 0 ||
      about.some((name) => standsIn(wholeOf(fact), name)))
    const seen = about.length === 0 ? examined : meant.some(({ level }) => level === 'ok')
    const fine = seen && !meant.some(({ level }) => level === 'fail' || level === 'warn')
    if (FINE.test(clause) && !fine) return `it calls fine what was not found so: ${clause}`
    const backed = meant.some(tellsFault) ||
      unknown.some((doubt) => tellsWords(doubt) || /could not|cannot/.test(doubt))
    if (tellsWords(clause) && !backed) return `nothing was found to be wrong there: ${clause}`
  }
  return null
}

/** The problem if the text names nothing that is broken, or no subject of the answer; otherwise null. */
export function subjectIn (text: string, { facts, about }: Known): string | null {
  const lacks = (names: readonly string[]): boolean =>
    names.length > 0 && !names.some((name) => standsIn(text, name))
  if (lacks(facts.filter(({ level }) => level === 'fail').flatMap((fact) => fact.about))) {
    return 'it does not name what is broken'
  }
  return lacks(about) ? 'it names nothing of what was asked for' : null
}

const tellsWords = (text: string): boolean =>
  FAULT.test(text.replace(LACKS, ' broken ').replace(NEGATED, ' '))
const tellsFault = ({ level, text }: Fact): boolean =>
  level === 'fail' || level === 'warn' || (level === 'info' && tellsWords(text))
