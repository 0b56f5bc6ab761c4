import { ABBREVIATIONS } from './abbreviations.js'
import { spell, spellAcronyms } from './acronyms.js'
import { DATES } from './dates.js'
import { CODES, QUANTITIES } from './quantities.js'
import { applyRules, type Rule } from './rules.js'
import { WEB } from './web.js'

/** signs between words and numbers, once addresses, dates and amounts are gone */
const SIGNS: readonly Rule[] = [
  [/\bC\+\+/g, 'C plus plus'], [/\b([CF])#/g, '$1 sharp'], [/#(?= ?\d)/g, ' number '],
  [/#(?=[A-Za-z])/g, ' hashtag '],
  [/&/g, ' and '], [/%/g, ' percent '], [/@/g, ' at '], [/\+/g, ' plus '], [/±/g, ' plus or minus '],
  [/<=|≤/g, ' at most '], [/>=|≥/g, ' at least '], [/->|=>/g, ' to '], [/!=|≠/g, ' is not '],
  [/≈/g, ' about '],
  [/=+/g, ' equals '], [/(?<=\w ?)<(?= ?\w)/g, ' less than '], [/(?<=\w ?)>(?= ?\w)/g, ' greater than '],
  [/×/g, ' times '], [/÷/g, ' divided by '], [/§/g, ' section '], [/√/g, ' square root of '],
  [/∞/g, ' infinity '],
  [/°/g, ' degrees '], [/[$](?=\w)/g, ' dollar '], [/£/g, ' pounds '], [/€/g, ' euros '], [/¥/g, ' yen ']
]

/** what is left is words and the marks the voices know: , . ; : ? ! */
const MARKS: readonly Rule[] = [
  [/ ?[—–] ?| -{1,3} |--+/g, ', '], [/[([{]/g, ', '], [/[)\]}]/g, ', '], [/ ?[|] ?/g, ', '],
  [/(?<=[A-Za-z])\.(?=[a-z])/g, ' dot '], [/\.{2,}(?=\s*$)/g, '.'], [/\.{2,}/g, ', '],
  [/\?[?!]*|!+\?[?!]*/g, '?'], [/!+/g, '!'],
  [/(?<![A-Za-z])'|'(?![A-Za-z])|["]/g, ' '], [/[^A-Za-z',.;:?!]+/g, ' '],
  [/[\s,.;:?!]*([.?!])[\s,.;:?!]*/g, '$1 '], [/[\s,;:]*([;:])[\s,;:]*/g, '$1 '], [/[\s,]*,[\s,]*/g, ', '],
  [/^[\s,.;:?!]+/g, ''], [/\s+/g, ' '], [/[\s,;:]+$/g, '']
]

function applyWords (sentence: string): string {
  const written = applyRules(sentence, WEB)
    .replace(/\b([A-Z]{1,3})&([A-Z]{1,3})\b/g, (_, a: string, b: string) => `${spell(a)} and ${spell(b)}`)
  const dated = applyRules(applyRules(applyRules(written, ABBREVIATIONS), CODES), DATES)
  const counted = applyRules(dated, SIGNS.slice(0, 4))
  return spellAcronyms(applyRules(applyRules(splitCodes(counted), QUANTITIES), SIGNS))
}

/**
 * "MP3", "GPT4" and "x86" are letters and digits read apart; amounts such as "5km" and "3rd" are left alone
 */
function splitCodes (text: string): string {
  return text.replace(/\b([A-Za-z]+)-?(\d+)(?=[A-Za-z]*\b)/g, (_, letters: string, number: string) => {
    const spelled = letters === 'IPv' || /^[b-df-hj-np-tv-z]{2,3}$/.test(letters)
    return `${spelled ? spell(letters) : letters} ${number}`
  })
}

/**
 * One sentence of folded text (see `fold.ts`) as words of a to z, with the marks , . ; : ? ! kept. Empty when
 * the sentence has no letter and no digit. Case is kept only where it happens to be; callers lower it.
 */
export function normaliseSentence (sentence: string): string {
  if (!/[A-Za-z0-9]/.test(sentence)) return ''
  return applyRules(applyWords(sentence.replace(/\s+/g, ' ')), MARKS)
}
