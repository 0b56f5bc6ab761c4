import { defineService } from '../api/plugin.js'

/** Notifies subscribers of finished requests. They are called synchronously and must be quick. */
export interface Traffic {
  /**
   * Calls `fn` after each completely answered HTTP request, and with 499 for a streamed one that was cut off.
   * `owner` is the plugin of the route, `kernel` for the node's own; undefined if no route matches.
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
