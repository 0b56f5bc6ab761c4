import { codeIndex } from './codes.js'
import { meanChances, parsePattern, wordChances } from './patterns.js'
import { isPair, likeness, oneEdit, trigrams, Vocabulary } from './text.js'
import type { GuideEntry } from './entries.js'

/** What was found for a question. */
export interface Found {
  /** The answer; of a question that is not about svc the sentence that says so. */
  readonly answer: string
  /** The sheet it stands on; `decline` for what is not about svc. */
  readonly id: string
  /** False where another answer is about as likely, or the question has little in common with any. */
  readonly sure: boolean
  /** The sheets that are nearest, at most three, the best first; none for what is not about svc. */
  readonly near: readonly { readonly id: string, readonly title: string }[]
}

/** Looks questions up. The same question has the same answer in every run. */
export type Search = (question: string) => Found

const DECLINE = 'decline'
/** Longest question that is looked at, characters. */
const LONGEST = 400
/** Weight of the share of a sheet's questions that have a word, against how common the word is everywhere. */
const MIX = 0.85
/** A word that no question of a sheet has counts this little: it may be in the title or the answer. */
const TEXT_WEIGHT = 0.08
/** Least likeness at which an unknown word counts as a known one. */
const SPELLING = 0.55
/** Least lead over the next sheet, natural logarithms, and least likeness to a pattern (cosine). */
const SURE_LEAD = 1.5
const SURE_NEAREST = 0.4
/** A best score below this is no answer at all. */
const FLOOR = 1.6
/** Likeness of two words that are one typo apart. */
const SLIP = 0.85
/** Score by which the refusal has to lead: a question about svc may have words from elsewhere. */
const DECLINE_LEAD = 1
/** Share of words from elsewhere above which a question is not about svc. */
const STRANGE = 0.55
/** Added to the score of a sheet of a declared word: most people ask for it by that word. */
const CODE_PRIOR = -1.5

/** A sheet with what is known of the words in questions for it, and of pairs of words. */
interface Entry {
  readonly sheet: GuideEntry
  readonly chances: ReadonlyMap<string, number>
  /** The chances of the words of each of its patterns. */
  readonly patterns: readonly ReadonlyMap<string, number>[]
}

/**
 * Makes the search. Declared words are found exactly; other questions by their words: each sheet's patterns
 * say how likely a word is in a question for it, and the sheet that explains the words best wins. A word
 * that is not known counts as the known one whose trigrams are most like its own.
 * `groups` are lists of words that mean the same.
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

/** A sheet's score, and how like the question its nearest pattern is, 0 to 1. */
interface Ranked { readonly sheet: GuideEntry, readonly score: number, readonly nearest: number }

function foundCodes (codes: readonly GuideEntry[], ranked: readonly Ranked[]): Found {
  const others = ranked.map(({ sheet }) => sheet)
    .filter((sheet) => isSubject(sheet) && !codes.includes(sheet))
  return {
    answer: codes.map(({ answer }) => answer).join('\n'),
    id: codes[0]!.id,
    sure: true,
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
    answer: first.sheet.answer,
    id: first.sheet.id,
    sure: lead >= SURE_LEAD && first.nearest >= SURE_NEAREST,
    near
  }
}

const isSubject = ({ id }: GuideEntry): boolean => id !== DECLINE && !id.startsWith('small.')

/** How likely each word is in a question for the sheet, and in one of each of its patterns. */
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

/** How likely each word is in a question for any sheet. */
const backgroundOf = (entries: readonly Entry[]): Map<string, number> =>
  meanChances(entries.map(({ chances }) => chances))

/** A known word, and how like it a word is. */
type Spelled = readonly [word: string, likeness: number]

/** A function that finds the known word most like an unknown one, and how like it is. */
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

/** A word or pair of a question: the known one it counts as, if any, and its weight of at most 1. */
interface Weighed {
  readonly word: string | undefined
  readonly weight: number
  /** An empty word says little about the subject. */
  readonly kind: 'telling' | 'empty' | 'pair'
}

function weigh (
  words: readonly string[], known: ReadonlyMap<string, number>, spelling: ReturnType<typeof speller>
): Weighed[] {
  return words.flatMap((word): Weighed[] => {
    if (isPair(word)) return known.has(word) ? [{ word, weight: PAIR_WEIGHT, kind: 'pair' }] : []
    if (word.startsWith('~')) {
      return [{ word: known.has(word) ? word : undefined, weight: EMPTY_WEIGHT, kind: 'empty' }]
    }
    if (known.has(word)) return [{ word, weight: 1, kind: 'telling' }]
    const like = spelling(word)
    return [{ word: like?.[0], weight: like?.[1] ?? 1, kind: 'telling' }]
  })
}

/** The share of a question's words that no question about svc has; one like a known one counts in part. */
function strangeness (words: readonly Weighed[], own: ReadonlySet<string>): number {
  const telling = words.filter(({ kind }) => kind === 'telling')
  if (telling.length === 0) return 0
  const strange = telling.reduce((sum, { word, weight }) =>
    sum + (word === undefined || !own.has(word) ? 1 : 1 - weight), 0)
  return strange / telling.length
}

/** Weight of a word that says little, such as "how". */
const EMPTY_WEIGHT = 0.25
/** Weight of a pair of words: its words count already. */
const PAIR_WEIGHT = 0.25
/** Rarity of an unknown word. */
const UNKNOWN = 4
/** What the nearest pattern counts against the words of all patterns of a sheet. */
const NEAREST = 4
/** A word is taken to be at least so common: the chance in one sheet, over all sheets. */
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

/** The usual length of a sentence of a pattern, in rarities. */
function lengthOf (pattern: ReadonlyMap<string, number>, rare: (word: string) => number): number {
  let sum = 0
  for (const [word, chance] of pattern) {
    if (isPair(word)) continue
    sum += chance * ((word.startsWith('~') ? EMPTY_WEIGHT : 1) * rare(word)) ** 2
  }
  return Math.sqrt(sum)
}

const rarity = (chance: number): number => Math.log(1 / Math.min(chance, 0.9))
