import os from 'node:os'
import { summarize } from '../cluster/gossip/gpu.js'
import { readGpus, readHeat, readMemory, readTraffic, thisMachine } from '../cluster/gossip/machine.js'
import { ratesOf } from '../cluster/gossip/network.js'
import type { Clock } from '../api/clock.js'
import type { GpuReading, SlowReading } from '../cluster/gossip/gpu.js'
import type { Machine } from '../cluster/gossip/machine.js'
import type { InterfaceReading, Traffic } from '../cluster/gossip/network.js'
import type { Logger } from '../api/plugin.js'
import type { FreeMemory } from '../api/services.js'

export { cutByCgroup, parseMeminfo } from '../cluster/gossip/memory.js'

/**
 * What a node reports about its machine, in the shapes of `/state`. Bytes as `{inBytes}`; a part that could
 * not be read is null.
 */
export interface Vitals {
  memory: { ramTotal: Bytes, ramAvailable: Bytes, swapTotal: Bytes, swapAvailable: Bytes } | null
  system: {
    /** Mean of the GPUs, 0 to 1. */
    gpuUsage: number | null
    /** The hottest of processor and GPUs, degrees Celsius. */
    temp: number | null
    /** What the GPUs draw, W. */
    sysPower: number | null
    /** Busy share of all cores since the reading before (the first: since the machine started), 0 to 1. */
    pcpuUsage: number | null
    accelerator: GpuReading | null
  }
  disk: { total: Bytes, available: Bytes } | null
  network: { interfaces: InterfaceReading[] } | null
}
interface Bytes { inBytes: number }

export interface VitalsOptions {
  /** Its volume is the one whose space is reported. */
  home: string
  clock: Clock
  log: Logger
  machine?: Machine
}

/** A reading is given again for this long, so that asking often costs nothing. */
const FRESH_MS = 1000
/** A part that takes longer is null this time; it is not asked again before it has answered. */
const PART_MS = 1000
/** The same for GPUs where somebody waits for them: a program is run that wakes their driver. */
const GPU_PART_MS = 5000
/** GPUs and sensors are looked at this often, and rarer while that fails. */
const SLOW_MS = 30_000
const SLOW_DOUBLINGS = 7

const bytes = (n: number): Bytes => ({ inBytes: Math.max(0, Math.round(n)) })

/** Busy share of all cores between two readings of os.cpus(), 0 to 1. Pure. */
export function busyShare (before: readonly os.CpuInfo[], after: readonly os.CpuInfo[]): number {
  const sum = (list: readonly os.CpuInfo[]): { idle: number, all: number } => list.reduce((s, c) => ({
    idle: s.idle + c.times.idle,
    all: s.all + Object.values(c.times).reduce((a, b) => a + b, 0)
  }), { idle: 0, all: 0 })
  const [a, b] = [sum(before), sum(after)]
  return b.all > a.all ? Math.min(1, Math.max(0, 1 - (b.idle - a.idle) / (b.all - a.all))) : 0
}

/**
 * A sampler for one node. It never throws and never waits longer than a second: a part that fails or hangs
 * is null, and its first failure is logged.
 */
export function createVitals (options: VitalsOptions): () => Promise<Vitals> {
  const { home, clock } = options
  const machine = options.machine ?? thisMachine(clock)
  const report = reporter(options.log)
  const part = <T>(name: string, read: () => T | Promise<T>): (() => Promise<T | null>) =>
    bounded(clock, read, (error) => { report(name, error) })
  const parts = {
    memory: part('memory', () => memory(machine)),
    disk: part('disk', () => disk(machine, home)),
    cpu: part('cpu', processor(machine)),
    network: part('network', network(machine, clock))
  }
  const slow = createSlow(machine, clock, report)
  let last: { at: number, value: Promise<Vitals> } | undefined
  const read = async (): Promise<Vitals> => {
    const [memory, disk, pcpuUsage, network] =
      await Promise.all([parts.memory(), parts.disk(), parts.cpu(), parts.network()])
    return { memory, system: { ...slow(), pcpuUsage }, disk, network }
  }
  return () => {
    if (last === undefined || clock.mono() - last.at >= FRESH_MS) last = { at: clock.mono(), value: read() }
    return last.value
  }
}

