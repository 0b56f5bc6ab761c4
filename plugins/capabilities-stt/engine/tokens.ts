/** Whisper's vocabulary: byte-level BPE, languages, and timestamps of 20 ms after the special tokens. */
import { Tokenizer } from '@huggingface/tokenizers'
import { EngineError } from '../../../kernel/api/engine.js'
import { child, idsOf, listOf, numberOf, textOf, type Fields } from '../../runners/language/json.js'

/** Seconds of one timestamp step, and of the window that timestamps cover. */
export const STEP_SECONDS = 0.02
export const WINDOW_SECONDS = 30
/** Languages written without spaces, where each character counts as a word. */
const WITHOUT_SPACES = new Set(['zh', 'ja', 'th', 'lo', 'my', 'yue'])

/** A run of tokens that begins and ends at a word's boundaries. */
export interface Word { text: string, tokens: number }

/** The byte behind each character of GPT-2's byte-level alphabet. */
const BYTES = new Map<string, number>()
for (let byte = 0, other = 256; byte < 256; byte++) {
  const isShown = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173)
  BYTES.set(String.fromCodePoint(isShown ? byte : other++), byte)
}

export class Vocabulary {
  readonly end: number
  readonly start: number
  readonly previous: number
  readonly noSpeech: number
  readonly noTimestamps: number
  /** Id of the timestamp 0.00; all larger ids are timestamps. */
  readonly timestamps: number
  /** Token ids by language code; empty for a model of English alone. */
  readonly languages = new Map<string, number>()
  readonly suppressed: readonly number[]
  readonly suppressedFirst: readonly number[]
  readonly #tokenizer: Tokenizer
  readonly #pieces = new Map<number, Uint8Array>()
  readonly #special: Map<string, number>

  /** @throws EngineError model_invalid if a special token is missing */
  constructor (tokenizer: Fields, generation: Fields) {
    this.#tokenizer = new Tokenizer(tokenizer, {})
    this.#special = new Map(listOf(tokenizer['added_tokens'])
      .map(({ content, id }) => [textOf(content), numberOf(id) ?? -1]))
    for (const [piece, id] of Object.entries(child(child(tokenizer, 'model'), 'vocab'))) {
      this.#pieces.set(numberOf(id) ?? -1, Uint8Array.from(piece, (char) => BYTES.get(char) ?? 63))
    }
    this.end = this.special('endoftext')
    this.start = this.special('startoftranscript')
    this.previous = this.special('startofprev')
    this.noSpeech = this.special('nospeech', 'nocaptions')
    this.noTimestamps = this.special('notimestamps')
    this.timestamps = this.noTimestamps + 1
    if (generation['is_multilingual'] !== false) {
      for (const [content, id] of this.#special) {
        const code = /^<\|([a-z]{2,3})\|>$/.exec(content)?.[1]
        if (code !== undefined) this.languages.set(code, id)
      }
    }
    this.suppressed = idsOf(generation['suppress_tokens'])?.filter((id) => id < this.end) ?? []
    this.suppressedFirst = [...idsOf(generation['begin_suppress_tokens']) ?? [], this.end]
  }

  special (...names: string[]): number {
    const id = names.map((name) => this.#special.get(`<|${name}|>`)).find((id) => id !== undefined)
    if (id !== undefined) return id
    throw new EngineError('model_invalid', `tokenizer.json has no token <|${names[0]}|>`)
  }

  /** Tokens before the text: the language's and the task's, after at most `most` tokens of a prompt. */
  prefix (language: string, task: string, prompt: string, most: number): number[] {
    const { ids } = this.#tokenizer.encode(` ${prompt.trim()}`, { add_special_tokens: false })
    const earlier = (prompt === '' ? [] : ids).filter((id: number) => id < this.end).slice(-most)
    return [
      ...earlier.length > 0 ? [this.previous, ...earlier] : [], this.start,
      ...this.languages.size > 0 ? [this.languages.get(language)!, this.special(task)] : []
    ]
  }

  bytes (id: number): Uint8Array { return this.#pieces.get(id) ?? new Uint8Array() }

  /** The text of tokens; special tokens and timestamps have none, and broken characters become U+FFFD. */
  text (ids: readonly number[]): string {
    return Buffer.concat(ids.map((id) => this.bytes(id))).toString('utf8')
  }

  words (ids: readonly number[], language: string): Word[] {
    const words: Word[] = []
    let from = 0
    for (let to = 1; to <= ids.length; to++) {
      const text = this.text(ids.slice(from, to))
      // A character may consist of several tokens.
      if (text.endsWith('\uFFFD') && to < ids.length) continue
      const last = words.at(-1)
      const joins = last !== undefined &&
        (/^\p{P}+$/u.test(text) || !(text.startsWith(' ') || WITHOUT_SPACES.has(language)))
      if (joins) Object.assign(last, { text: last.text + text, tokens: last.tokens + to - from })
      else words.push({ text, tokens: to - from })
      from = to
    }
    return words
  }
}
