import { cardinal, ordinalOf } from './numbers.js'
import { lookUp } from './pronounce.js'
import type { Rule } from './rule.js'

/** Titles, which never end a sentence because a name follows. */
const TITLES: Record<string, string> = {
  Dr: 'Doctor', Mr: 'Mister', Mrs: 'Missus', Ms: 'Miz', Prof: 'Professor', Gen: 'General', Sgt: 'Sergeant',
  Capt: 'Captain', Maj: 'Major', Lt: 'Lieutenant', Col: 'Colonel', Rev: 'Reverend', Hon: 'Honorable',
  Gov: 'Governor', Sen: 'Senator', Rep: 'Representative', Pres: 'President', Mt: 'Mount', Ft: 'Fort',
  Messrs: 'Messers'
}

/** Abbreviations that may end a sentence, which then keeps its full stop. */
const WORDS: Record<string, string> = {
  etc: 'etcetera', vs: 'versus', approx: 'approximately', Inc: 'Incorporated', Ltd: 'Limited',
  Corp: 'Corporation', Co: 'Company', Jr: 'Junior', Sr: 'Senior', Ave: 'Avenue', Blvd: 'Boulevard',
  Rd: 'Road', Fig: 'Figure', fig: 'figure', Vol: 'Volume', vol: 'volume', dept: 'department',
  Dept: 'Department', Hwy: 'Highway', Pkwy: 'Parkway', Expy: 'Expressway',
  est: 'established', min: 'minimum', max: 'maximum', ca: 'circa', al: 'al',
  Bros: 'Brothers', Univ: 'University', ref: 'reference', Jan: 'January', Feb: 'February', Mar: 'March',
  Apr: 'April', Aug: 'August', Sept: 'September', Sep: 'September', Oct: 'October', Nov: 'November',
  Dec: 'December', Mon: 'Monday', Tue: 'Tuesday', Tues: 'Tuesday', Wed: 'Wednesday', Thu: 'Thursday',
  Thurs: 'Thursday', Fri: 'Friday', Sat: 'Saturday', Sun: 'Sunday'
}

/** Abbreviations that may be plain words ending a sentence ("in the sun.") and so do not prevent a split. */
const NO_MERGE = new Set([
  'Sun', 'Sat', 'Mar', 'max', 'min', 'est', 'al', 'ref', 'Mon', 'Fri', 'Co', 'Inc', 'Ltd',
  'Corp', 'Jr', 'Sr', 'etc', 'Ave', 'Rd', 'Blvd'])

const MERGE = [...Object.keys(TITLES), ...Object.keys(WORDS).filter((each) => !NO_MERGE.has(each)), 'St',
  'No', 'Nos', 'pp', 'p', 'e\\.g', 'i\\.e', 'cf', 'viz'].join('|')
const OPEN_END = new RegExp(`(?:^|[\\s("'])(?:(?:${MERGE})|(?:[A-Z]\\.)*[A-Z])\\.\\s*$`)
/** Abbreviations after which the sentence may end; it continues before a lower-case word. */
const MAYBE_END = /(?:^|\s)(?:Co|Inc|Ltd|Corp|Jr|Sr|etc|al|[ap]\.m|U\.S|U\.K)\.\s*$/

