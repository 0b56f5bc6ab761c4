import { readFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import os from 'node:os'

/** What a node reports about its machine, in the shapes of `/state`. Bytes as `{inBytes}`. */
export interface Vitals {
  memory: { ramTotal: Bytes, ramAvailable: Bytes, swapTotal: Bytes, swapAvailable: Bytes }
  system: {
    gpuUsage: number | null
    temp: number | null
    sysPower: number | null
    pcpuUsage: number
    accelerator: null
  }
  disk: { total: Bytes, available: Bytes }
  network: { interfaces: { name: string, address: string, family: string }[] }
}
interface Bytes { inBytes: number }

const bytes = (n: number): Bytes => ({ inBytes: Math.max(0, Math.round(n)) })

/** Reads a file that may not be there. */
function text (path: string): string {
  try { return readFileSync(path, 'utf8') } catch { return '' }
}

/** Fields of /proc/meminfo in bytes. Pure. */
export function parseMeminfo (content: string): Record<string, number> {
  const found: Record<string, number> = {}
  for (const [, key, kib] of content.matchAll(/^(\w+):\s+(\d+) kB$/gm)) found[key!] = Number(kib) * 1024
  return found
}

/**
 * Total and available memory as a container sees them: MemAvailable, cut by the cgroup's limit less what
 * the group uses beyond its reclaimable page cache. Pure.
 */
export function cutByCgroup (
  total: number, available: number, cgroup: { max: number | null, current: number, inactiveFile: number }
): { total: number, available: number } {
  if (cgroup.max === null || cgroup.max >= total) return { total, available }
  const free = cgroup.max - Math.max(0, cgroup.current - cgroup.inactiveFile)
  return { total: cgroup.max, available: Math.max(0, Math.min(available, free)) }
}

function cgroup (): { max: number | null, current: number, inactiveFile: number } {
  const root = '/sys/fs/cgroup'
  const max = text(`${root}/memory.max`).trim()
  const stat = /^inactive_file (\d+)$/m.exec(text(`${root}/memory.stat`))
  return {
    max: max === '' || max === 'max' ? null : Number(max),
    current: Number(text(`${root}/memory.current`).trim() || 0),
    inactiveFile: Number(stat?.[1] ?? 0)
  }
}

function memory (): Vitals['memory'] {
  const info = parseMeminfo(text('/proc/meminfo'))
  const seen = cutByCgroup(info['MemTotal'] ?? os.totalmem(), info['MemAvailable'] ?? os.freemem(), cgroup())
  return {
    ramTotal: bytes(seen.total),
    ramAvailable: bytes(seen.available),
    swapTotal: bytes(info['SwapTotal'] ?? 0),
    swapAvailable: bytes(info['SwapFree'] ?? 0)
  }
}

/** Busy share of all cores between two readings of os.cpus(), 0 to 1. Pure. */
export function busyShare (before: readonly os.CpuInfo[], after: readonly os.CpuInfo[]): number {
  const sum = (list: readonly os.CpuInfo[]): { idle: number, all: number } => list.reduce((s, c) => ({
    idle: s.idle + c.times.idle,
    all: s.all + Object.values(c.times).reduce((a, b) => a + b, 0)
  }), { idle: 0, all: 0 })
  const [a, b] = [sum(before), sum(after)]
  return b.all > a.all ? Math.min(1, Math.max(0, 1 - (b.idle - a.idle) / (b.all - a.all))) : 0
}

/** A sampler for one node; readings are reused for `maxAgeMs` so that asking often costs nothing. */
export function createVitals (home: string, mono: () => number, maxAgeMs = 2000): () => Promise<Vitals> {
  let last: { at: number, value: Promise<Vitals> } | undefined
  let cpus = os.cpus()
  const read = async (): Promise<Vitals> => {
    const space = await statfs(home)
    const now = os.cpus()
    const pcpuUsage = busyShare(cpus, now)
    cpus = now
    return {
      memory: memory(),
      system: { gpuUsage: null, temp: null, sysPower: null, pcpuUsage, accelerator: null },
      disk: { total: bytes(space.blocks * space.bsize), available: bytes(space.bavail * space.bsize) },
      network: { interfaces: Object.entries(os.networkInterfaces()).flatMap(([name, list]) =>
        (list ?? []).map((i) => ({ name, address: i.address, family: i.family }))) }
    }
  }
  return () => {
    if (last === undefined || mono() - last.at > maxAgeMs) last = { at: mono(), value: read() }
    return last.value
  }
}
