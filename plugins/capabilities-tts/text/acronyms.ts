import { lookUp } from './dictionary.js'

/** names of the letters as words that the dictionary has (as in the training text of the embedded voice) */
const LETTERS = ['ay', 'bee', 'see', 'dee', 'ee', 'eff', 'gee', 'aitch', 'eye', 'jay', 'kay', 'ell', 'em',
  'en', 'oh',
  'pee', 'cue', 'are', 'ess', 'tee', 'you', 'vee', 'double you', 'ex', 'why', 'zee']

/** capitals that are read as a word although they are no English word */
const WORDLIKE = new Set([
  'NASA', 'NATO', 'UNESCO', 'UNICEF', 'OPEC', 'NAFTA', 'ASCII', 'JSON', 'YAML', 'ONNX', 'CUDA',
  'JPEG', 'GIF', 'GUI', 'RAM', 'ROM', 'VRAM', 'LAN', 'WAN', 'SIM', 'PIN', 'SWAT', 'AIDS', 'COVID', 'LIDAR',
  'RADAR',
  'LASER', 'SCUBA', 'WASM', 'BIOS', 'RAID', 'NAND', 'SCADA', 'CAPTCHA', 'FIFA', 'UEFA', 'IKEA', 'OK',
  'LIFO', 'FIFO'])

/** capitals that are letters although they make an English word */
const SPELLED = new Set([
  'AI', 'US', 'IT', 'ID', 'PM', 'AM', 'TV', 'PC', 'API', 'UK', 'EU', 'UN', 'LED', 'USA', 'IP',
  'CEO', 'ATM', 'FAQ', 'DIY', 'GPS', 'USB', 'URL', 'SAT', 'IPA', 'HR', 'ER', 'UI', 'UX', 'OS', 'IO', 'IBM',
  'AWS', 'APA',
  'ISO', 'IOS', 'ALU', 'FBI', 'CIA', 'MIT', 'PDF', 'CPU', 'GPU', 'LLM', 'RSS', 'ADHD', 'IEEE', 'UTC', 'EST'])

/** short words that people write in capitals for emphasis */
const SHOUTED = new Set((
  'a i am an and any are as at be big but by can did do for get go had has he her him his how if ' +
  'in is it its let lot may me my new no nor not now of off oh on one or our out own put red run ' +
  'say see set she so the to too top try two up use was way we who why win yes yet you all ask bad ' +
  'bed boy car cat cut dad day dog eat end far few fun god got guy hey hot job key lie man men mom ' +
  'old pay per ran sad sat sex sir six sit son sun tax tea ten war wet wow stop free sale best ' +
  'help this that must only ever hate love'
).split(' '))

/** "GPU" -> "gee pee you" */
export function spell (letters: string): string {
  const names = Array.from(letters.toUpperCase(), (c) => LETTERS[c.charCodeAt(0) - 65] ?? '')
  return names.filter(Boolean).join(' ')
}

/** `shouting`: the whole sentence is in capitals, so capitals say nothing about one word */
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

/** in capitals throughout, and long enough to tell */
function isShouting (sentence: string): boolean {
  return !/[a-z]/.test(sentence) && (sentence.match(/[A-Z]{2,}/g)?.length ?? 0) >= 3
}

/**
 * Spells what is said letter by letter: "GPUs", "U.S.A.", "J. K. Rowling", "plan B"; splits joined words
 * ("OpenAI", "node_id", "GPT4"). Expects text whose abbreviations are written out; digits may still be there.
 */
export function spellAcronyms (sentence: string): string {
  const shouting = isShouting(sentence)
  return sentence
    .replace(/\b(?:[A-Z]\.){2,}(?=(\s*$)?)/g, (all, end?: string) =>
      spell(all) + (end === undefined ? ' ' : '.'))
    .replace(/\b([A-Z])\. (?=[A-Z])/g, (_, c: string) => spell(c) + ' ')
    .replace(/([A-Za-z])(?=\d)|(\d)(?=[A-Za-z]{2}|[A-Z]\b)/g, '$1$2 ')
    .replace(/_/g, ' ')
    .replace(/[A-Za-z]+/g, splitCase)
    .replace(/\b([A-Z]{2,})('?s)?\b/g, (_, word: string, plural = '') => capitals(word, plural, shouting))
    .replace(/(?<![A-Za-z'])([A-Z])(?![A-Za-z'])/g, (_, c: string, at: number, text: string) =>
      single(c, text.slice(Math.max(0, at - 12), at), text.slice(at + 1, at + 4)))
    .replace(/(?<![A-Za-z'])([b-hj-z])(?![A-Za-z'])/g, (_, c: string) => spell(c))
}

/** "OpenAI" -> "Open AI", "GPUs" stays, "XMLHttpRequest" -> "XML Http Request" */
function splitCase (word: string): string {
  if (!/[a-z][A-Z]/.test(word)) return word
  if (lookUp(word.toLowerCase())) return word.toLowerCase()
  if (/^[A-Z]{2,}s$/.test(word)) return word
  return word.replace(/([a-z])(?=[A-Z])/g, '$1 ').replace(/([A-Z])(?=[A-Z][a-z]{2})/g, '$1 ')
}
