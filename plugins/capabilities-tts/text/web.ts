import { digits } from './numbers.js'
import type { Rule } from './rules.js'

const TLD = '(?:com|org|net|edu|gov|io|ai|dev|app|co|uk|de|fr|eu|us|ca|info|local|me|tv|sh)'
const SPOKEN: Record<string, string> = {
  '.': ' dot ', '/': ' slash ', '-': ' dash ', _: ' underscore ', '@': ' at ', ':': ' colon ',
  '?': ' question mark ',
  '=': ' equals ', '&': ' and ', '#': ' hash ', '%': ' percent ', '+': ' plus ', '~': ' tilde '
}

/** every sign by name, digits one by one; the words between stay as they are and may be acronyms */
function spell (address: string): string {
  return address.replace(/^(?:https?|ftp|wss?|file):\/\//i, '').replace(/\/$/, '')
    .replace(/\bwww\b/gi, 'double you double you double you')
    .replace(/\d+/g, (run) => ` ${digits(run)} `)
    .replace(/[^A-Za-z ]/g, (c) => SPOKEN[c] ?? ' ')
}

/** an address does not end in the punctuation of its sentence */
function keepEnd (all: string): string {
  const end = /[.,;:?!)'"\]]*$/.exec(all)?.[0] ?? ''
  return ` ${spell(all.slice(0, all.length - end.length))}${end} `.replace(/\s+([.,;:?!)])/g, '$1')
}

/** Web addresses, e-mail addresses, host names and IPv4 addresses. */
export const WEB: readonly Rule[] = [
  [/\b(?:https?|ftp|wss?|file):\/\/[^\s<>"]+/gi, keepEnd],
  [/\bwww\.[^\s<>"]+/gi, keepEnd],
  [/\b[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,5}/g, keepEnd],
  [/\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d+)?\b(?!\.\d)/g, spell],
  [new RegExp(`\\b(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\\.){1,5}${TLD}\\b(?:/[^\\s<>"]*)?`, 'g'), keepEnd]
]
