import { meanChances, parsePattern, wordChances } from './patterns.js'
import { isPair, likeness, oneEdit, trigrams, Vocabulary } from './text.js'
import type { GuideEntry } from './entries.js'

export interface Found {
  /** The answer, or the sentence that declines a question that is not about svc. */
  readonly answer: string
  /** The sheet's id; `decline` for questions that are not about svc. */
  readonly id: string
  /** False if another answer is about as likely, or no sheet is similar to the question. */
  readonly sure: boolean
  /** The nearest sheets, at most three, best first; empty for questions that are not about svc. */
  readonly near: readonly { readonly id: string, readonly title: string }[]
}

/** Searches for the answer to a question; deterministic. */
export type Search = (question: string) => Found

const DECLINE = 'decline'
/** Limit on characters of a question; the rest is ignored. */
const LONGEST = 400
/** Weight of a word's frequency within a sheet; its frequency over all sheets gets the remaining weight. */
const MIX = 0.85
/** Weight of words that occur only in a sheet's title or answer. */
const TEXT_WEIGHT = 0.08
/** Minimum similarity at which an unknown word counts as a known one. */
const SPELLING = 0.55
/**
 * Thresholds of a sure answer: lead over the next sheet (natural log), and similarity to the nearest pattern
 * (cosine).
 */
const SURE_LEAD = 1.5
const SURE_NEAREST = 0.4
/** If the best sheet scores lower than this, the question counts as not about svc. */
const FLOOR = 1.6
/** Similarity of two words that are one typo apart. */
const SLIP = 0.85
/** Lead that the sheet `decline` needs to win, because svc questions may contain unrelated words. */
const DECLINE_LEAD = 1
/** Share of unrelated words above which a question is not about svc. */
const STRANGE = 0.55
/** Penalty for sheets of declared words, since a question about one usually contains the word itself. */
const CODE_PRIOR = -1.5

/** A sheet, and for each word and word pair the probability that a question about the sheet contains it. */
interface Entry {
  readonly sheet: GuideEntry
  readonly chances: ReadonlyMap<string, number>
  /** Word probabilities per pattern. */
  readonly patterns: readonly ReadonlyMap<string, number>[]
}

/**
 * Builds the search. Declared words match exactly. Other questions use naive Bayes: each sheet's patterns
 * give word probabilities, and the sheet that explains the words best wins. An unknown word counts as the
 * known one with the most similar trigrams. `groups` are lists of synonyms.
 */
export function makeSearch (sheets: readonly GuideEntry[], groups: readonly (readonly string[])[]): Search {
  const vocabulary = new Vocabulary(groups)
  const entries = sheets.map((sheet) => entryOf(sheet, vocabulary))
    .filter(({ patterns }) => patterns.length > 0)
  const background = backgroundOf(entries)
  const own = new Set(entries.filter(({ sheet }) => isSubject(sheet))
    .flatMap(({ chances }) => [...chances.keys()]))
  const spelling = speller([...background.keys()].filter((word) => !isPair(word)))
  const exact = codeIndex(sheets)
  if (!entries.some(({ sheet }) => sheet.id === DECLINE)) throw new Error(`no sheet is called ${DECLINE}`)
  return (question) => {
    const asked = question.slice(0, LONGEST)
    const words = weigh(vocabulary.terms(asked), background, spelling)
    const ranked = rank(entries, background, words)
    const codes = exact(asked)
    return codes.length > 0 ? foundCodes(codes, ranked) : foundWords(ranked, strangeness(words, own))
  }
}

/** A sheet's score, and its nearest pattern's similarity to the question, 0 to 1. */
interface Ranked { readonly sheet: GuideEntry, readonly score: number, readonly nearest: number }

function foundCodes (codes: readonly GuideEntry[], ranked: readonly Ranked[]): Found {
  const others = ranked.map(({ sheet }) => sheet)
    .filter((sheet) => isSubject(sheet) && !codes.includes(sheet))
  return {
    answer: codes.map(({ answer }) => answer).join('\n'), id: codes[0]!.id, sure: true,
    near: [...codes, ...others].slice(0, 3).map(({ id, title }) => ({ id, title }))
  }
}

function foundWords (ranked: readonly Ranked[], strange: number): Found {
  const decline = ranked.findIndex(({ sheet }) => sheet.id === DECLINE)
  const others = ranked.toSpliced(decline, 1)
  const [first, second] = others
  const near = others.filter(({ sheet }) => isSubject(sheet)).slice(0, 3)
    .map(({ sheet: { id, title } }) => ({ id, title }))
  const outside = ranked[decline]!.score - (first?.score ?? 0)
  const talk = first !== undefined && !isSubject(first.sheet)
  if (first === undefined || first.score < FLOOR || outside > DECLINE_LEAD || (strange > STRANGE && !talk)) {
    return { answer: ranked[decline]!.sheet.answer, id: DECLINE, sure: true, near: [] }
  }
  const lead = first.score - Math.max(second?.score ?? 0, ranked[decline]!.score)
  return {
    answer: first.sheet.answer, id: first.sheet.id,
    sure: lead >= SURE_LEAD && first.nearest >= SURE_NEAREST, near
  }
}

const isSubject = ({ id }: GuideEntry): boolean => id !== DECLINE && !id.startsWith('small.')

/** Word probabilities of the sheet's questions and of each pattern. */
function entryOf (sheet: GuideEntry, vocabulary: Vocabulary): Entry {
  const plain = (text: string): string => text.replace(/<\w+>/g, ' ')
  const patterns = Object.values(sheet.asked).flat()
    .map((text) => wordChances(parsePattern(plain(text)), (part) => vocabulary.terms(part)))
  const chances = meanChances(patterns)
  const stand = Object.values(sheet.words ?? {}).flat()
  for (const word of vocabulary.words(stand.join(' '))) add(chances, word, TEXT_WEIGHT)
  if (isSubject(sheet)) {
    for (const word of vocabulary.words(sheet.title)) add(chances, word, 2 * TEXT_WEIGHT)
    for (const word of vocabulary.words(sheet.answer)) add(chances, word, TEXT_WEIGHT)
  }
  return { sheet, chances, patterns }
}