const DATED = /\b(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.\s*$/i

/** Whether the full stop that ends `before` only marks an abbreviation; `after` is the following text. */
export function isAbbreviation (before: string, after: string): boolean {
  const tail = before.slice(-24)
  if (/^\s*[a-z]/.test(after) && /\.\s*$/.test(tail)) return true
  if (MAYBE_END.test(tail)) return false
  if (DATED.test(tail) && /^\s*\d/.test(after)) return true
  if (/(?:^|\s)(?:N[oO]|no)\.\s*$/.test(tail)) return /^\s*\d/.test(after)
  if (/(?:^|\s)I\.\s*$/.test(tail)) return false
  return OPEN_END.test(tail)
}

const REGNAL =
  'Henry|Louis|George|Charles|Edward|James|William|Philip|John|Paul|Pius|Benedict|Elizabeth|Mary|' +
  'Richard|Frederick|Alexander|Nicholas|Peter|Catherine|Leo|Gregory|Francis|Thutmose|Ramesses|Napoleon|' +
  'Ivan|Otto|Haakon|Harald|Olaf|Alfonso|Ferdinand|Innocent|Clement|Urban|Boniface|Julius|Sixtus|David'
const NUMBERED =
  'Chapter|Part|Act|Scene|Volume|Book|Section|War|Title|Phase|Type|Class|Level|Stage|Article|Super Bowl'
/** The same and further words in any case, after which "I" is often a word ("the part I like"). */
const NUMBERED_ANY =
  `${NUMBERED}|Appendix|Figure|Table|Grade|Mark|Unit|Lesson|Canto|Page|Paragraph|Clause|Round`
    .split('|').flatMap((name) => [name, name.toLowerCase(), name.toUpperCase()]).join('|')
/** A numeral that is no other word in its place. */
const NUMERAL = '[IVXL]{2,}|[VX]|I(?= ?(?:[.,;:)]|and\\b|$))|[ivx]{2,}|v(?= ?[.,;:)])'

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

const STREETS: Record<string, string> = { st: 'Street', ave: 'Avenue', dr: 'Drive' }
/** Matches street words in addresses: "12 Elm St", "121 Oak Dr.", "6th ave". */
const STREET =
  /(?<=\d (?:[NSEW]\.? )?[A-Z][a-z]{1,20} |\d(?:st|nd|rd|th) )([Ss]t|[Aa]ve|[Dd]r(?!\.? [A-Z]))\b\.?/g

/** Abbreviations to expand even without a full stop; without it, most are ordinary words (est, min, Sun). */
const BARE = /\b(Mr|Mrs|Ms|Dr|Prof|vs|Blvd|Hwy|Pkwy|Expy|Jr)\b(?!\.)/g

/** Rules that expand unambiguous abbreviations and Roman numerals. */
export const ABBREVIATIONS: readonly Rule[] = [
  [/\be\.g\.,?/gi, 'for example,'], [/\bi\.e\.,?/gi, 'that is,'], [/\bet al\./g, 'et al'],
  [/\b(?:N[oO]s?|no)\. ?(?=\d)|\bNO (?=\d)|(?<=[A-Za-z)] )No (?=\d)/g, 'number '],
  [/\bpp\. ?(?=\d)/g, 'pages '], [/\bp\. ?(?=\d)/g, 'page '],
  [/\bc\. ?(?=\d{3})/g, 'circa '],
  [/\bw\/o\b/g, 'without'], [/\bw\/(?= )/g, 'with'],
  [STREET, (all, name: string, at: number, text: string) =>
    (all.endsWith('.') ? atEnd : String)(STREETS[name.toLowerCase()]!, at, all, text)],
  [/\b[Ss]t\.? (?=[A-Z])/g, 'Saint '], [/(?<=[A-Z][a-z]{1,20} )[Ss]t\b(?!\.)/g, 'Street'],
  [/(?<=\d ?)min\./g, (all, at: number, text: string) => atEnd('min', at, all, text)], [/\blbs\b/g, 'pounds'],
  [/\b([Dd]r|[Mm]t|prof)\.? (?=[A-Z])/g, (_, name: string) =>
    TITLES[name[0]!.toUpperCase() + name.slice(1)]! + ' '],
  [/\bPh\.? ?Ds\b/g, "pee aitch dee's"], [/\bPh\.? ?D\b(?!\.)/g, 'pee aitch dee'],
  [/\bPh\.? ?D\./g, (all, at: number, text: string) => atEnd('pee aitch dee', at, all, text)],
  [/\b401 ?\(?k\)?(?!\w)/g, 'four oh one kay'],
  [/\bSt\./g, (all, at: number, text: string) => atEnd('Street', at, all, text)],
  [known(TITLES), (_, name: string) => TITLES[name]!],
  [known(WORDS), (all, name: string, at: number, text: string) => atEnd(WORDS[name]!, at, all, text)],
  [BARE, (_, name: string) => TITLES[name] ?? WORDS[name]!],
  [/\b([ap])\.m\./g, (all, c: string, at: number, text: string) =>
    atEnd(c === 'a' ? 'ay em' : 'pee em', at, all, text)],
  [new RegExp(`\\b(${REGNAL}) ([IVX]+)\\b(?!')`, 'g'), regnal],
  [new RegExp(`\\b(${NUMBERED}) ([IVXL]+)\\b(?!')`, 'g'), roman],
  [new RegExp(`\\b(${NUMBERED_ANY}) (${NUMERAL})\\b(?!')`, 'g'),
    (all, name: string, numeral: string) => roman(all, name, numeral.toUpperCase())],
  [/\b([A-Z][a-z]+) ([IVX]{2,})\b/g, roman]
]

