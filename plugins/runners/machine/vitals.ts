import os from 'node:os'
import {
  deadline, raceAbort, type Clock, type InterfaceReading, type Logger, type MachineStats, type VitalsSource,
  type Rates
} from '../../../kernel/index.js'
import { readGpus, readProcessorHeat, summarize, usableGpus, type GpuReading, type GpuReport } from './gpu.js'
import { thisMachine, type MachineIo } from './io.js'

type Environment = Readonly<Record<string, string | undefined>>

export interface MachineOptions {
  /** Folder whose volume's free space is reported. */
  home: string
  clock: Clock
  log: Logger
  io?: MachineIo
  /** Environment of this process, which its child processes inherit in part. */
  env?: Environment
}

/** Readings of this machine; each call takes a new one, except `lastGpus`. */
export interface Machine {
  /** Free RAM in bytes, capped by this process's control groups; null if unknown. */
  freeRam (): Promise<number | null>
  /** Free bytes of each GPU; empty if reading takes more than 5 s. Also updates the reading in /state. */
  freeVram (): Promise<readonly (number | null)[]>
  /** Never throws; takes up to 15 s if a driver is faulty. */
  gpus (): Promise<GpuReport>
  lastGpus (): GpuReading
}

export interface MachineReader extends Machine, VitalsSource {}

/** Milliseconds for which a reading is reused. */
const FRESH_MS = 1000
/** Limit in ms on each part of a reading: a slower part is null and not read again until it completes. */
const PART_MS = 1000
/** Limit in ms on a GPU reading for which a caller waits: the query may first have to wake the driver. */
const GPU_PART_MS = 5000
/** Milliseconds between GPU and sensor readings; the interval doubles while readings fail. */
const LOAD_MS = 30_000
const LOAD_DOUBLINGS = 7

const bytes = (n: number): { inBytes: number } => ({ inBytes: Math.max(0, Math.round(n)) })

/** Share of all cores that was busy between two readings of os.cpus(), 0 to 1. Pure. */
export function busyShare (before: readonly os.CpuInfo[], after: readonly os.CpuInfo[]): number {
  const sum = (list: readonly os.CpuInfo[]): { idle: number, all: number } => list.reduce((s, c) => ({
    idle: s.idle + c.times.idle,
    all: s.all + Object.values(c.times).reduce((a, b) => a + b, 0)
  }), { idle: 0, all: 0 })
  const [a, b] = [sum(before), sum(after)]
  return b.all > a.all ? Math.min(1, Math.max(0, 1 - (b.idle - a.idle) / (b.all - a.all))) : 0
}

export function createMachine (
  { home, clock, log, io = thisMachine(clock), env = {} }: MachineOptions
): MachineReader {
  const report = reporter(log)
  const part = <T>(name: string, read: () => T | Promise<T>, ms?: number): (() => Promise<T | null>) =>
    bounded(clock, read, (error) => { report(name, error) }, ms)
  const memory = part('memory', () => readMemory(io))
  const disk = part('disk', () => io.space(home))
  const cpu = part('cpu', processor(io))
  const network = part('network', interfaces(io, clock))
  const gpus = listGpus(io)
  const { load, measure, last: lastGpus } = loadReader({ io, clock, env, gpus, report })
  const measureInTime = part('gpu', measure, GPU_PART_MS)
  const read = async (): Promise<MachineStats> => {
    const [ram, space, pcpuUsage, traffic] = await Promise.all([memory(), disk(), cpu(), network()])
    return {
      memory: ram === null
        ? null
        : {
            ramTotal: bytes(ram.total), ramAvailable: bytes(ram.available),
            swapTotal: bytes(ram.swapTotal), swapAvailable: bytes(ram.swapFree)
          },
      system: { ...load(), pcpuUsage },
      disk: space === null ? null : { total: bytes(space.total), available: bytes(space.available) },
      network: traffic === null ? null : { interfaces: traffic }
    }
  }
  let last: { at: number, value: Promise<MachineStats> } | undefined
  let known: MachineStats | undefined
  return {
    vitals () {
      if (last !== undefined && clock.mono() - last.at < FRESH_MS) {
        // A reading takes several event-loop turns, so under load requests would queue behind it.
        return known === undefined ? last.value : Promise.resolve(known)
      }
      last = { at: clock.mono(), value: read().then((value) => known = value) }
      return last.value
    },
    load,
    gpus,
    lastGpus,
    freeRam: async () => (await memory())?.available ?? null,
    freeVram: async () => usableGpus((await measureInTime())?.gpus ?? [], env)
      .map(({ vramTotalBytes, vramUsedBytes }) =>
        vramTotalBytes === null || vramUsedBytes === null ? null : vramTotalBytes - vramUsedBytes)
  }
}

/** Lists the GPUs once on systems other than Linux, which do not report the load of GPUs. */
function listGpus (io: MachineIo): () => Promise<GpuReport> {
  let listed: GpuReport | undefined
  return async () => {
    const report = listed ?? await readGpus(io)
    if (io.platform !== 'linux' && report.problems.length === 0) listed = report
    return report
  }
}

function reporter (log: Logger): (part: string, error: unknown) => void {
  const logged = new Set<string>()
  return (part, err) => {
    if (logged.has(part)) return
    logged.add(part)
    log.warn({ err, part }, `the ${part} of this machine cannot be read; it is shown as unknown`)
  }
}

