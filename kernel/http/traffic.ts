import { defineService } from '../api/plugin.js'

/** Notifies subscribers of finished requests. Called synchronously, so subscribers must be quick. */
export interface Traffic {
  /**
   * Calls `fn` after each completely answered request, and with status 499 for a stream that was cut off.
   * `owner` is the route's plugin, `kernel` for the node's own routes, undefined if no route matches.
   */
  onAnswer (fn: (owner: string | undefined, status: number) => void): () => void
}
export const TrafficService = defineService<Traffic>('kernel.traffic')

export interface TrafficSource extends Traffic {
  answered (owner: string | undefined, status: number): void
}

export function createTraffic (): TrafficSource {
  const answers = new Set<Parameters<Traffic['onAnswer']>[0]>()
  return {
    onAnswer (fn) {
      answers.add(fn)
      return () => { answers.delete(fn) }
    },
    answered (owner, status) { for (const fn of answers) fn(owner, status) }
  }
}
