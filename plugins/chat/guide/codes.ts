import type { GuideEntry } from './entries.js'

/** Words that may surround a declared word that is also a plain English word, as in "what does lost mean". */
const AROUND = new Set((
  'a an and the what is are does do did mean means meaning of for i got get getting have error code ' +
  'reason event status health state setting key verb command route authority exit svc about explain ' +
  'it this that why how tell me in on to you please help http says returns returned shows with'
).split(' '))
const PLAIN = /^[a-z]+$/
/** A number means an exit code only in a question with one of these words. */
const EXIT = /\b(?:exit(?:ed|s|code)?|status|code|returned|returns|ended|\$\?)\b/i

/**
 * Finds the sheets of declared words in a question, in order of appearance; may be empty. A declared word
 * that is also plain English is found only if the question has no other meaningful words.
 */
export function codeIndex (sheets: readonly GuideEntry[]): (question: string) => GuideEntry[] {
  const byWord = new Map<string, GuideEntry[]>()
  const exits = new Map<string, GuideEntry>()
  for (const sheet of sheets) {
    if (sheet.code === undefined) continue
    if (sheet.id.startsWith('exit:')) exits.set(sheet.code, sheet)
    else for (const key of keysOf(sheet.code)) byWord.set(key, [...byWord.get(key) ?? [], sheet])
  }
  return (question) => {
    const phrase = byWord.get(question.trim().toLowerCase().replace(/[?.!`'"]+/g, ''))
    if (phrase !== undefined) return phrase
    const words = codeWords(question)
    const bare = words.filter((word) => !AROUND.has(word))
    const verb = byWord.get(bare.join(' '))
    if (verb !== undefined && bare.every((word) => PLAIN.test(word) || words.length <= 3)) return verb
    const named = words.flatMap((word) => PLAIN.test(word) || word.length < 4 ? [] : byWord.get(word) ?? [])
    if (named.length > 0) return [...new Set(named)]
    const numbers = EXIT.test(question) ? bare.flatMap((word) => exits.get(word) ?? []) : []
    return bare.some((word) => !PLAIN.test(word) && !exits.has(word)) ? [] : numbers.slice(0, 1)
  }
}

/** Lookup keys of a declared word, in lower case. Routes also match without a method, verbs without `svc`. */
function keysOf (code: string): string[] {
  const key = code.toLowerCase()
  const [, path] = /^(?:get|post|put|delete) (.*)$/.exec(key) ?? []
  const verb = /^svc (.*)$/.exec(key)?.[1]
  return [key, ...(path === undefined ? [] : [path]), ...(verb === undefined ? [] : [verb])]
}

/** Splits a question into words; paths and dotted names stay in one piece. */
const codeWords = (question: string): string[] =>
  question.toLowerCase().split(/[\s,;`'"()]+/).map((word) => word.replace(/(?<![?.!:])[?.!:]+$/, ''))
    .filter((word) => word !== '')