/** The reading; null if it fails or takes more than `ms`. A reading that hangs is not started again. */
function bounded<T> (
  clock: Clock, read: () => T | Promise<T>, failed: (error: unknown) => void, ms = PART_MS
): () => Promise<T | null> {
  let pending: Promise<T | null> | undefined
  return async () => {
    pending ??= Promise.resolve().then(read).catch((error: unknown) => { failed(error); return null })
      .finally(() => { pending = undefined })
    const { signal, stop } = deadline(clock, ms, () => new Error(`no answer in ${ms} ms`))
    return await raceAbort(pending, signal).catch((error: unknown) => { failed(error); return null })
      .finally(stop)
  }
}

function processor (io: MachineIo): () => number {
  let before: os.CpuInfo[] = []
  return () => {
    const now = io.cpus()
    const share = busyShare(before, now)
    before = now
    return share
  }
}

function interfaces (io: MachineIo, clock: Clock): () => Promise<InterfaceReading[]> {
  let before: { at: number, traffic: Traffic } = { at: clock.mono(), traffic: new Map() }
  return async () => {
    const now = { at: clock.mono(), traffic: await readTraffic(io) }
    const { traffic, at } = before
    before = now
    return Object.entries(io.addresses()).flatMap(([name, list]) =>
      (list ?? []).map(({ address, family }) =>
        ({ name, address, family, ...ratesOf(name, traffic, now.traffic, now.at - at) })))
  }
}

interface LoadParts extends Required<Pick<MachineOptions, 'io' | 'clock' | 'env'>> {
  gpus: () => Promise<GpuReport>
  report: (part: string, error: unknown) => void
}

/** Reads GPUs and sensors; returns functions to take a new reading and to get the last one. */
function loadReader ({ io, clock, env, gpus, report }: LoadParts) {
  let known = summarize([], null, env)
  let last: GpuReading = { atMs: -Infinity, gpus: [], vramByPid: new Map() }
  let dueAt = -Infinity
  let failures = 0
  const measure = async (): Promise<GpuReport> => {
    const startedAt = clock.mono()
    const heat = io.platform === 'linux' ? readProcessorHeat(io) : null
    const found = await gpus()
    const { problems, vramByPid = new Map<number, number>() } = found
    if (problems.length > 0) report('gpu', new Error(problems.join('; ')))
    failures = problems.length > 0 ? failures + 1 : 0
    const celsius = await heat
    // Readings can overlap: keep the one that started last, even if an earlier one ends later.
    if (startedAt < last.atMs) return found
    known = summarize(found.gpus, celsius, env)
    last = { atMs: startedAt, gpus: known.accelerators, vramByPid }
    dueAt = startedAt + LOAD_MS * 2 ** Math.min(failures, LOAD_DOUBLINGS)
    return found
  }
  return {
    measure,
    last: () => last,
    load () {
      if (clock.mono() >= dueAt) {
        dueAt = Infinity
        void measure()
      }
      return known
    }
  }
}

type Traffic = ReadonlyMap<string, { rx: number, tx: number }>

async function readTraffic ({ platform, read, ask, addresses }: MachineIo): Promise<Traffic> {
  if (platform === 'linux') return parseNetDev(await read('/proc/net/dev'))
  return trafficOf(await ask('networkStats', Object.keys(addresses()).join(',')))
}

/** Byte counters by interface from /proc/net/dev: field 1 after the colon is received, field 9 sent. Pure. */
export function parseNetDev (content: string): Traffic {
  return new Map([...content.matchAll(/^ *([^\s|]+): *(\d[\d ]*)$/gm)].flatMap(([, name, fields]) => {
    const [rx, , , , , , , , tx] = fields!.trim().split(/\s+/).map(Number)
    return rx === undefined || tx === undefined ? [] : [[name!, { rx, tx }] as const]
  }))
}

/** Counters from systeminformation's `networkStats()`; entries without numbers are skipped. Pure. */
export function trafficOf (answer: unknown): Traffic {
  const list: unknown[] = Array.isArray(answer) ? answer : []
  return new Map((list as Record<string, unknown>[]).flatMap(({ iface, rx_bytes: rx, tx_bytes: tx }) =>
    typeof iface === 'string' && Number.isFinite(rx) && Number.isFinite(tx)
      ? [[iface, { rx: rx as number, tx: tx as number }] as const]
      : []))
}

/** Bytes per second of one interface between two readings `ms` apart. Pure. */
export function ratesOf (name: string, before: Traffic, after: Traffic, ms: number): Rates {
  const [a, b] = [before.get(name), after.get(name)]
  const rate = (from: number, to: number): number | null =>
    ms > 0 && to >= from ? Math.round((to - from) / ms * 1000) : null
  if (a === undefined || b === undefined) return { rxBytesPerSecond: null, txBytesPerSecond: null }
  return { rxBytesPerSecond: rate(a.rx, b.rx), txBytesPerSecond: rate(a.tx, b.tx) }
}

type ReadText = MachineIo['read']

/**
 * Memory of a control group in bytes; `max` is null without a limit. `reclaimable` is kernel caches and page
 * cache, including active_file.
 */
export interface CgroupMemory { max: number | null, current: number, reclaimable: number }

interface MemoryReading { total: number, available: number, swapTotal: number, swapFree: number }

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

interface CgroupFolders { version: 1 | 2, folders: string[] }

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
    max: limit < NO_LIMIT_BYTES ? limit : null, current: Number(files.usage.trim()) || 0,
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

async function readMemory ({ platform, read, ask }: MachineIo): Promise<MemoryReading> {
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
