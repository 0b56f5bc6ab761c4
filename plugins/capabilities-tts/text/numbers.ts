const ONES = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten', 'eleven',
  'twelve', 'thirteen', 'fourteen', 'fifteen', 'sixteen', 'seventeen', 'eighteen', 'nineteen']
const TENS = ['', '', 'twenty', 'thirty', 'forty', 'fifty', 'sixty', 'seventy', 'eighty', 'ninety']
const SCALES = ['', ' thousand', ' million', ' billion', ' trillion', ' quadrillion']
const ORDINALS: Record<string, string> = {
  one: 'first', two: 'second', three: 'third', five: 'fifth', eight: 'eighth', nine: 'ninth',
  twelve: 'twelfth'
}
/** Maximum digits of a number that is read as words; longer numbers are read digit by digit. */
const MAX_DIGITS = 18

function belowHundred (n: number): string {
  if (n < 20) return ONES[n]!
  return TENS[Math.floor(n / 10)]! + (n % 10 ? ' ' + ONES[n % 10]! : '')
}

function belowThousand (n: number): string {
  if (n < 100) return belowHundred(n)
  return ONES[Math.floor(n / 100)]! + ' hundred' + (n % 100 ? ' ' + belowHundred(n % 100) : '')
}

/** "007" -> "zero zero seven"; ignores characters other than digits. */
export function digits (text: string): string {
  return Array.from(text.replace(/\D/g, ''), (d) => ONES[Number(d)]!).join(' ')
}

/** "1,234" -> "one thousand two hundred thirty four"; digit by digit after a leading zero or if too long. */
export function cardinal (text: string): string {
  const plain = text.replaceAll(',', '')
  if (plain.length > MAX_DIGITS || (plain.length > 1 && plain.startsWith('0'))) return digits(plain)
  const words: string[] = []
  for (let at = plain.length, scale = 0; at > 0; at -= 3, scale++) {
    const group = Number(plain.slice(Math.max(0, at - 3), at))
    if (group > 0) words.unshift(belowThousand(group) + SCALES[scale]!)
  }
  return words.join(' ') || 'zero'
}

/** "3.14" -> "three point one four", ".5" -> "point five", "-2" -> "minus two". */
export function decimal (text: string): string {
  if (/^[-+]/.test(text)) return (text.startsWith('-') ? 'minus ' : 'plus ') + decimal(text.slice(1))
  const [whole = '', fraction] = text.split('.')
  if (fraction === undefined || fraction === '') return cardinal(whole)
  return (whole ? cardinal(whole) + ' ' : '') + 'point ' + digits(fraction)
}

/** "twenty one" -> "twenty first". */
export function ordinalOf (words: string): string {
  const at = words.lastIndexOf(' ') + 1
  const last = words.slice(at)
  const regular = last.endsWith('y') ? last.slice(0, -1) + 'ieth' : last + 'th'
  return words.slice(0, at) + (ORDINALS[last] ?? regular)
}

export function ordinal (text: string): string { return ordinalOf(cardinal(text)) }

/** "1984" -> "nineteen eighty four", "2007" -> "two thousand seven", "1900" -> "nineteen hundred". */
export function year (text: string): string {
  const n = Number(text)
  const rest = n % 100
  if (n < 1000 || n > 9999 || n % 1000 < 10) return cardinal(text)
  const century = belowHundred(Math.floor(n / 100))
  if (rest === 0) return century + ' hundred'
  return century + (rest < 10 ? ' oh ' : ' ') + belowHundred(rest)
}

export function pluralNumber (words: string): string {
  if (words.endsWith('y')) return words.slice(0, -1) + 'ies'
  return words.endsWith('x') ? words + 'es' : words + 's'
}

const HALVES: Record<string, string> = { 2: 'half', 4: 'quarter' }

/** "3", "4" -> "three quarters"; undefined if the parts are not a fraction ("24/7"). */
export function fraction (above: string, below: string): string | undefined {
  const n = Number(above)
  const d = Number(below)
  if (n < 1 || d < 2 || n >= d || d > 100 || above.startsWith('0') || below.startsWith('0')) return undefined
  const part = HALVES[below] ?? ordinal(below)
  if (n === 1) return 'one ' + part
  return cardinal(above) + ' ' + (part === 'half' ? 'halves' : part + 's')
}
