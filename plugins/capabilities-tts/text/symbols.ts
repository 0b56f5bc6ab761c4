/** Symbols that the English front end emits, and substitutes for symbols that a voice lacks. */
import { ALL_IPA } from './phones.js'

/** Symbols that the rules in accents.ts add. */
const ACCENTS = 'ɾʔ\u0329ᵻɒeəɐ'

/** Substitutes (possibly empty) for missing symbols, in order of preference. */
const STAND_INS: Readonly<Record<string, readonly string[]>> = {
  ɡ: ['g'], ɹ: ['r'], ɾ: ['t'], ʔ: ['t'], '\u0329': [''], ᵻ: ['ɪ'], ɒ: ['ɑ', 'ɔ'], ɐ: ['ə', 'ʌ'],
  ɚ: ['əɹ', 'ər'], ɜ: ['ɝ', 'ə'], ʌ: ['ɐ', 'ə'], æ: ['a'], e: ['ɛ'], ˈ: [''], ˌ: ['ˈ', ''], ː: ['']
}

/** Substitutes for English symbols that a voice lacks, and the symbols without a substitute. */
export function symbolSubstitutes (
  has: ReadonlySet<string>
): { found: Map<string, string>, missing: string[] } {
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
