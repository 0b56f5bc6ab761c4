import { bytesOf } from './tokens.js'
import type { TokenTable } from './tokens.js'
import type { StreamOptions, TextStream } from './types.js'

const SPACE = 0x20

/**
 * Text of ids so far: bytes are joined over tokens, so a character appears only when all its bytes are there.
 */
class Detokeniser {
  private readonly table: TokenTable
  private readonly shown: (id: number) => boolean
  // The mark U+FEFF is text here, not an encoding signature.
  private readonly decoder = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true })
  private strip: number

  constructor (table: TokenTable, strip: number, shown: (id: number) => boolean) {
    this.table = table
    this.strip = strip
    this.shown = shown
  }

  push (id: number): string {
    if (!this.shown(id)) return ''
    let bytes = bytesOf(this.table, id)
    if (bytes.length > 0 && this.strip > 0) bytes = this.withoutLead(bytes)
    return this.decoder.decode(bytes, { stream: true })
  }

  /** What was held back; incomplete characters become U+FFFD. */
  end (): string {
    return this.decoder.decode()
  }

  private withoutLead (bytes: Uint8Array): Uint8Array {
    let from = 0
    while (from < bytes.length && bytes[from] === SPACE && this.strip > 0) {
      from++
      this.strip--
    }
    if (from < bytes.length) this.strip = 0
    return bytes.subarray(from)
  }
}

/** The text of ids as a whole: the same as all pushes of a stream without stop strings. */
export function decodeAll (table: TokenTable, ids: readonly number[], skipSpecial: boolean): string {
  const text = new Detokeniser(table, table.strip, (id) => !skipSpecial || !table.special.has(id))
  let out = ''
  for (const id of ids) out += text.push(id)
  return out + text.end()
}

/**
 * Finds stop strings in text that comes in pieces. The one whose end comes first counts (of those the
 * longest), so the result does not depend on how the text was cut.
 */
export class StopFinder {
  private readonly stops: readonly string[]
  private held = ''
  /** The stop string that was found. */
  found: string | null = null

  constructor (stops: readonly string[]) {
    this.stops = stops.filter((s) => s.length > 0)
  }

  push (text: string): { text: string, stopped: boolean } {
    if (this.found !== null) return { text: '', stopped: true }
    const all = this.held + text
    const { at: cut, stop } = this.firstStop(all)
    if (stop !== null) {
      this.found = stop
      this.held = ''
      return { text: all.slice(0, cut), stopped: true }
    }
    const keep = this.mayBegin(all)
    this.held = all.slice(all.length - keep)
    return { text: all.slice(0, all.length - keep), stopped: false }
  }

  end (): string {
    const rest = this.held
    this.held = ''
    return rest
  }

  /** The stop string that is finished first, and where it begins. */
  private firstStop (text: string): { at: number, stop: string | null } {
    let first: { at: number, stop: string | null } = { at: text.length, stop: null }
    let end = Infinity
    for (const stop of this.stops) {
      const at = text.indexOf(stop)
      if (at < 0) continue
      if (at + stop.length < end || (at + stop.length === end && at < first.at)) {
        first = { at, stop }
        end = at + stop.length
      }
    }
    return first
  }

  /** Length of the longest end of `text` that begins a stop string. */
  private mayBegin (text: string): number {
    let longest = 0
    for (const stop of this.stops) {
      for (let n = Math.min(stop.length - 1, text.length); n > longest; n--) {
        if (text.endsWith(stop.slice(0, n))) longest = n
      }
    }
    return longest
  }
}

/** A text stream over a token table; see `TextStream`. */
export function textStream (table: TokenTable, stops: readonly string[],
  options: StreamOptions = {}): TextStream {
  const markers = new Set((options.markers ?? []).map((m) => table.added.get(m)))
  const strip = options.continues === true ? 0 : table.strip
  const text = new Detokeniser(table, strip, (id) => !table.special.has(id) || markers.has(id))
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
