import { amountsIn, subjectIn, verdictIn } from './claims.js'
import { commandsOf, corpusOf, SPAN, type Known } from './corpus.js'
import { wordsIn } from './words.js'

/** Character limit for a model's text; longer texts are rejected. */
const TEXT_MOST = 4000

/**
 * Why a model's text must not be shown; null if the facts support all of it. Pure. Commands must be remedies
 * from this turn, verbatim. Ids, names, paths, codes, times and numbers must occur in the facts or the
 * question, quotations in the facts, and a number must belong to its subject. The text must not report a
 * fault that was not found, or call something fine that was not found to be.
 */
export function problemOf (text: string, known: Known): string | null {
  if (text.trim() === '') return 'it says nothing'
  if (text.length > TEXT_MOST) return `it is longer than ${TEXT_MOST} characters`
  const clean = text.replace(/\r\n/g, '\n').replace(/\t/g, ' ')
  for (const look of [markupIn, commandsIn, quotationsIn, wordsIn, amountsIn, verdictIn, subjectIn]) {
    const problem = look(clean, known)
    if (problem !== null) return problem
  }
  return null
}

const STEERING = /[^\P{Cc}\n]|[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/u
const MARKUP = /[{}]|<[a-z/|!]|\[\/?[A-Z_]{3,}\]|\]\(|"(?:tool_calls?|function|arguments)"\s*:/i
const ORDERS =
  /\b(?:ignore|disregard|forget)\b.{0,30}\b(?:instructions?|above|previous|rules)\b|system prompt/i
const SECRETS =
  /\b(?:passwords?|secrets?|credentials?|(?:private|api) keys?|operator(?:'s|\.)? ?tokens?|node\.key)\b/i

function markupIn (text: string): string | null {
  if (STEERING.test(text)) return 'it has characters that steer a terminal'
  const markup = MARKUP.exec(text)
  if (markup !== null) return `it has markup: ${markup[0]}`
  if (ORDERS.test(text)) return 'it repeats an order to a model'
  const secret = SECRETS.exec(text)
  return secret === null ? null : `it speaks of a ${secret[0]}`
}

const SHELL = /(?:^|\s)(?:\$|sudo|curl|wget|ssh|rm|kill|chmod|docker|kubectl|systemctl|powershell) /m

/** Checks that any text in backticks is a command from this turn's remedies, or a single known word. */
function commandsIn (text: string, known: Known): string | null {
  const commands = commandsOf(known.facts)
  const corpus = corpusOf(known)
  for (const [, span] of text.matchAll(SPAN)) {
    for (const line of span!.split('\n').map((one) => one.trim()).filter((one) => one !== '')) {
      const isWord = !/\s/.test(line) && !line.startsWith('svc') && corpus.has(line)
      if (!commands.has(line) && !isWord) return `\`${line}\` is no command of this turn`
    }
  }
  const rest = text.replace(SPAN, '\u0000')
  if (rest.includes('`')) return 'a backtick stands alone'
  if (SHELL.test(rest)) return 'it has a command outside of backticks'
  const bare = /\bsvc [a-z]\S*/i.exec(rest)
  return bare === null ? null : `it has a command outside of backticks: ${bare[0]}`
}

/** Checks that quotations occur in the facts. */
function quotationsIn (text: string, known: Known): string | null {
  const corpus = corpusOf(known)
  for (const [, plain, curly] of text.replace(SPAN, '').matchAll(/"([^"\n]*)"|“([^“”\n]*)”/g)) {
    const said = (plain ?? curly ?? '').trim().replace(/(?<![.,;:!?…])[.,;:!?…]+$/, '')
    if (said !== '' && !corpus.includes(said)) return `nobody said "${said}"`
  }
  return null
}
