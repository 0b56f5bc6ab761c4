/** Exit status by which a node asks its launcher to start it again (EX_TEMPFAIL of sysexits.h). */
export const RESTART_STATUS = 75

/** One pending restart at most. */
export function createRestart (): { ask: () => boolean, onAsk: (fn: () => void) => void } {
  let asked = false
  let listener: (() => void) | undefined
  return {
    ask () {
      if (asked) return false
      asked = true
      // The answer to the request goes out first.
      setImmediate(() => listener?.())
      return true
    },
    onAsk (fn) { listener = fn }
  }
}