const add = (chances: Map<string, number>, word: string, chance: number): void => {
  chances.set(word, 1 - (1 - (chances.get(word) ?? 0)) * (1 - chance))
}

/** Word probabilities over all sheets. */
const backgroundOf = (entries: readonly Entry[]): Map<string, number> =>
  meanChances(entries.map(({ chances }) => chances))

/** A known word and its similarity to an unknown one. */
type Spelled = readonly [word: string, likeness: number]

/** Returns a function that finds the most similar known word for an unknown one. */
function speller (known: readonly string[]): (word: string) => Spelled | undefined {
  const parts = known.filter((word) => word.length > 3).map((word) => [word, trigrams(word)] as const)
  return (word) => {
    if (word.length < 4) return undefined
    const own = trigrams(word)
    let best: Spelled | undefined
    for (const [other, its] of parts) {
      const like = oneEdit(word, other.replace('=', '')) ? SLIP : likeness(own, its)
      if (like >= SPELLING && like > (best?.[1] ?? 0)) best = [other, like]
    }
    return best
  }
}

/** A word or word pair of a question. `word`: the known word that matches it; `weight`: at most 1. */
interface Weighed {
  readonly word: string | undefined
  readonly weight: number
  /** `empty` is a word with little meaning, such as "how". */
  readonly kind: 'meaningful' | 'empty' | 'pair'
}

function weigh (
  words: readonly string[], known: ReadonlyMap<string, number>, spelling: ReturnType<typeof speller>
): Weighed[] {
  return words.flatMap((word): Weighed[] => {
    if (isPair(word)) return known.has(word) ? [{ word, weight: PAIR_WEIGHT, kind: 'pair' }] : []
    if (word.startsWith('~')) {
      return [{ word: known.has(word) ? word : undefined, weight: EMPTY_WEIGHT, kind: 'empty' }]
    }
    if (known.has(word)) return [{ word, weight: 1, kind: 'meaningful' }]
    const like = spelling(word)
    return [{ word: like?.[0], weight: like?.[1] ?? 1, kind: 'meaningful' }]
  })
}

/** Share of the question's words that no svc question contains; a misspelled word counts only in part. */
function strangeness (words: readonly Weighed[], own: ReadonlySet<string>): number {
  const meaningful = words.filter(({ kind }) => kind === 'meaningful')
  if (meaningful.length === 0) return 0
  const strange = meaningful.reduce((sum, { word, weight }) =>
    sum + (word === undefined || !own.has(word) ? 1 : 1 - weight), 0)
  return strange / meaningful.length
}

/** Weight of a word with little meaning, such as "how". */
const EMPTY_WEIGHT = 0.25
/** Weight of a word pair; low, because its two words are also counted singly. */
const PAIR_WEIGHT = 0.25
/** Rarity of a word that occurs in no sheet, as -ln of its assumed probability. */
const UNKNOWN = 4
/** Weight of the similarity to a sheet's nearest pattern in the sheet's score. */
const NEAREST = 4
/** Added to each word's overall probability, in units of one sheet, so that rare words do not dominate. */
const COMMON = 0.5

function rank (
  entries: readonly Entry[], background: ReadonlyMap<string, number>, words: readonly Weighed[]
): Ranked[] {
  const rare = (word: string | undefined): number =>
    word === undefined ? UNKNOWN : rarity(background.get(word)!)
  const single = words.filter(({ kind }) => kind !== 'pair')
  const length = Math.sqrt(single.reduce((sum, { word, weight }) => sum + (weight * rare(word)) ** 2, 0))
  return entries.map(({ sheet, chances, patterns }) => {
    const shared = words.flatMap(({ word, weight, kind }) => {
      const chance = word === undefined ? undefined : chances.get(word)
      return chance === undefined ? [] : [{ word: word!, weight, chance, kind }]
    })
    const least = COMMON / entries.length
    const score = shared.reduce((sum, { word, weight, chance }) =>
      sum + weight * Math.log(1 + MIX / (1 - MIX) * chance / (background.get(word)! + least)), 0)
    const nearest = Math.max(...patterns.map((pattern) => {
      const dot = shared.filter(({ word, kind }) => kind !== 'pair' && pattern.has(word))
        .reduce((sum, { word, weight }) => sum + weight * rare(word) ** 2, 0)
      return dot === 0 ? 0 : dot / (length * lengthOf(pattern, rare))
    }))
    const prior = sheet.id.includes(':') ? CODE_PRIOR : 0
    return { sheet, score: score + NEAREST * nearest + prior, nearest }
  }).sort((a, b) => b.score - a.score || (a.sheet.id < b.sheet.id ? -1 : 1))
}

/** Expected length of the vector of a pattern's words, each weighted by its rarity; for cosine similarity. */
function lengthOf (pattern: ReadonlyMap<string, number>, rare: (word: string) => number): number {
  let sum = 0
  for (const [word, chance] of pattern) {
    if (isPair(word)) continue
    sum += chance * ((word.startsWith('~') ? EMPTY_WEIGHT : 1) * rare(word)) ** 2
  }
  return Math.sqrt(sum)
}

const rarity = (chance: number): number => Math.log(1 / Math.min(chance, 0.9))

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
function codeIndex (sheets: readonly GuideEntry[]): (question: string) => GuideEntry[] {
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
