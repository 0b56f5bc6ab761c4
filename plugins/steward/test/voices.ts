import type { Voice } from '../ask.js'
import type { Answer, Question } from '../types.js'

/** An answer that has only a diagnosis. */
export const answerOf = (diagnosis: string): Answer => ({
  diagnosis, sure: true, facts: [], evidence: [], remedies: [], unknown: [], voice: 'reader', calls: []
})

/** A voice that a test controls: the questions it received, and the function that releases it. */
export interface HeldVoice {
  readonly voice: Voice
  readonly asked: Question[]
  /** Number of turns that have ended, whether aborted or not. */
  readonly ended: number
  /** Lets the turn with this index say "Fine." and end. */
  speak (turn: number): void
}

/** A voice that says `first` immediately, and the rest when released. */
export function heldVoice (first = 'So: '): HeldVoice {
  const asked: Question[] = []
  const gates: (() => void)[] = []
  let ended = 0
  return {
    asked,
    get ended () { return ended },
    speak (turn) { gates[turn]!() },
    voice: async function * (_parts, question, { signal }) {
      const turn = asked.push(question) - 1
      const told = new Promise<void>((resolve) => { gates[turn] = resolve })
      const left = new Promise<void>((resolve) => { signal.addEventListener('abort', () => { resolve() }) })
      try {
        if (first !== '') yield { type: 'text', text: first }
        await Promise.race([told, left])
        yield { type: 'text', text: 'Fine.' }
        yield { type: 'answer', answer: answerOf('Fine.') }
      } finally {
        ended++
      }
    }
  }
}

/** Waits until `look` returns true; only the test's own timeout limits the wait. */
export async function until (look: () => boolean): Promise<void> {
  while (!look()) await new Promise((resolve) => { setImmediate(resolve) })
}
