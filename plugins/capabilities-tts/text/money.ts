import { cardinal, decimal } from './numbers.js'

/** one, many, one and many of the hundredth part (empty: has none) */
const CURRENCY: Record<string, readonly [string, string, string, string]> = {
  $: ['dollar', 'dollars', 'cent', 'cents'], '£': ['pound', 'pounds', 'penny', 'pence'],
  '€': ['euro', 'euros', 'cent', 'cents'], '¥': ['yen', 'yen', '', ''], '₹': ['rupee', 'rupees', 'paisa',
    'paise'],
  '₩': ['won', 'won', '', '']
}
const SCALE: Record<string, string> = {
  k: 'thousand', K: 'thousand', m: 'million', M: 'million', mn: 'million', b: 'billion', B: 'billion',
  bn: 'billion',
  thousand: 'thousand', million: 'million', billion: 'billion', trillion: 'trillion', T: 'trillion'
}

/** An amount in words: sign, currency sign, digits, and a scale such as "million" or "k". */
export function money (minus: string, sign: string, amount: string, scale?: string): string {
  const [one, many, cent, cents] = CURRENCY[sign]!
  const lead = minus ? 'minus ' : ''
  if (scale) return `${lead}${decimal(amount)} ${SCALE[scale]!} ${many}`
  const [whole = '0', part = ''] = amount.split('.')
  if (part.length !== 2 || cent === '') return `${lead}${decimal(amount)} ${amount === '1' ? one : many}`
  const change = Number(part) ? `${cardinal(String(Number(part)))} ${Number(part) === 1 ? cent : cents}` : ''
  const units = `${cardinal(whole || '0')} ${whole === '1' ? one : many}`
  if (!Number(whole.replaceAll(',', '')) && change) return lead + change
  return lead + units + (change ? ' and ' + change : '')
}

/** groups: scale as a word, scale as a letter */
export const MONEY_SCALE = '(?: ?(thousand|million|billion|trillion)\\b|(k|K|mn?|M|bn?|B|T)\\b)?'

export const CURRENCY_SIGNS = Object.keys(CURRENCY).join('')
