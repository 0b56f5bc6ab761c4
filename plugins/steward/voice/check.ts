import type { Evidence, Fact } from '../../../kernel/cli/index.js'

export interface Known {
  readonly facts: readonly Fact[]
  readonly unknown: readonly string[]
  readonly question: string
  /** Whether the whole cluster was examined; if not, the text must not say that everything is fine. */
  readonly examined: boolean
  /** Subjects of the answer's facts. The text must name one of them, unless the list is empty. */
  readonly about: readonly string[]
  /** Subjects of the faults that the answer is about; without it those of all faults. */
  readonly broken?: readonly string[]
}

/** Character limit for a model's text; longer texts are rejected. */
const TEXT_MOST = 4000
/** Matches text in backticks. */
const SPAN = /`+([^`]*)`+/g

/**
 * Why a model's text must not be shown; null if the facts support all of it. Pure. Commands must be remedies
 * from this turn, verbatim; ids, names, paths, codes, times and numbers must occur in the facts or the
 * question. The text must not report a fault that was not found, or call something fine that was not.
 */
export function problemOf (text: string, known: Known): string | null {
  if (text.trim() === '') return 'it says nothing'
  if (text.length > TEXT_MOST) return `it is longer than ${TEXT_MOST} characters`
  const clean = text.replace(/\r\n/g, '\n').replace(/\t/g, ' ')
  for (const look of [markupIn, commandsIn, namesIn, amountsIn, verdictIn, subjectIn]) {
    const problem = look(clean, known)
    if (problem !== null) return problem
  }
  return null
}

const FORBIDDEN: readonly (readonly [what: string, pattern: RegExp])[] = [
  ['characters that steer a terminal', /[^\P{Cc}\n]|[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/u],
  ['markup', /[{}]|<[a-z/|!]|\[\/?[A-Z_]{3,}\]|\]\(|"(?:tool_calls?|function|arguments)"\s*:/i],
  ['an order to a model',
    /\b(?:ignore|disregard|forget)\b.{0,30}\b(?:instructions?|above|previous|rules)\b|system prompt/i],
  ['a secret: an operator token, a key or a password',
    /\b(?:passwords?|secrets?|credentials?|(?:private|api) keys?|operator(?:'s|\.)? ?tokens?|node\.key)\b/i]
]

function markupIn (text: string): string | null {
  const found = FORBIDDEN.find(([, pattern]) => pattern.test(text))
  return found === undefined ? null : `it has ${found[0]}`
}

const SHELL =
  /(?:^|\s)(?:\$|sudo|curl|wget|ssh|rm|kill|chmod|docker|kubectl|systemctl|powershell) |\bsvc [a-z]/m

/** Text in backticks must be a command from this turn's remedies, or a single known word. */
function commandsIn (text: string, known: Known): string | null {
  const commands = new Set(known.facts.flatMap(({ remedy }) =>
    [...(remedy ?? '').matchAll(SPAN)].map(([, command]) => command!.trim())))
  const all = corpusOf(known)
  for (const line of [...text.matchAll(SPAN)].flatMap(([, span]) => span!.split('\n'))) {
    const said = line.trim()
    const isWord = !/\s/.test(said) && !said.startsWith('svc') && standsIn(all, said)
    if (said !== '' && !commands.has(said) && !isWord) return `\`${said}\` is no command of this turn`
  }
  const rest = text.replace(SPAN, '\u0000')
  if (rest.includes('`')) return 'a backtick stands alone'
  return SHELL.test(rest) ? 'it has a command outside of backticks' : null
}