/** Asks the machine itself each time, unlike `createVitals`. */
export function createFreeMemory (options: Omit<VitalsOptions, 'home'>): FreeMemory {
  const { clock } = options
  const machine = options.machine ?? thisMachine(clock)
  const report = reporter(options.log)
  return {
    ram: bounded(clock, async () => (await readMemory(machine)).available,
      (error) => { report('memory', error) }),
    vram: bounded(clock, async () => {
      const { vramTotalBytes, vramUsedBytes } = (await readGpus(machine))[0] ?? {}
      return vramTotalBytes == null || vramUsedBytes == null ? null : vramTotalBytes - vramUsedBytes
    }, (error) => { report('gpu', error) }, GPU_PART_MS)
  }
}

/** Logs the first failure of each part. */
function reporter (log: Logger): (part: string, error: unknown) => void {
  const told = new Set<string>()
  return (part, err) => {
    if (told.has(part)) return
    told.add(part)
    log.warn({ err, part }, `the ${part} of this machine cannot be read; it is shown as unknown`)
  }
}

/** The same reading, but null when it fails or takes over `ms`. A hung one is never asked twice. */
function bounded<T> (
  clock: Clock, read: () => T | Promise<T>, failed: (error: unknown) => void, ms = PART_MS
): () => Promise<T | null> {
  let pending: Promise<T | null> | undefined
  return async () => {
    pending ??= Promise.resolve().then(read).catch((error: unknown) => { failed(error); return null })
      .finally(() => { pending = undefined })
    let cancel = (): void => {}
    const late = new Promise<null>((resolve) => {
      cancel = clock.after(ms, () => {
        failed(new Error(`no answer in ${ms} ms`))
        resolve(null)
      })
    })
    return await Promise.race([pending, late]).finally(cancel)
  }
}

async function memory (machine: Machine): Promise<Vitals['memory']> {
  const { total, available, swapTotal, swapFree } = await readMemory(machine)
  return {
    ramTotal: bytes(total),
    ramAvailable: bytes(available),
    swapTotal: bytes(swapTotal),
    swapAvailable: bytes(swapFree)
  }
}

async function disk (machine: Machine, home: string): Promise<Vitals['disk']> {
  const { total, available } = await machine.space(home)
  return { total: bytes(total), available: bytes(available) }
}

function processor (machine: Machine): () => number {
  let before: os.CpuInfo[] = []
  return () => {
    const now = machine.cpus()
    const share = busyShare(before, now)
    before = now
    return share
  }
}

function network (machine: Machine, clock: Clock): () => Promise<Vitals['network']> {
  let before: { at: number, traffic: Traffic } = { at: clock.mono(), traffic: new Map() }
  return async () => {
    const now = { at: clock.mono(), traffic: await readTraffic(machine) }
    const { traffic, at } = before
    before = now
    return {
      interfaces: Object.entries(machine.addresses()).flatMap(([name, list]) =>
        (list ?? []).map(({ address, family }) =>
          ({ name, address, family, ...ratesOf(name, traffic, now.traffic, now.at - at) })))
    }
  }
}

/** What is known of GPUs and sensors; looked at in the background, so that nobody waits for it. */
function createSlow (
  machine: Machine, clock: Clock, report: (part: string, error: unknown) => void
): () => SlowReading {
  let known = summarize([], null)
  let dueAt = -Infinity
  let failures = 0
  const look = async (startedAt: number): Promise<void> => {
    const [gpus, heat] = await Promise.allSettled([readGpus(machine), readHeat(machine)])
    if (gpus.status === 'rejected') report('gpu', gpus.reason)
    if (heat.status === 'rejected') report('temperature', heat.reason)
    failures = gpus.status === 'rejected' || heat.status === 'rejected' ? failures + 1 : 0
    known = summarize(
      gpus.status === 'fulfilled' ? gpus.value : [], heat.status === 'fulfilled' ? heat.value : null)
    dueAt = startedAt + SLOW_MS * 2 ** Math.min(failures, SLOW_DOUBLINGS)
  }
  return () => {
    const now = clock.mono()
    if (now >= dueAt) {
      dueAt = Infinity
      void look(now)
    }
    return known
  }
}
