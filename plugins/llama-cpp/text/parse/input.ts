/** A reader that waits for text: each `yield` asks for more of it. */
export type Reading<T> = Generator<void, T, void>

/**
 * Text of an output that comes in pieces, for readers written as generators. What a reader finds depends on
 * the text alone, never on where it was cut: a step that needs more text waits until it is there or the
 * output is over.
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

  /** Remembers this place, so that `back` can return to it. */
  mark (): void { this.marked = this.at }

  keep (): void { this.marked = null }

  /** Returns to the place that was remembered. */
  back (): void {
    this.at = this.marked ?? this.at
    this.marked = null
  }

  /** Puts text in front of what comes next. */
  put (text: string): void {
    this.text = text + this.text.slice(this.at)
    this.at = 0
  }

  /** The next character; '' at the end. */
  * peek (): Reading<string> {
    while (this.at >= this.text.length) {
      if (this.over) return ''
      yield
    }
    return this.text[this.at] as string
  }

  /** Takes the next character; '' at the end. */
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

  /** Takes the first of the texts that comes next; '' for none. */
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

  /** Takes a run of characters that fit; at most `most` of them. */
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
   * Takes text up to and with the first of the markers, which is returned; '' where the output ends first.
   * `give` gets the text before it, as soon as none of it can belong to a marker.
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

/** Length of the longest end of `text` that begins one of the words, but is not a whole one. */
export function beginningOf (text: string, words: readonly string[]): number {
  let longest = 0
  for (const word of words) {
    for (let n = Math.min(word.length - 1, text.length); n > longest; n--) {
      if (text.endsWith(word.slice(0, n))) longest = n
    }
  }
  return longest
}
