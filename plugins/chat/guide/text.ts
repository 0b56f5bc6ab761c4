/** Words with little meaning. */
const EMPTY = new Set((
  'a an and are as at be been but by can could do does did doing for from get got had has have he her ' +
  'hers him his how i if in into is it its just let me mine my myself no not now of off on one or our ' +
  'ours please shall should so some than that the their them then there these they this those to too ' +
  'up us was we were what when where which who will with would you your yours am any because being ' +
  'each few more most other over same such very via s t d ll m re ve way want need like tell explain ' +
  'mean means meaning ask asks use used using thing things really only also still already all'
).split(' '))

/** The words in a text in lower case, not stemmed. */
export function rawWords (text: string): string[] {
  return text.toLowerCase().match(/[a-z0-9_]+(?:[-.:/'@][a-z0-9_]+)*/g) ?? []
}

/** Separates the two words of a pair; never part of a word. */
const PAIR = ' '
export const isPair = (term: string): boolean => term.includes(PAIR)

/** Words whose endings look like inflections but are not. */
const WHOLE = new Set([
  'evening', 'morning', 'during', 'string', 'bring', 'number', 'ever', 'never', 'server', 'under', 'order',
  'paper', 'water', 'speed', 'need', 'seed', 'family', 'only', 'early', 'reply', 'apply'
])

/** A rough stem of an English word; most forms of a word, not all, get the same stem. */
export function stem (word: string): string {
  if (word.length < 4 || /[^a-z]/.test(word) || WHOLE.has(word)) return word
  const bare = word.replace(/(?:'s|ies|ied|ing|edly|ed|es|ers?|s|ly|ation|ations)$/, '')
  const cut = bare.length < 3 ? word : bare
  // Maps "stopping" and "stop", "removing" and "remove" to the same stem.
  return cut.replace(/([b-df-hj-np-tv-z])\1$/, '$1').replace(/[eiy]$/, '')
}

/** Turns texts into counted words, each as its stem or the head of its synonym group. */
export class Vocabulary {
  readonly #heads = new Map<string, string>()
  /** Phrases of several words, with the word that replaces them. */
  readonly #phrases = new Map<string, string>()
  /** Matches any phrase; never matches if there are none. */
  readonly #anyPhrase: RegExp

  /** `groups` are lists of synonyms, each named by its first word; `throw+away` is a two-word phrase. */
  constructor (groups: readonly (readonly string[])[]) {
    for (const group of groups) {
      for (const word of group) {
        if (word.includes('+')) this.#phrases.set(word.replaceAll('+', ' '), group[0]!)
        else this.#heads.set(stem(word), `=${group[0]!}`)
      }
    }
    const phrases = [...this.#phrases.keys()].sort((a, b) => b.length - a.length)
    this.#anyPhrase = new RegExp(`\\b(?:${phrases.join('|').replaceAll(' ', ' +') || '(?!)'})\\b`, 'g')
  }

  /** Distinct words. Synonyms become `=` and their group's first word; filler words get a `~`. */
  words (text: string): string[] {
    const lower = text.toLowerCase()
      .replace(this.#anyPhrase, (phrase) => this.#phrases.get(phrase.replace(/ +/g, ' '))!)
    const found = rawWords(lower)
      .flatMap((word) => /[-.:/'@_]/.test(word) ? [word, ...word.split(/[-.:/'@_]/)] : [word])
      .filter((word) => word !== '').map((word) => EMPTY.has(word) ? `~${word}` : this.of(word))
    return [...new Set(found)]
  }

  /** Words in a text, and pairs of words that are adjacent or one apart. */
  terms (text: string): string[] {
    const words = this.words(text)
    const pairs = [1, 2].flatMap((apart) =>
      words.slice(apart).map((word, i) => `${words[i]!}${PAIR}${word}`))
    return [...words, ...pairs]
  }

  /** The form under which a word is counted: its stem, or the head of its synonym group. */
  of (word: string): string { return this.#heads.get(stem(word)) ?? stem(word) }
}

/** The trigrams of a word; its beginning and end are marked. */
export function trigrams (word: string): Set<string> {
  const marked = `^${word}$`
  return new Set(Array.from({ length: marked.length - 2 }, (_, i) => marked.slice(i, i + 3)))
}

/** Similarity of two sets, 0 to 1 (Dice). */
export function likeness (a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let shared = 0
  for (const item of a) if (b.has(item)) shared++
  return 2 * shared / (a.size + b.size)
}

/** True if one insertion, deletion, substitution or transposition turns one word into the other. */
export function oneEdit (a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false
  let from = 0
  while (from < a.length && a[from] === b[from]) from++
  const [restA, restB] = [a.slice(from), b.slice(from)]
  return restA.slice(1) === restB.slice(1) || restA.slice(1) === restB || restA === restB.slice(1) ||
    (restA[0] === restB[1] && restA[1] === restB[0] && restA.slice(2) === restB.slice(2))
}