const KIND = /^(?:nodes?|models?|instances?|runners?|hosts?|machines?|master|called|named)$/
/** Words that are no names, although they follow "node" or "model". */
const PLAIN = new RegExp('^(?:is|are|was|were|be|been|has|have|had|will|would|can|could|may|might|must|' +
  'should|do(?:es)?|did|' +
  'needs?|that|which|wh\\w+|because|since|until|so|if|as|and|or|but|nor|not?|also|only|still|now|then|' +
  'th\\w+|here|in|on|' +
  'at|to|of|for|from|by|with(?:out)?|into|over|under|after|before|an?|its?|all|any|each|both|ones?|out|up|' +
  'down|lost|' +
  'gone|away|back|\\w+(?:ed|ing|able|s)|free|full|fine|dead|offline|ran|run|fit|live|alive|ready|went|' +
  'came|again|' +
  'already|just|never|more|less|too|very|instead|other|known|unknown|key|log|card|state|status|memory|' +
  'disk|name|id)$')
const CAPITALS = new RegExp('^(?:I|API|[CG]PU|V?RAM|HTTPS?|IDs?|OK|[KMGT]i?B|UTC|JSON|TTL|URL|SSE|TLS|TTS|' +
  'and/or|e\\.g|i\\.e|n/a)$')
