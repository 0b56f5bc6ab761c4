/** The symbols that the English front end writes, and what stands in for one that a voice does not have. */
import { ALL_IPA } from './phones.js'

/** What the accents add, and the marks of stress, length and silence that any voice can do without. */
const ACCENTS = 'ɾʔ\u0329ᵻɒeəɐ'

/** Nearest symbol, or none, for one that is missing. Each is tried in turn. */
const STAND_INS: Readonly<Record<string, readonly string[]>> = {
  ɡ: ['g'], ɹ: ['r'], ɾ: ['t'], ʔ: ['t'], '\u0329': [''], ᵻ: ['ɪ'], ɒ: ['ɑ', 'ɔ'], ɐ: ['ə', 'ʌ'],
  ɚ: ['əɹ', 'ər'], ɜ: ['ɝ', 'ə'], ʌ: ['ɐ', 'ə'], æ: ['a'], e: ['ɛ'], ˈ: [''], ˌ: ['ˈ', ''], ː: ['']
}

/**
 * For a voice with these symbols: what stands in for those of English that it lacks, and which nothing can
 * stand in for.
 */
export function standIns (has: ReadonlySet<string>): { found: Map<string, string>, missing: string[] } {
  const found = new Map<string, string>()
  const missing: string[] = []
  for (const symbol of new Set([...ALL_IPA, ...ACCENTS])) {
    if (has.has(symbol)) continue
    const other = STAND_INS[symbol]?.find((stand) => [...stand].every((part) => has.has(part)))
    if (other === undefined) missing.push(symbol)
    else found.set(symbol, other)
  }
  return { found, missing }
}
