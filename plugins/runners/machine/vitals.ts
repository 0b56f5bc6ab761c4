import os from 'node:os'
import { delay } from '../../../kernel/index.js'
import type { Clock, InterfaceReading, Logger, MachineStats, VitalsSource } from '../../../kernel/index.js'
import { readGpus, readProcessorHeat, summarize, usableGpus } from './gpu.js'
import type { GpuReading, GpuReport } from './gpu.js'
import { thisMachine } from './io.js'
import type { MachineIo } from './io.js'
import { ratesOf, readTraffic } from './network.js'
import type { Traffic } from './network.js'
import { readMemory } from './ram.js'

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
            ramTotal: bytes(ram.total),
            ramAvailable: bytes(ram.available),
            swapTotal: bytes(ram.swapTotal),
            swapAvailable: bytes(ram.swapFree)
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
    const answered = new AbortController()
    const late = delay(clock, ms, answered.signal).then(() => {
      failed(new Error(`no answer in ${ms} ms`))
      return null
    })
    return await Promise.race([pending, late]).finally(() => { answered.abort() })
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
