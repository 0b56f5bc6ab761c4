/**
 * Finds stop strings in a stream. The stop string that ends first wins (among equals the longest), so that
 * the result does not depend on how the text was split.
 */
export class StopFinder {
  private readonly stops: readonly string[]
  private held = ''
  found: string | null = null

  constructor (stops: readonly string[]) { this.stops = stops.filter((s) => s.length > 0) }

  push (text: string): { text: string, stopped: boolean } {
    if (this.found !== null) return { text: '', stopped: true }
    const all = this.held + text
    const first = this.firstStop(all)
    if (first !== undefined) {
      this.found = first.stop
      this.held = ''
      return { text: all.slice(0, first.at), stopped: true }
    }
    const sure = all.length - beginningOf(all, this.stops)
    this.held = all.slice(sure)
    return { text: all.slice(0, sure), stopped: false }
  }

  end (): string {
    const rest = this.held
    this.held = ''
    return rest
  }

  private firstStop (text: string): { stop: string, at: number } | undefined {
    const found = this.stops.map((stop) => ({ stop, at: text.indexOf(stop) })).filter(({ at }) => at >= 0)
    return found.sort((a, b) => a.at + a.stop.length - b.at - b.stop.length || a.at - b.at)[0]
  }
}

/** Length of the longest suffix of `text` that is a proper prefix of one of `words`. */
export function beginningOf (text: string, words: readonly string[]): number {
  let longest = 0
  for (const word of words) {
    for (let n = Math.min(word.length - 1, text.length); n > longest; n--) {
      if (text.endsWith(word.slice(0, n))) longest = n
    }
  }
  return longest
}
