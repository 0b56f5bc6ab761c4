import os from 'node:os'
import type { MachineIo } from './io.js'

type ReadText = MachineIo['read']

/**
 * Memory of a control group in bytes; `max` is null without a limit. `reclaimable` is kernel caches and page
 * cache, including active_file.
 */
export interface CgroupMemory { max: number | null, current: number, reclaimable: number }

export interface MemoryReading { total: number, available: number, swapTotal: number, swapFree: number }

/** Fields of /proc/meminfo in bytes. Pure. */
export function parseMeminfo (content: string): Record<string, number> {
  const found: Record<string, number> = {}
  for (const [, key, kib] of content.matchAll(/^(\w+):\s+(\d+) kB$/gm)) found[key!] = Number(kib) * 1024
  return found
}

/**
 * Total and available memory inside a container: MemAvailable, capped by the cgroup's limit minus its memory
 * that the kernel cannot reclaim. Pure.
 */
export function limitByCgroup (
  total: number, available: number, cgroup: CgroupMemory
): { total: number, available: number } {
  if (cgroup.max === null || cgroup.max >= total) return { total, available }
  const free = cgroup.max - Math.max(0, cgroup.current - cgroup.reclaimable)
  return { total: cgroup.max, available: Math.max(0, Math.min(available, free)) }
}

export interface CgroupFolders { version: 1 | 2, folders: string[] }

/**
 * Folders of a process's control group and all groups around it, innermost first. The mount's root is always
 * included, because inside a container it is the container's group, whatever the path is. `content` is
 * /proc/self/cgroup (cgroups(7)). Pure.
 */
export function cgroupFolders (content: string): CgroupFolders[] {
  const layout = (version: 1 | 2, base: string, path: string): CgroupFolders => {
    const names = path.split('/').filter((name) => name !== '' && name !== '..')
    const folders = names.map((_, i) => `${base}/${names.slice(0, names.length - i).join('/')}`)
    return { version, folders: [...folders, base] }
  }
  return content.split('\n').flatMap((line) => {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? []
    if (controllers === undefined || path === undefined) return []
    if (controllers === '') return [layout(2, '/sys/fs/cgroup', path)]
    return controllers.split(',').includes('memory') ? [layout(1, '/sys/fs/cgroup/memory', path)] : []
  })
}

/** Limits from this size on count as no limit: cgroup version 1 reports a number near 2^63 for no limit. */
const NO_LIMIT_BYTES = 2 ** 60

/** Parses a control group's limit, usage and memory.stat files. A missing or infinite limit is null. Pure. */
export function parseCgroup (
  version: 1 | 2, files: { limit: string, usage: string, stat: string }
): CgroupMemory {
  const caches = version === 2 ? /^(?:(?:in)?active_file|slab_reclaimable) (\d+)$/gm
    : /^total_(?:in)?active_file (\d+)$/gm
  const limit = /^\d+$/.test(files.limit.trim()) ? Number(files.limit) : Infinity
  return {
    max: limit < NO_LIMIT_BYTES ? limit : null,
    current: Number(files.usage.trim()) || 0,
    reclaimable: [...files.stat.matchAll(caches)].reduce((sum, [, bytes]) => sum + Number(bytes), 0)
  }
}

const FILES = {
  1: { limit: 'memory.limit_in_bytes', usage: 'memory.usage_in_bytes' },
  2: { limit: 'memory.max', usage: 'memory.current' }
} as const

async function readCgroup (version: 1 | 2, folder: string, read: ReadText): Promise<CgroupMemory> {
  const limit = await read(`${folder}/${FILES[version].limit}`)
  const none = { max: null, current: 0, reclaimable: 0 }
  if (parseCgroup(version, { limit, usage: '', stat: '' }).max === null) return none
  const [usage, stat] =
    await Promise.all([read(`${folder}/${FILES[version].usage}`), read(`${folder}/memory.stat`)])
  return parseCgroup(version, { limit, usage, stat })
}

export async function readMemory ({ platform, read, ask }: MachineIo): Promise<MemoryReading> {
  return platform === 'linux' ? await readLinuxMemory(read) : memoryOf(await ask('mem'))
}

/** Memory of a Linux machine, capped by every control group that contains this process. */
export async function readLinuxMemory (read: ReadText): Promise<MemoryReading> {
  const info = parseMeminfo(await read('/proc/meminfo'))
  const layouts = cgroupFolders(await read('/proc/self/cgroup'))
  const groups = await Promise.all(layouts.flatMap(({ version, folders }) =>
    folders.map((folder) => readCgroup(version, folder, read))))
  const total = info['MemTotal'] ?? os.totalmem()
  const free = (info['MemAvailable'] ?? os.freemem()) + arcBytes(await read('/proc/spl/kstat/zfs/arcstats'))
  const physical = { total, available: Math.min(total, free) }
  const seen = groups.reduce((rest, group) => limitByCgroup(rest.total, rest.available, group), physical)
  return { ...seen, swapTotal: info['SwapTotal'] ?? 0, swapFree: info['SwapFree'] ?? 0 }
}

/** Bytes that the ZFS cache releases on demand; MemAvailable does not count them. Pure. */
function arcBytes (stats: string): number {
  const [size = 0, least = 0] = ['size', 'c_min'].map((name) =>
    Number(new RegExp(`^${name} +\\d+ +(\\d+)$`, 'm').exec(stats)?.[1] ?? 0))
  return Math.max(0, size - least)
}

/** Memory from systeminformation's `mem()`, for systems without /proc. Throws if fields are missing. */
export function memoryOf (answer: unknown): MemoryReading {
  const { total, available, swaptotal = 0, swapfree = 0 } = (answer ?? {}) as Record<string, number>
  const reading = { total, available, swapTotal: swaptotal, swapFree: swapfree }
  for (const [name, value] of Object.entries(reading)) {
    if (!Number.isFinite(value)) throw new Error(`systeminformation has no valid "${name}": ${String(value)}`)
  }
  return reading as MemoryReading
}
