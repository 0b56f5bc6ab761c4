import { cardinal, ordinalOf } from './numbers.js'
import type { Rule } from './rules.js'

/** after these a name follows: never the end of a sentence */
const TITLES: Record<string, string> = {
  Dr: 'Doctor', Mr: 'Mister', Mrs: 'Missus', Ms: 'Miz', Prof: 'Professor', Gen: 'General', Sgt: 'Sergeant',
  Capt: 'Captain', Lt: 'Lieutenant', Col: 'Colonel', Rev: 'Reverend', Hon: 'Honorable', Gov: 'Governor',
  Sen: 'Senator', Rep: 'Representative', Pres: 'President', Mt: 'Mount', Ft: 'Fort', Messrs: 'Messers'
}

/** may end a sentence; a final stop is then kept */
const WORDS: Record<string, string> = {
  etc: 'etcetera', vs: 'versus', approx: 'approximately', Inc: 'Incorporated', Ltd: 'Limited',
  Corp: 'Corporation',
  Co: 'Company', Jr: 'Junior', Sr: 'Senior', Ave: 'Avenue', Blvd: 'Boulevard', Rd: 'Road', Fig: 'Figure',
  fig: 'figure', Vol: 'Volume', vol: 'volume', dept: 'department', Dept: 'Department', est: 'established',
  min: 'minimum', max: 'maximum', ca: 'circa', al: 'al', Bros: 'Brothers', Univ: 'University',
  ref: 'reference',
  Jan: 'January', Feb: 'February', Mar: 'March', Apr: 'April', Aug: 'August', Sept: 'September',
  Sep: 'September',
  Oct: 'October', Nov: 'November', Dec: 'December', Mon: 'Monday', Tue: 'Tuesday', Tues: 'Tuesday',
  Wed: 'Wednesday',
  Thu: 'Thursday', Thurs: 'Thursday', Fri: 'Friday', Sat: 'Saturday', Sun: 'Sunday'
}

/** words that are no abbreviation at the end of a sentence ("in the sun.", "at the max.") */
const NO_MERGE = new Set([
  'Sun', 'Sat', 'Mar', 'max', 'min', 'est', 'al', 'ref', 'Mon', 'Fri', 'Co', 'Inc', 'Ltd',
  'Corp', 'Jr', 'Sr', 'etc', 'Ave', 'Rd', 'Blvd'])

const MERGE = [...Object.keys(TITLES), ...Object.keys(WORDS).filter((each) => !NO_MERGE.has(each)), 'St',
  'No',
  'Nos', 'pp', 'p', 'e\\.g', 'i\\.e', 'cf', 'viz'].join('|')
const OPEN_END = new RegExp(`(?:^|[\\s("'])(?:(?:${MERGE})|(?:[A-Z]\\.)*[A-Z])\\.\\s*$`)
/** company and academic suffixes go on unless a sentence visibly starts */
const MAYBE_END = /(?:^|\s)(?:Co|Inc|Ltd|Corp|Jr|Sr|etc|al|[ap]\.m|U\.S|U\.K)\.\s*$/

/** True when the full stop that ends `before` does not end a sentence, given the text that follows. */
export function isAbbreviation (before: string, after: string): boolean {
  const tail = before.slice(-24)
  if (/^\s*[a-z]/.test(after) && /\.\s*$/.test(tail)) return true
  if (MAYBE_END.test(tail)) return false
  if (/(?:^|\s)No\.\s*$/.test(tail)) return /^\s*\d/.test(after)
  if (/(?:^|\s)I\.\s*$/.test(tail)) return false
  return OPEN_END.test(tail)
}

const REGNAL =
  'Henry|Louis|George|Charles|Edward|James|William|Philip|John|Paul|Pius|Benedict|Elizabeth|Mary|' +
  'Richard|Frederick|Alexander|Nicholas|Peter|Catherine|Leo|Gregory|Francis'
const NUMBERED =
  'Chapter|Part|Act|Scene|Volume|Book|Section|War|Title|Phase|Type|Class|Level|Stage|Article|Super Bowl'

const ROMAN: Record<string, number> = { I: 1, V: 5, X: 10, L: 50 }

function romanValue (text: string): number | undefined {
  if (!/^X{0,3}(?:IX|IV|V?I{0,3})$|^X?L(?:IX|IV|V?I{0,3})$/.test(text) || text === '') return undefined
  const values = Array.from(text, (c) => ROMAN[c]!)
  return values.reduce((sum, v, i) => sum + (v < (values[i + 1] ?? 0) ? -v : v), 0)
}

function roman (all: string, name: string, numeral: string): string {
  const value = romanValue(numeral)
  return value === undefined ? all : `${name} ${cardinal(String(value))}`
}

function regnal (all: string, name: string, numeral: string): string {
  const value = romanValue(numeral)
  return value === undefined ? all : `${name} the ${ordinalOf(cardinal(String(value)))}`
}

const atEnd = (words: string, at: number, all: string, text: string): string =>
  /^["')\s]*$/.test(text.slice(at + all.length)) ? words + '.' : words

const known = (table: Record<string, string>): RegExp =>
  new RegExp(`\\b(${Object.keys(table).join('|')})\\.`, 'g')

/**
 * without a stop these are words of their own (est, min, Sun ...), so only the ones below are read without it
 */
const BARE = /\b(Mr|Mrs|Ms|Dr|Prof|vs)\b(?!\.)/g

/** Abbreviations and Roman numerals where they are clear. */
export const ABBREVIATIONS: readonly Rule[] = [
  [/\be\.g\.,?/gi, 'for example,'], [/\bi\.e\.,?/gi, 'that is,'], [/\bet al\./g, 'et al'],
  [/\bNos?\. ?(?=\d)/g, 'number '], [/\bpp\. ?(?=\d)/g, 'pages '], [/\bp\. ?(?=\d)/g, 'page '],
  [/\bc\. ?(?=\d{3})/g, 'circa '],
  [/\bw\/o\b/g, 'without'], [/\bw\/(?= )/g, 'with'], [/\bSt\. (?=[A-Z])/g, 'Saint '],
  [/\bSt\./g, (all, at: number, text: string) => atEnd('Street', at, all, text)],
  [known(TITLES), (_, name: string) => TITLES[name]!],
  [known(WORDS), (all, name: string, at: number, text: string) => atEnd(WORDS[name]!, at, all, text)],
  [BARE, (_, name: string) => TITLES[name] ?? WORDS[name]!],
  [/\b([ap])\.m\./g, (all, c: string, at: number, text: string) =>
    atEnd(c === 'a' ? 'ay em' : 'pee em', at, all, text)],
  [new RegExp(`\\b(${REGNAL}) ([IVX]+)\\b(?!')`, 'g'), regnal],
  [new RegExp(`\\b(${NUMBERED}) ([IVXL]+)\\b(?!')`, 'g'), roman],
  [/\b([A-Z][a-z]+) ([IVX]{2,})\b/g, roman]
]
