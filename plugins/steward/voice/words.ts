import { corpusOf, sentencesOf, SPAN, type Known } from './corpus.js'
import { numbersIn } from './numbers.js'

const set = (words: string): ReadonlySet<string> => new Set(words.trim().split(/\s+/))

/** Capitalised and mixed-case words that do not count as names. */
const CAPITALS = set(`
  I API CPU GPU RAM VRAM HTTP HTTPS ID IDs OK KB MB GB TB KiB MiB GiB TiB UTC JSON TTL URL SSE TLS
  TTS SQLite`)
const JOINED = set('and/or e.g i.e etc vs n/a')

/** Words that do not count as names even after "node", "model" and the like. */
const PLAIN = set(`
  is are was were be been being has have had will would can cannot could may might must should does
  do did needs need that which who whose where when while because since until so if as and or but
  nor not no also only still now then there here in on at to of for from by with without into over
  under after before than the a an its it they them this these those itself all any each both either
  one ones out up down lost gone away back alive ready running stopped placed failed missing free
  full fine healthy live dead unreachable offline answers answer answered fits fit runs run ran left
  came went comes goes stays stayed waits waiting says said shows shown reports reported started
  starts restarted restarts stops crashed fails name names id ids card cards file files weights disk
  disks memory clock clocks link links key log logs list died process processes status state server
  servers loads loaded loading again already just never more less too very instead became becomes
  remains remained joined reachable responding responds available known unknown other others`)
const ABOUT = /^(?:nodes?|models?|instances?|runners?|hosts?|machines?|master|called|named)$/

/** Reports an id, name, path or code in the text that the findings do not contain; null if there is none. */
export function wordsIn (text: string, known: Known): string | null {
  const corpus = corpusOf(known)
  for (const sentence of sentencesOf(text.replace(SPAN, ' '))) {
    const words = sentence.split(/\s+/).map(bare).filter((word) => word !== '')
    for (const [i, word] of words.entries()) {
      const before = words[i - 1]?.toLowerCase() ?? ''
      const follows = ABOUT.test(before) && /^[a-z-]+$/.test(word) && !PLAIN.has(word) && !ABOUT.test(word)
      if ((follows || isName(word, i)) && !corpus.has(word)) return `"${word}" was not found`
      if (/:\/\/|^www\.|@/.test(word) && !corpus.named(word)) return `"${word}" is no address of this cluster`
    }
  }
  return null
}

const ENCLOSING_END = /(?<![)\]"'”’*_|.,;:!?…])[)\]"'”’*_|.,;:!?…]+$/

/** Strips surrounding punctuation and a genitive `'s`. */
const bare = (word: string): string =>
  word.replace(/^[(["'“‘*_|#-]+(?=\S)/, '').replace(ENCLOSING_END, '').replace(/['’]s$/, '')

/** Whether the word is an id, a path, a code or a name, which must occur in the findings. */
function isName (word: string, place: number): boolean {
  const isAmount = /^[~≈+-]?\d[\d.,]*[a-z%]*$/i.test(word) && numbersIn(word).length === 1
  if (CAPITALS.has(word) || JOINED.has(word) || isAmount) return false
  if (/\d/.test(word) || /[a-z][A-Z]|[A-Z]{2}/.test(word)) return true
  if (/[_/\\@=]|:\/\/|[a-z]\.[a-z]|^--?[a-z]/i.test(word)) return true
  return place > 0 && /^[A-Z]/.test(word)
}
