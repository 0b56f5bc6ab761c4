import { defineService } from '../api/plugin.js'
import type { CallOutcome } from './calls.js'

/** Calls of one capability that run now, and those that wait for a place. */
export interface CallQueue { capability: string, running: number, waiting: number }

/** Tells subscribers about finished requests and calls. They are called synchronously and must be quick. */
export interface Traffic {
  /**
   * Calls `fn` after each HTTP request whose answer was sent to its end, and with 499 for a streamed one that
   * was cut off. `owner` is the plugin of the route, `kernel` for the node's own; undefined where no route
   * fits.
   */
  onAnswer (fn: (owner: string | undefined, status: number) => void): () => void
  /** Calls `fn` after each capability call, and each request served in the place of one, has ended. */
  onCall (fn: (outcome: CallOutcome) => void): () => void
  /** The queues of this node's capabilities that were called so far. */
  queues (): CallQueue[]
}
export const TrafficService = defineService<Traffic>('kernel.traffic')

/** The kernel's side: reports finished requests and calls to the subscribers. */
export interface TrafficSource extends Traffic {
  answered (owner: string | undefined, status: number): void
  ended (outcome: CallOutcome): void
}

export function createTraffic (queues: () => CallQueue[]): TrafficSource {
  const answers = new Set<Parameters<Traffic['onAnswer']>[0]>()
  const calls = new Set<Parameters<Traffic['onCall']>[0]>()
  return {
    queues,
    onAnswer (fn) {
      answers.add(fn)
      return () => { answers.delete(fn) }
    },
    onCall (fn) {
      calls.add(fn)
      return () => { calls.delete(fn) }
    },
    answered (owner, status) { for (const fn of answers) fn(owner, status) },
    ended (outcome) { for (const fn of calls) fn(outcome) }
  }
}
