import { isAbbreviation } from './abbreviations.js'
import { fold } from './fold.js'
import { plainText } from './markup.js'

/** Characters to fold and split at a time; bounds memory use and the time each pattern takes. */
const WINDOW = 2000

const segmenter = new Intl.Segmenter('en', { granularity: 'sentence' })

/** Where a window may end, best first. Patterns are anchored, so that a miss costs only one pass. */
const BREAKS = [
  /^.*\n\s?\n/su, /^.*[.!?]["')\]]?\s/su, /^.*[\u3002\uff01\uff1f]/su, /^.*[,;:\u2014]\s/su, /^.*\s/su
]
/** Matches text that folding may turn into letters or digits. */
const MAYBE_SPOKEN =
  /[\p{Script=Latin}\p{Script=Greek}\p{N}\u2100-\u214f\u3200-\u33ff\u{1d400}-\u{1d7ff}\u{1f100}-\u{1f1ff}]/u

function isHighSurrogate (text: string, at: number): boolean {
  const code = text.charCodeAt(at)
  return code >= 0xd800 && code < 0xdc00
}

/** End of the window at `start`: after a blank line, a sentence, a clause or a space, else anywhere. */
function windowEnd (text: string, start: number): number {
  const limit = start + WINDOW
  if (limit >= text.length) return text.length
  const piece = text.slice(start, limit)
  for (const pattern of BREAKS) {
    const match = pattern.exec(piece)
    if (match && match[0].length > WINDOW / 4) return start + match[0].length
  }
  return isHighSurrogate(text, limit - 1) ? limit - 1 : limit
}

/** Consecutive windows of at most 2000 characters, lazily. */
export function * windows (text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const end = windowEnd(text, start)
    yield text.slice(start, end)
    start = end
  }
}

/** Whether a line continues on the next one, as in hard-wrapped text, unlike a heading or list item. */
function isWrapped (before: string, after: string): boolean {
  return /[^.!?:;\s][ ]*\n$/.test(before) && /^[ ]*[a-z]/.test(after)
}

/** Whether a punctuation mark is inside an address or a file name, because no space follows it. */
function isInside (before: string, after: string): boolean {
  return /\S$/.test(before) && /^[a-z0-9]/.test(after)
}

function continues (before: string, after: string): boolean {
  return isInside(before, after) || isAbbreviation(before, after) || isWrapped(before, after)
}

/** Splits a folded window at Unicode's sentence breaks, except after abbreviations and in wrapped lines. */
function * splitSentences (folded: string): Generator<string> {
  let pending = ''
  for (const { segment } of segmenter.segment(folded)) {
    if (pending !== '' && segment.trim() !== '' && !continues(pending, segment)) {
      yield pending
      pending = ''
    }
    pending += segment
  }
  if (pending.trim() !== '') yield pending
}

/** Lazily splits text into sentences, with markup removed, in linear time. */
export function * sentences (text: string): Generator<string> {
  for (const window of windows(plainText(text))) {
    if (MAYBE_SPOKEN.test(window)) yield * splitSentences(fold(window))
  }
}
