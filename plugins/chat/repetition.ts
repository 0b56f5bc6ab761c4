/** Characters that are compared, and how many new ones start the next comparison. */
const WINDOW = 4_000
const STEP = 200
/** A loop has at least so many characters, and the same passage so many times. */
const LEAST_CHARS = 800
const LEAST_TIMES = 4

/** Reads an answer piece by piece; true as soon as its end is one passage over and over. */
export function loopFinder (): (piece: string) => boolean {
  let tail = ''
  let fresh = 0
  return (piece) => {
    tail = (tail + piece).slice(-WINDOW)
    fresh += piece.length
    if (fresh < STEP || tail.length < LEAST_CHARS) return false
    fresh = 0
    return isLoop(tail)
  }
}

function isLoop (text: string): boolean {
  for (let period = 1; period * LEAST_TIMES <= text.length; period++) {
    const end = text.slice(-Math.max(LEAST_CHARS, period * LEAST_TIMES))
    // Base64 of equal bytes repeats, too.
    if (end.slice(period) === end.slice(0, -period)) return /[^\w+/=-]/.test(end)
  }
  return false
}
