import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

const DAY_MS = 86_400_000

/** True when a file of that age is to go. Pure. */
export function expired (modifiedMs: number, nowMs: number, retentionDays: number): boolean {
  return nowMs - modifiedMs > retentionDays * DAY_MS
}

/** Removes trace files (*.json) older than the retention; returns their names. */
export async function pruneTraces (folder: string, retentionDays: number, nowMs: number): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const removed: string[] = []
  for (const entry of entries) {
    if (!entry.isFile() || !entry.name.endsWith('.json')) continue
    const path = join(folder, entry.name)
    if (!expired((await stat(path)).mtimeMs, nowMs, retentionDays)) continue
    await rm(path, { force: true })
    removed.push(entry.name)
  }
  return removed
}
