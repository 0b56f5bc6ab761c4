/** Examine the last WINDOW characters of an answer after every STEP new ones. */
const WINDOW = 4_000
const STEP = 200
/** A loop is at least LEAST_CHARS characters in which one passage repeats at least LEAST_TIMES times. */
const LEAST_CHARS = 800
const LEAST_TIMES = 4

/** Reads an answer piece by piece; returns true once it ends in the same passage over and over. */
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
    // Do not report Base64, in which equal bytes repeat legitimately.
    if (end.slice(period) === end.slice(0, -period)) return /[^\w+/=-]/.test(end)
  }
  return false
}
