import type { ReadText } from './memory.js'

/** What changes by the second in a GPU, in the shape of `nodeSystem.accelerator`. */
export interface GpuReading {
  vendor: string
  name: string
  /** 0 to 1. */
  utilizationRatio: number | null
  vramTotalBytes: number | null
  vramUsedBytes: number | null
  powerWatts: number | null
  temperatureCelsius: number | null
}

/** Names in a folder; empty when it cannot be read. */
export type ListNames = (folder: string) => Promise<string[]>

const MIB = 1024 * 1024
const AMD = '0x1002'

/** A finite number out of a number or a text such as `71.5`; null for `[N/A]` and the like. */
function number (value: unknown): number | null {
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  return typeof value === 'string' && /^\s*-?\d+(\.\d+)?\s*$/.test(value) ? Number(value) : null
}

const scaled = (value: unknown, factor: number): number | null => {
  const n = number(value)
  return n === null ? null : n * factor
}

/**
 * Live readings out of `graphics()` of systeminformation. It has them for NVIDIA only, and leaves out a
 * utilization of 0; so a controller with `memoryUsed` but without utilization is idle. Pure.
 */
export function gpusOf (answer: unknown): GpuReading[] {
  const { controllers } = (answer ?? {}) as { controllers?: unknown }
  if (!Array.isArray(controllers)) return []
  return (controllers as Record<string, unknown>[]).flatMap((c) => {
    const used = number(c['memoryUsed'])
    if (used === null) return []
    return [{
      vendor: /nvidia/i.test(String(c['vendor'])) ? 'nvidia' : String(c['vendor'] ?? 'unknown'),
      name: String(c['name'] ?? c['model'] ?? 'GPU'),
      utilizationRatio: (number(c['utilizationGpu']) ?? 0) / 100,
      vramTotalBytes: scaled(c['memoryTotal'], MIB),
      vramUsedBytes: used * MIB,
      powerWatts: number(c['powerDraw']),
      temperatureCelsius: number(c['temperatureGpu'])
    }]
  })
}

/** What `nvidia-smi` is asked for; `parseSmi` reads the answer. */
export const SMI_ARGS = [
  '--query-gpu=name,utilization.gpu,memory.total,memory.used,power.draw,temperature.gpu',
  '--format=csv,noheader,nounits'
] as const

/** Readings out of the answer to SMI_ARGS: per line a name, %, MiB, MiB, W, degrees Celsius. Pure. */
export function parseSmi (output: string): GpuReading[] {
  return output.split('\n').map((line) => line.split(',').map((field) => field.trim()))
    .filter((fields) => fields.length === 6)
    .map(([name, busy, total, used, watts, celsius]) => ({
      vendor: 'nvidia',
      name: name!,
      utilizationRatio: scaled(busy, 0.01),
      vramTotalBytes: scaled(total, MIB),
      vramUsedBytes: scaled(used, MIB),
      powerWatts: number(watts),
      temperatureCelsius: number(celsius)
    }))
}

/** Readings the amdgpu driver keeps in files (docs.kernel.org/gpu/amdgpu): no program is run for them. */
export async function readAmdGpus (list: ListNames, read: ReadText): Promise<GpuReading[]> {
  const cards = (await list('/sys/class/drm')).filter((name) => /^card\d+$/.test(name))
  const found = await Promise.all(cards.map(async (card): Promise<GpuReading[]> => {
    const device = `/sys/class/drm/${card}/device`
    if ((await read(`${device}/vendor`)).trim() !== AMD) return []
    const [sensors] = await list(`${device}/hwmon`)
    const [busy, total, used, microwatts, millidegrees] = await Promise.all([
      read(`${device}/gpu_busy_percent`), read(`${device}/mem_info_vram_total`),
      read(`${device}/mem_info_vram_used`),
      sensors === undefined ? '' : read(`${device}/hwmon/${sensors}/power1_average`),
      sensors === undefined ? '' : read(`${device}/hwmon/${sensors}/temp1_input`)
    ])
    return [{
      vendor: 'amd',
      name: 'AMD GPU',
      utilizationRatio: scaled(busy, 0.01),
      vramTotalBytes: number(total),
      vramUsedBytes: number(used),
      powerWatts: scaled(microwatts, 1e-6),
      temperatureCelsius: scaled(millidegrees, 0.001)
    }]
  }))
  return found.flat()
}

/** Sensors of processors by the name of their driver. */
const PROCESSOR_SENSORS = new Set(['coretemp', 'k10temp', 'zenpower', 'cpu_thermal', 'cpu-thermal'])

/** Temperature of the processor in degrees Celsius out of /sys; null when no sensor is known. */
export async function readProcessorHeat (list: ListNames, read: ReadText): Promise<number | null> {
  for (const sensor of await list('/sys/class/hwmon')) {
    const folder = `/sys/class/hwmon/${sensor}`
    if (!PROCESSOR_SENSORS.has((await read(`${folder}/name`)).trim())) continue
    const celsius = scaled(await read(`${folder}/temp1_input`), 0.001)
    if (celsius !== null) return celsius
  }
  for (const zone of (await list('/sys/class/thermal')).filter((name) => name.startsWith('thermal_zone'))) {
    if (!/cpu|x86_pkg/i.test(await read(`/sys/class/thermal/${zone}/type`))) continue
    const celsius = scaled(await read(`/sys/class/thermal/${zone}/temp`), 0.001)
    if (celsius !== null) return celsius
  }
  return null
}

/** Load, heat and power of a machine: null where nothing says. */
export interface SlowReading {
  /** Mean of the GPUs, 0 to 1. */
  gpuUsage: number | null
  /** The hottest of processor and GPUs, degrees Celsius. */
  temp: number | null
  /** What the GPUs draw together, W: the only consumers that tell. */
  sysPower: number | null
  /** The first GPU. */
  accelerator: GpuReading | null
}

/** One picture out of GPUs and processor. Pure. */
export function summarize (gpus: readonly GpuReading[], processorCelsius: number | null): SlowReading {
  const known = (list: (number | null)[]): number[] => list.filter((n) => n !== null)
  const sum = (list: number[]): number => list.reduce((a, b) => a + b, 0)
  const usage = known(gpus.map((g) => g.utilizationRatio))
  const heat = known([processorCelsius, ...gpus.map((g) => g.temperatureCelsius)])
  const power = known(gpus.map((g) => g.powerWatts))
  return {
    gpuUsage: usage.length > 0 ? sum(usage) / usage.length : null,
    temp: heat.length > 0 ? Math.max(...heat) : null,
    sysPower: power.length > 0 ? sum(power) : null,
    accelerator: gpus[0] ?? null
  }
}
