import type { Fleet } from './fleet.js'

/**
 * Keeps the node's tags in line with what it can serve: a task is advertised while a ready runner does it.
 * Returns what looks again.
 */
export function createAdvertiser (
  fleet: () => Fleet,
  advertise: (tag: string, on: boolean) => void
): () => void {
  let shown = new Set<string>()
  return () => {
    const members = fleet()
      .members()
      .filter((member) => fleet().ready(member))
    const now = new Set(members.flatMap(({ card }) => card?.tasks ?? []))
    for (const tag of now) if (!shown.has(tag)) advertise(tag, true)
    for (const tag of shown) if (!now.has(tag)) advertise(tag, false)
    shown = now
  }
}