/** Letter names A to Z as dictionary words, spelled as in the bundled voice's training text. */
const LETTERS = ['ay', 'bee', 'see', 'dee', 'ee', 'eff', 'gee', 'aitch', 'eye', 'jay', 'kay', 'ell', 'em',
  'en', 'oh', 'pee', 'cue', 'are', 'ess', 'tee', 'you', 'vee', 'double you', 'ex', 'why', 'zee']

/** Acronyms that are pronounced as words instead of being spelled out. */
const WORDLIKE = new Set([
  'NASA', 'NATO', 'UNESCO', 'UNICEF', 'OPEC', 'NAFTA', 'ASCII', 'JSON', 'YAML', 'ONNX', 'CUDA',
  'JPEG', 'GIF', 'GUI', 'RAM', 'ROM', 'VRAM', 'LAN', 'WAN', 'SIM', 'PIN', 'SWAT', 'AIDS', 'COVID', 'LIDAR',
  'RADAR', 'LASER', 'SCUBA', 'WASM', 'BIOS', 'RAID', 'NAND', 'SCADA', 'CAPTCHA', 'FIFA', 'UEFA', 'IKEA', 'OK',
  'LIFO', 'FIFO'])

/** Acronyms that are spelled out although they are also English words. */
const SPELLED = new Set([
  'AI', 'US', 'IT', 'ID', 'PM', 'AM', 'TV', 'PC', 'API', 'UK', 'EU', 'UN', 'LED', 'USA', 'IP',
  'CEO', 'ATM', 'FAQ', 'DIY', 'GPS', 'USB', 'URL', 'SAT', 'IPA', 'HR', 'ER', 'UI', 'UX', 'OS', 'IO', 'IBM',
  'AWS', 'APA', 'ISO', 'IOS', 'ALU', 'FBI', 'CIA', 'MIT', 'PDF', 'CPU', 'GPU', 'LLM', 'RSS', 'ADHD',
  'IEEE', 'UTC', 'EST'])

/** Short words often capitalised for emphasis, which must not be read as acronyms. */
const SHOUTED = new Set((
  'a i am an and any are as at be big but by can did do for get go had has he her him his how if ' +
  'in is it its let lot may me my new no nor not now of off oh on one or our out own put red run ' +
  'say see set she so the to too top try two up use was way we who why win yes yet you all ask bad ' +
  'bed boy car cat cut dad day dog eat end far few fun god got guy hey hot job key lie man men mom ' +
  'old pay per ran sad sat sex sir six sit son sun tax tea ten war wet wow stop free sale best ' +
  'help this that must only ever hate love'
).split(' '))

/** Words and sounds without a vowel letter. */
const SOUNDS = new Set('nth hm hmm mm mmm sh shh brr grr pfft psst tsk zzz'.split(' '))

/** "GPU" -> "gee pee you". */
export function spell (letters: string): string {
  const names = Array.from(letters.toUpperCase(), (c) => LETTERS[c.charCodeAt(0) - 65] ?? '')
  return names.filter(Boolean).join(' ')
}