const ENCLOSING = /^[(["'“‘*_|#-]+(?=\S)|(?<![)\]"'”’*_|.,;:!?…])[)\]"'”’*_|.,;:!?…]+$/g

/** An id, name, path, code or quotation in the text that occurs neither in the findings nor the question. */
function namesIn (text: string, known: Known): string | null {
  const all = corpusOf(known)
  // Fact texts may quote logs, so an address in them is not trusted.
  const trusted = [known.question, ...known.facts.map((one) => wholeOf({ ...one, text: '' }))].join('\n')
  const rest = text.replace(SPAN, ' ')
  for (const [, plain, curly] of rest.matchAll(/"([^"\n]*)"|“([^“”\n]*)”/g)) {
    const said = (plain ?? curly ?? '').trim().replace(/(?<![.,;:!?…])[.,;:!?…]+$/, '')
    if (!all.includes(said)) return `nobody said "${said}"`
  }
  for (const sentence of sentencesOf(rest)) {
    const words = sentence.split(/\s+/).map((word) => word.replace(ENCLOSING, '').replace(/['’]s$/, ''))
      .filter(Boolean)
    for (const [i, word] of words.entries()) {
      const follows = KIND.test(words[i - 1]?.toLowerCase() ?? '') && /^[a-z-]+$/.test(word) &&
        !PLAIN.test(word)
      const stands = standsIn(all, word) || standsIn(all, word.toLowerCase())
      if (/:\/\/|^www\.|@/.test(word) &&
        !trusted.includes(word)) return `"${word}" is no address of this cluster`
      if ((follows || isName(word, i)) && !stands) return `"${word}" was not found`
    }
  }
  return null
}

function isName (word: string, place: number): boolean {
  if (CAPITALS.test(word) || (/^[~≈+-]?\d/.test(word) && amountsOf(word).length === 1)) return false
  return /\d|[a-z][A-Z]|[A-Z]{2}|[_/\\@=]|:\/\/|[a-z]\.[a-z]|^--?[a-z]/.test(word) ||
    (place > 0 && /^[A-Z]/.test(word))
}

/** All texts in which a name may occur; the date and the time of day of an ISO time count as words. */
function corpusOf ({ facts, unknown, question }: Known): string {
  const all = [question, ...unknown, ...facts.map((one) => `${wholeOf(one)}\n${one.code}`)].join('\n')
  return all + [...all.matchAll(/(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?/g)]
    .map(([, day, minute, second = '']) => `\n${day!} ${minute!} ${minute!}${second}`).join('')
}

const wholeOf = ({ text, about, remedy, evidence }: Fact): string => [text, ...about, remedy ?? '',
  ...evidence.map((one: Evidence) => Object.values(one).slice(1).join(' '))].join('\n')

const namesOf = (facts: readonly Fact[]): string[] => [...new Set(facts.flatMap(({ about, evidence }) =>
  [...about, ...evidence.flatMap((one) => one.kind === 'node' ? [one.name] : [])]))].filter((name) =>
  name !== '')

/** Sentences and lines, without Markdown list and heading marks. */
const sentencesOf = (text: string): string[] => text.split(/(?<=[.!?])\s+|\n+/)
  .map((line) => line.replace(/^\s*(?:#{1,4}\s+|[-*•]\s+|\d{1,2}[.)]\s+)*/, '').trim())
  .filter((line) => line !== '')

function standsIn (text: string, word: string): boolean {
  const letter = /[\p{L}\p{N}_]/u
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (!letter.test(text[at - 1] ?? ' ') && !letter.test(text[at + word.length] ?? ' ')) return true
  }
  return false
}

/** A number in text: its value in the base unit, half of its last digit there, and the base unit. */
interface Amount { readonly value: number, readonly half: number, readonly unit: string,
  readonly text: string }

const UNITS: readonly (readonly [words: RegExp, unit: string, factor: number])[] = [
  [/^(?:%|percent|prozent|por ciento|pour cent)$/, '%', 1], [/^(?:B|bytes?)$/, 'B', 1], [/^[kK]B$/, 'B', 1e3],
  [/^(?:MB|megabytes?)$/, 'B', 1e6], [/^(?:GB|gigabytes?)$/, 'B', 1e9], [/^TB$/, 'B', 1e12],
  [/^KiB$/, 'B', 2 ** 10],
  [/^MiB$/, 'B', 2 ** 20], [/^GiB$/, 'B', 2 ** 30], [/^TiB$/, 'B', 2 ** 40],
  [/^(?:ms|milliseconds?)$/, 's', 1e-3],
  [/^(?:s|sec|seconds?)$/, 's', 1], [/^(?:m|min|minutes?)$/, 's', 60], [/^(?:h|hours?)$/, 's', 3600],
  [/^(?:d|days?)$/, 's', 86_400]
]
/** Excludes digits inside an id, a time, a version or an address. */
const NUMBER = new RegExp('(?<![\\p{L}\\p{N}_.:/@#-])' +
  '(\\d{1,3}(?:,\\d{3}){1,9}(?:\\.\\d{1,9})?|\\d{1,40}(?:\\.\\d{1,9})?)' +
  '(?:\\s?(%|[A-Za-z]{1,20}))?(?![\\p{L}\\p{N}_]|[.,:/@-]\\d|[:/@-]\\p{L})', 'gu')
const SPELT = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten',
  'eleven', 'twelve']

/** The numbers in text, also those from "two" to "twelve", in base units: bytes, seconds, percent or none. */
export function amountsOf (text: string): Amount[] {
  const spelt = text.replace(/\b[a-z]+\b/gi, (word) => {
    const value = SPELT.indexOf(word.toLowerCase())
    return value < 2 ? word : String(value)
  })
  return [...spelt.matchAll(NUMBER)].map(([whole, number, word = '']): Amount => {
    const [, unit, factor] = UNITS.find(([words]) => words.test(word)) ?? [null, '', 1]
    const digits = number!.split('.')[1]?.length ?? 0
    return { value: Number(number!.replaceAll(',', '')) * factor, half: 0.5 * 10 ** -digits * factor, unit,
      text: whole.trim() }
  })
}

const fits = ({ value, half, unit }: Amount, among: readonly Amount[]): boolean => among.some((one) =>
  (unit === '' ? one.value === value : one.unit === unit && Math.abs(one.value - value) <= half * 1.0001))

/**
 * Each number must be in a fact about the subject of its sentence, after conversion of units and rounding.
 */
function amountsIn (text: string, { facts, unknown, question }: Known): string | null {
  const free = [question, ...unknown].flatMap(amountsOf)
  const told = facts.map((one) => ({ whole: wholeOf(one), amounts: amountsOf(wholeOf(one)) }))
  const alike = (key: (fact: Fact) => string): number[] =>
    facts.map((fact) => facts.filter((one) => key(one) === key(fact)).length)
  const names = namesOf(facts)
  const counts = new Set([facts.length, names.length, ...alike(({ level }) => level),
    ...alike(({ code }) => code)])
  for (const sentence of sentencesOf(text.replace(SPAN, ' '))) {
    const about = names.filter((name) => standsIn(sentence, name))
    for (const amount of amountsOf(sentence)) {
      if (fits(amount, free) || (amount.unit === '' && counts.has(amount.value))) continue
      const said = told.filter(({ amounts }) => fits(amount, amounts))
      if (said.length === 0) return `${amount.text} was not found`
      if (about.length > 0 && !said.some(({ whole }) => about.some((name) => standsIn(whole, name)))) {
        return `${amount.text} is not that of ${about.join(', ')}`
      }
    }
  }
  return null
}

const FAULTS = '(?:down|lost|dead|unreachable|offline|fail(?:s|ed|ing|ures?)?|broken|crash(?:ed|es|ing)?|' +
  'errors?|faults?|' +
  'faulty|stopped|missing|full|corrupt(?:ed)?|expired|refused|stuck|hung|overloaded|unavailable|degraded|' +
  'wrong|problems?|' +
  'trouble|lacks)'
const LACKS = new RegExp('\\b(?:not|cannot|can\'t|doesn\'t|isn\'t|aren\'t)\\s+(?:answer|fit|start|respond|' +
  'run|load|ready|' +
  'available|reachable|enough|placed|alive)\\w*', 'gi')
const NEGATED = new RegExp(
  `\\b(?:no|not|nothing|none|never|without|neither|nor)\\b[^.,;]{0,40}?\\b${FAULTS}\\b`, 'gi')
const FINE = new RegExp('\\b(?:all (?:is |are |nodes are |models are )?(?:fine|well|good|healthy|ok|okay|' +
  'up|ready)|' +
  'everything (?:is|works|looks|seems|runs)|nothing (?:is|seems) (?:wrong|broken)|no (?:problems?|faults?|' +
  'errors?|issues?)|' +
  '(?:is|are|looks|seems) (?:fine|healthy|well|ok|okay|good)|works? (?:fine|well))\\b', 'i')
const tellsFault = (text: string): boolean =>
  new RegExp(`\\b${FAULTS}\\b`, 'i').test(text.replace(LACKS, ' broken ').replace(NEGATED, ' '))

/** A fault in the text that no fact reports, or something called fine without a fact that says so. */
function verdictIn (text: string, { facts, unknown, examined }: Known): string | null {
  const names = namesOf(facts)
  for (const clause of sentencesOf(text.replace(SPAN, ' '))
    .flatMap((one) => one.split(/;| but | while | whereas /))) {
    const about = names.filter((name) => standsIn(clause, name))
    const meant = facts.filter((fact) => about.length === 0 ||
      about.some((name) => standsIn(wholeOf(fact), name)))
    const bad = meant.some(({ level }) => level === 'fail' || level === 'warn')
    const seen = about.length === 0 ? examined : meant.some(({ level }) => level === 'ok')
    if (FINE.test(clause) && (!seen || bad)) return `it calls fine what was not found so: ${clause}`
    const backed = bad || meant.some(({ level, text }) => level === 'info' && tellsFault(text)) ||
      unknown.some((doubt) => tellsFault(doubt) || /could not|cannot/.test(doubt))
    if (tellsFault(clause) && !backed) return `nothing was found to be wrong there: ${clause}`
  }
  return null
}

export const brokenIn = (facts: readonly Fact[]): string[] =>
  facts.filter(({ level }) => level === 'fail').flatMap(({ about }) => about)

/** The problem if the text names nothing that is broken, or no subject of the answer. */
function subjectIn (text: string, { facts, about, broken }: Known): string | null {
  const lacks = (names: readonly string[]): boolean => names.length > 0 &&
    !names.some((name) => standsIn(text, name))
  if (lacks(broken ?? brokenIn(facts))) {
    return 'it does not name what is broken'
  }
  return lacks(about) ? 'it names nothing of what was asked for' : null
}
