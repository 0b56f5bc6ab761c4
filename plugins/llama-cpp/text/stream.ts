import { StopFinder } from '../../runners/language/stop.js'

const SPACE = 0x20

/** A model's tokens. `strip` is the number of leading spaces that the decoder removes from its output. */
export interface TokenTable {
  size: number
  /** The bytes of a token; empty for an id without a token. */
  bytesOf (id: number): Uint8Array
  special: ReadonlySet<number>
  /** Added tokens (special or not) by text. */
  added: ReadonlyMap<string, number>
  strip: number
}

/**
 * Decodes token ids to text: holds back incomplete UTF-8 characters and possible beginnings of stop strings.
 * Once `stopped` is true, every later push returns nothing.
 */
export interface TextStream {
  push (id: number): { text: string, stopped: boolean }
  end (): { text: string }
  /** The stop string that was found, or null. */
  readonly stop: string | null
}

interface StreamOptions {
  /** True for a text completion, which keeps the leading space that some decoders remove. Default false. */
  continues?: boolean
  /** Special tokens to pass on as text (markers of tool calls and reasoning). Default: none. */
  markers?: readonly string[]
}

/**
 * Decodes ids one by one. A character is returned when its last byte arrives; `end` returns an incomplete
 * character as U+FFFD. Removes up to `strip` spaces at the start of the text.
 */
function detokeniser (
  table: TokenTable, strip: number, shown: (id: number) => boolean
): { push: (id: number) => string, end: () => string } {
  // Keep U+FEFF, which is text in an answer and not a byte order mark.
  const decoder = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true })
  let spaces = strip
  const stripped = (bytes: Uint8Array): Uint8Array => {
    let from = 0
    while (from < spaces && bytes[from] === SPACE) from++
    spaces = from < bytes.length ? 0 : spaces - from
    return bytes.subarray(from)
  }
  return {
    push (id) {
      if (!shown(id)) return ''
      return decoder.decode(stripped(table.bytesOf(id)), { stream: true })
    },
    end: () => decoder.decode()
  }
}

/** Decodes all ids, special tokens included. */
export function decodeAll (table: TokenTable, ids: readonly number[]): string {
  const text = detokeniser(table, table.strip, () => true)
  let out = ''
  for (const id of ids) out += text.push(id)
  return out + text.end()
}

export function textStream (table: TokenTable, stops: readonly string[],
  options: StreamOptions = {}): TextStream {
  const markers = new Set((options.markers ?? []).map((m) => table.added.get(m)))
  const strip = options.continues === true ? 0 : table.strip
  const text = detokeniser(table, strip, (id) => !table.special.has(id) || markers.has(id))
  const finder = new StopFinder(stops)
  return {
    push: (id) => finder.push(text.push(id)),
    end: () => {
      const last = finder.push(text.end())
      return { text: last.stopped ? last.text : last.text + finder.end() }
    },
    get stop () { return finder.found }
  }
}