/** Whether to spell a word out. With `shouting`, the whole sentence is in capitals, so they mean nothing. */
function isSpelled (word: string, shouting: boolean): boolean {
  const lower = word.toLowerCase()
  if (WORDLIKE.has(word)) return false
  if (!/[AEIOUY]/.test(word)) return true
  if (SHOUTED.has(lower) && (shouting || !SPELLED.has(word))) return false
  if (SPELLED.has(word)) return true
  if (shouting) return false
  return word.length <= 3 || (word.length <= 5 && lookUp(lower) === undefined)
}

function capitals (word: string, plural: string, shouting: boolean): string {
  if (!isSpelled(word, shouting)) return word + plural
  return spell(word) + (plural ? "'s" : '')
}

function single (letter: string, before: string, after: string): string {
  if (letter === 'I' && !/\d|double you$/.test(before)) return letter
  const article = letter === 'A' && /^ +[a-z]/.test(after)
  return article ? letter : spell(letter)
}

/** "MAX_SIZE" -> "max size", "HTTP_PORT" -> "HTTP port": known words of a constant are words. */
const constant = (name: string): string => name.split('_').map((part) => {
  const lower = part.toLowerCase()
  return part.length > 2 && !SPELLED.has(part) && lookUp(lower) ? lower : part
}).join(' ')

/** Whether a sentence is all capitals, and long enough to judge. */
function isShouting (sentence: string): boolean {
  return !/[a-z]/.test(sentence) && (sentence.match(/[A-Z]{2,}/g)?.length ?? 0) >= 3
}

/**
 * Spells "GPUs", "U.S.A.", "J. K. Rowling", "plan B"; splits joined words ("OpenAI", "node_id", "GPT4").
 * Expects expanded abbreviations; digits may remain.
 */
export function spellAcronyms (sentence: string): string {
  const shouting = isShouting(sentence)
  return sentence
    .replace(/\b(?:[A-Z]\.){1,9}[A-Z]\b\.?(?=(\s*$)?)/g, (all, end?: string) =>
      spell(all) + (end === undefined ? ' ' : '.'))
    .replace(/\b([A-Z])\. (?=[A-Z])/g, (_, c: string) => spell(c) + ' ')
    .replace(/([A-Za-z])(?=\d)|(\d)(?=[A-Za-z]{2}|[A-Z]\b)/g, '$1$2 ')
    .replace(/\b[A-Z]+(?:_+[A-Z]+)+\b/g, constant)
    .replace(/_/g, ' ')
    .replace(/(?<![\w'])[b-df-hj-np-tv-xz]{2,5}(?![\w'])/g, (word) =>
      SOUNDS.has(word) || lookUp(word) ? word : spell(word))
    .replace(/[A-Za-z]+/g, splitCase)
    .replace(/\b([A-Z]{2,})('?s)?\b/g, (_, word: string, plural = '') => capitals(word, plural, shouting))
    .replace(/(?<![A-Za-z'])([A-Z])(?![A-Za-z'])/g, (_, c: string, at: number, text: string) =>
      single(c, text.slice(Math.max(0, at - 12), at), text.slice(at + 1, at + 4)))
    .replace(/(?<![A-Za-z'])([b-hj-z])(?![A-Za-z'])/g, (_, c: string) => spell(c))
}

/** "OpenAI" -> "Open AI", "GPUs" stays, "XMLHttpRequest" -> "XML Http Request". */
function splitCase (word: string): string {
  if (!/[a-z][A-Z]/.test(word)) return word
  if (lookUp(word.toLowerCase())) return word.toLowerCase()
  if (/^[A-Z]{2,}s$/.test(word)) return word
  return word.replace(/([a-z])(?=[A-Z])/g, '$1 ').replace(/([A-Z])(?=[A-Z][a-z]{2})/g, '$1 ')
}
