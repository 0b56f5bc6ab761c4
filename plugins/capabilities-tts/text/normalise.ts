import { ABBREVIATIONS, spell, spellAcronyms } from './abbreviations.js'
import { DATES } from './dates.js'
import { digits } from './numbers.js'
import { CODES, QUANTITIES } from './quantities.js'
import { RANGES } from './ranges.js'
import type { Rule } from './rule.js'

function applyRules (text: string, rules: readonly Rule[]): string {
  let out = text
  for (const [pattern, replacement] of rules) {
    out = typeof replacement === 'string'
      ? out.replace(pattern, replacement)
      : out.replace(pattern, replacement as (all: string, ...groups: unknown[]) => string)
  }
  return out
}

const TLD = '(?:com|org|net|edu|gov|io|ai|dev|app|co|uk|de|fr|eu|us|ca|info|local|me|tv|sh)'
const SPOKEN: Record<string, string> = {
  '.': ' dot ', '/': ' slash ', '-': ' dash ', _: ' underscore ', '@': ' at ', ':': ' colon ',
  '?': ' question mark ', '=': ' equals ', '&': ' and ', '#': ' hash ', '%': ' percent ', '+': ' plus ',
  '~': ' tilde '
}

/** Reads an address: names every sign and reads digits one by one; later rules spell acronyms. */
function readAddress (address: string): string {
  return address.replace(/^(?:https?|ftp|wss?|file):\/\//i, '').replace(/\/$/, '')
    .replace(/\bwww\b/gi, 'double you double you double you')
    .replace(/\d+/g, (run) => ` ${digits(run)} `)
    .replace(/[^A-Za-z ]/g, (c) => SPOKEN[c] ?? ' ')
}

/** Reads an address, but keeps trailing punctuation, which belongs to the sentence. */
function keepEnd (all: string): string {
  const end = /(?<![.,;:?!)'"\]])[.,;:?!)'"\]]+$/.exec(all)?.[0] ?? ''
  return ` ${readAddress(all.slice(0, all.length - end.length))}${end} `.replace(/ {1,3}([.,;:?!)])/g, '$1')
}

/** Rules for web addresses, e-mail addresses, host names and IPv4 addresses. */
const WEB: readonly Rule[] = [
  [/\b(?:https?|ftp|wss?|file):\/\/[^\s<>"]+/gi, keepEnd],
  [/\bwww\.[^\s<>"]+/gi, keepEnd],
  [/(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,5}/g,
    keepEnd],
  [/\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d+)?\b(?!\.\d)(?:\/[^\s<>"]*)?/g, keepEnd],
  [/\blocalhost(?::\d{2,5}\b|(?=\/\w))(?:\/[^\s<>"]*)?/g, keepEnd],
  [new RegExp(`\\b(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\\.){1,5}${TLD}(?!\\.?\\w)(?:/[^\\s<>"]*)?`, 'g'), keepEnd]
]

/** Rules for signs between words and numbers; they apply after those for addresses, dates and amounts. */
const SIGNS: readonly Rule[] = [
  [/\bC\+\+/g, 'C plus plus'], [/\b([CF])#/g, '$1 sharp'], [/#(?= ?\d)/g, ' number '],
  [/#(?=[A-Za-z])/g, ' hashtag '],
  [/&+/g, ' and '], [/%/g, ' percent '], [/@/g, ' at '], [/\+/g, ' plus '], [/±/g, ' plus or minus '],
  [/<=|≤/g, ' at most '], [/>=|≥/g, ' at least '], [/->|=>/g, ' to '], [/!=|≠/g, ' is not '],
  [/≈/g, ' about '], [/=+/g, ' equals '], [/(?<=\w ?)<(?= ?\w)/g, ' less than '],
  [/(?<=\w ?)>(?= ?\w)/g, ' greater than '],
  [/×/g, ' times '], [/÷/g, ' divided by '], [/§/g, ' section '], [/√/g, ' square root of '],
  [/∞/g, ' infinity '], [/°/g, ' degrees '], [/[$](?=\w)/g, ' dollar '], [/£/g, ' pounds '],
  [/€/g, ' euros '], [/¥/g, ' yen ']
]

/** Reduces a run of punctuation marks to one; "?!" becomes a question mark. */
function strongest (run: string): string {
  const end = run.match(/[?!]+|\./g)?.at(-1)
  if (end !== undefined) return end.includes('?') ? '? ' : `${end[0]} `
  return `${run.match(/[;:]/g)?.at(-1) ?? (run.includes(',') ? ',' : '')} `
}

/** Rules that drop everything but words and the punctuation that voices support: , . ; : ? ! */
const MARKS: readonly Rule[] = [
  [/ ?[—–] ?| -{1,3} |--+/g, ', '], [/[([{]/g, ', '], [/[)\]}]/g, ', '], [/ ?[|] ?/g, ', '],
  [/(?<=[A-Za-z])\.(?=[a-z])/g, ' dot '], [/(?<!\.)\.{2,}(?=\s*$)/g, '.'], [/\.{2,}/g, ', '],
  [/(?<![A-Za-z])'|'(?![A-Za-z])|["]/g, ' '], [/[^A-Za-z',.;:?!]+/g, ' '], [/[\s,.;:?!]+/g, strongest],
  [/^[ ,.;:?!]+/g, ''], [/[ ,;:]{1,2}$/g, '']
]

function applyWords (sentence: string): string {
  const written = applyRules(sentence, WEB)
    .replace(/\b([A-Z]{1,3})&([A-Z]{1,3})\b/g, (_, a: string, b: string) => `${spell(a)} and ${spell(b)}`)
  const words = applyRules(written, ABBREVIATIONS)
  return spellAcronyms(applyRules(/[\d%€^]/.test(words) ? applyNumbers(words) : words, SIGNS))
}

const DATED: readonly Rule[] = [...CODES, ...RANGES, ...DATES, ...SIGNS.slice(0, 4)]

function applyNumbers (sentence: string): string {
  return applyRules(splitCodes(applyRules(sentence, DATED)), QUANTITIES)
}

/** Matches codes of letters and digits, except amounts and ordinals ("5km", "3rd"). */
const CODE =
  /(?:\b|(?<=\d)(?=[A-Z]))([A-Za-z]+)-?(\d+(?:\.\d+)?)(?:(s)\b|(?=[A-Za-z]*\b|[A-Z]))(-(?=\d))?/g

/** Separates letters and digits in "MP3s", "GPT-4" and "A100-80GB". */
function splitCodes (text: string): string {
  return text.replace(CODE, (_, letters: string, number: string, plural: string | undefined,
    dash: string | undefined, at: number) => {
    const spelled = /^(?:IPv|[A-Z]|[b-df-hj-np-tv-z]{2,3})$/.test(letters)
    const many = plural ? (/^[A-Z]+$/.test(letters) ? "'s" : 's') : ''
    const gap = /\d/.test(text.charAt(at - 1)) ? ' ' : ''
    return `${gap}${spelled ? spell(letters) : letters} ${number}${many}${dash ? ' ' : ''}`
  })
}

/** Converts folded text (`fold.ts`) to lower-case words and the marks , . ; : ? ! ('' if it has no words). */
export function normaliseSentence (sentence: string): string {
  if (!/[A-Za-z0-9]/.test(sentence)) return ''
  return applyRules(applyWords(sentence.replace(/\s+/g, ' ')), MARKS)
}
