import { beginningOf } from '../../../runners/language/stop.js'

/** A generator that parses streamed text and returns T; each `yield` waits for more text. */
export type Reading<T> = Generator<void, T, void>

/**
 * Streamed text for readers written as generators. Each step waits until it has enough text or the text has
 * ended, so that the result never depends on where the text was split.
 */
export class Input {
  over = false
  private text = ''
  private at = 0
  private marked: number | null = null

  add (text: string): void {
    const from = this.marked ?? this.at
    this.text = this.text.slice(from) + text
    this.at -= from
    if (this.marked !== null) this.marked = 0
  }

  /** Marks the current position, to which `back` returns. */
  mark (): void { this.marked = this.at }

  keep (): void { this.marked = null }

  /** Returns to the position that `mark` stored. */
  back (): void {
    this.at = this.marked ?? this.at
    this.marked = null
  }

  /** Inserts text at the current position. */
  put (text: string): void {
    this.text = text + this.text.slice(this.at)
    this.at = 0
  }

  /** Returns the next character without consuming it; '' at the end. */
  * peek (): Reading<string> {
    while (this.at >= this.text.length) {
      if (this.over) return ''
      yield
    }
    return this.text[this.at] as string
  }

  /** Consumes and returns the next character; '' at the end. */
  * next (): Reading<string> {
    const c = yield * this.peek()
    if (c !== '') this.at++
    return c
  }

  * take (text: string): Reading<boolean> {
    while (this.text.length - this.at < text.length && !this.over && text.startsWith(this.rest())) yield
    const found = this.text.startsWith(text, this.at)
    if (found) this.at += text.length
    return found
  }

  /** Consumes and returns the first item of `texts` that comes next in the input; '' if there is none. */
  * takeOne (texts: readonly string[]): Reading<string> {
    for (const text of texts) if (yield * this.take(text)) return text
    return ''
  }

  * space (): Reading<string> {
    let taken = ''
    for (let c = yield * this.peek(); c !== '' && c.trim() === ''; c = yield * this.peek()) {
      taken += c
      this.at++
    }
    return taken
  }

  /** Consumes and returns up to `most` characters that match `fits`. */
  * run (fits: RegExp, most = Infinity): Reading<string> {
    let taken = ''
    while (taken.length < most) {
      const c = yield * this.peek()
      if (c === '' || !fits.test(c)) break
      taken += c
      this.at++
    }
    return taken
  }

  /**
   * Consumes text up to and including the first marker, and returns the marker ('' at the end). Passes the
   * text before the marker to `give` as soon as that text cannot be part of a marker.
   */
  * until (markers: readonly string[], give: (text: string) => void): Reading<string> {
    for (;;) {
      const places = markers.map((marker) => ({ marker, at: this.text.indexOf(marker, this.at) }))
        .filter(({ at }) => at >= 0).sort((a, b) => a.at - b.at || b.marker.length - a.marker.length)
      const [first] = places
      const held = this.over ? 0 : beginningOf(this.rest(), markers)
      const end = first?.at ?? this.text.length - held
      if (end > this.at) give(this.text.slice(this.at, end))
      this.at = end + (first?.marker.length ?? 0)
      if (first !== undefined) return first.marker
      if (this.over) return ''
      yield
    }
  }

  private rest (): string { return this.text.slice(this.at) }
}
