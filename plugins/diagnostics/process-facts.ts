import { readdirSync } from 'node:fs'
import os from 'node:os'
import { getHeapStatistics } from 'node:v8'

/** What the node's own process says of itself. Sizes in bytes, times in seconds. */
export interface ProcessFacts {
  pid: number
  uptimeSeconds: number
  memory: NodeJS.MemoryUsage
  heapLimitBytes: number
  hostname: string
  nodeVersion: string
  /** What keeps the event loop at work, by kind: sockets, servers, timers... */
  handles: Record<string, number>
  /** Open file descriptors; null where the system does not list them. */
  openFiles: number | null
}

/** Reads them; never throws. */
export function processFacts (): ProcessFacts {
  return {
    pid: process.pid,
    uptimeSeconds: process.uptime(),
    memory: process.memoryUsage(),
    heapLimitBytes: getHeapStatistics().heap_size_limit,
    hostname: os.hostname(),
    nodeVersion: process.version,
    handles: countByName(process.getActiveResourcesInfo()),
    openFiles: openFiles()
  }
}

/** How often each name is in the list. */
export function countByName (names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

function openFiles (): number | null {
  try {
    return readdirSync('/proc/self/fd').length
  } catch {
    return null
  }
}
