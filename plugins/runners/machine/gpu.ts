import type { Gpu, GpuVendor, LoadReading } from '../../../kernel/index.js'
import type { MachineIo } from './io.js'

const MAKERS: readonly GpuVendor[] = ['nvidia', 'amd', 'intel', 'apple']

/** The GPUs of a machine, and an error message for each source that failed. */
export interface GpuReport {
  readonly gpus: readonly Gpu[]
  readonly problems: readonly string[]
  /** GPU memory in bytes by process; empty if the driver does not report it, or in another PID namespace. */
  readonly vramByPid?: ReadonlyMap<number, number>
}

export interface GpuReading {
  /** Monotonic ms of the reading; -Infinity before the first one. */
  readonly atMs: number
  /** GPUs that this node's programs can use. */
  readonly gpus: readonly Gpu[]
  /** GPU memory in bytes by process; a missing process uses none or is not reported. */
  readonly vramByPid: ReadonlyMap<number, number>
}

const MIB = 1024 * 1024

/** The value as a number (a string like `71.5` is parsed) times `factor`; null for `[N/A]` and the like. */
function number (value: unknown, factor = 1): number | null {
  const text = typeof value === 'string' && /^\s*-?\d+(\.\d+)?\s*$/.test(value)
  return text || (typeof value === 'number' && Number.isFinite(value)) ? Number(value) * factor : null
}

const named = (vendor: GpuVendor, name: string): Gpu => ({
  vendor, name, utilizationRatio: null, vramTotalBytes: null, vramUsedBytes: null, powerWatts: null,
  temperatureCelsius: null
})

/** Lists the GPUs of a machine with their current load. Never throws; takes up to 15 s. */
export async function readGpus (io: MachineIo): Promise<GpuReport> {
  const problems: string[] = []
  const ask = async (source: string, read: () => Promise<Gpu[]>): Promise<Gpu[]> => {
    try {
      return await read()
    } catch (error) {
      problems.push(`${source}: ${(error as Error).message.split('\n')[0]}`)
      return []
    }
  }
  const gpus = io.platform === 'linux'
    ? await readLinuxGpus(io, ask)
    : await ask('systeminformation', async () => gpusOf(await io.ask('graphics')))
  // Only nvidia-smi reports processes, so skip that query if nvidia-smi could not query the GPUs.
  const asked = gpus.some(({ vendor, vramUsedBytes }) => vendor === 'nvidia' && vramUsedBytes !== null)
  const vramByPid = parseProcesses(asked ? await io.nvidiaSmi(SMI_PROCESSES).catch(() => '') : '')
  gpus.sort((a, b) => MAKERS.indexOf(a.vendor) - MAKERS.indexOf(b.vendor))
  return { gpus, problems, vramByPid }
}

/**
 * Uses one source for NVIDIA GPUs, the most detailed one that lists any, because the sources name devices
 * differently: nvidia-smi, the driver, the PCI bus, the device files. Without a driver or a device file no
 * program is run.
 */
async function readLinuxGpus (
  io: MachineIo, ask: (source: string, read: () => Promise<Gpu[]>) => Promise<Gpu[]>
): Promise<Gpu[]> {
  const [pci, driver, devices] = await Promise.all([readPciGpus(io), nvidiaNames(io), nvidiaDevices(io)])
  const present = driver.length > 0 || devices.length > 0
  const sources = [
    present ? await ask('nvidia-smi', async () => parseSmi(await io.nvidiaSmi(SMI_GPUS))) : [],
    driver.map((name) => named('nvidia', name)),
    pci.filter(({ vendor }) => vendor === 'nvidia'),
    devices.map(() => named('nvidia', 'NVIDIA GPU'))
  ]
  const nvidia = sources.find((list) => list.length > 0) ?? []
  return [...nvidia, ...pci.filter(({ vendor }) => vendor !== 'nvidia')]
}

async function nvidiaDevices ({ list }: MachineIo): Promise<string[]> {
  return (await list('/dev')).filter((name) => /^nvidia\d+$/.test(name))
}

async function nvidiaNames ({ list, read }: MachineIo): Promise<string[]> {
  const folder = '/proc/driver/nvidia/gpus'
  const texts = await Promise.all((await list(folder)).map((gpu) => read(`${folder}/${gpu}/information`)))
  return texts.map((text) => /^Model:\s*(.+)$/m.exec(text)?.[1]?.trim() ?? 'NVIDIA GPU')
}

const SMI_GPUS = [
  '--query-gpu=name,utilization.gpu,memory.total,memory.used,power.draw,temperature.gpu',
  '--format=csv,noheader,nounits'
] as const

const SMI_PROCESSES = ['--query-compute-apps=pid,used_memory', '--format=csv,noheader,nounits'] as const

/** Bytes by process from the output of SMI_PROCESSES: one line per GPU and process. Pure. */
export function parseProcesses (output: string): Map<number, number> {
  const all = new Map<number, number>()
  for (const [, pid, mib] of output.matchAll(/^(\d+), (\d+)$/gm)) {
    all.set(Number(pid), (all.get(Number(pid)) ?? 0) + Number(mib) * MIB)
  }
  return all
}

/** GPUs from the output of SMI_GPUS: name, %, MiB, MiB, W, degrees Celsius per line. Pure. */
export function parseSmi (output: string): Gpu[] {
  return output.split('\n').map((line) => /^(.+),([^,]+),([^,]+),([^,]+),([^,]+),([^,]+)$/.exec(line))
    .filter((match) => match !== null)
    .map(([, name, busy, total, used, watts, celsius]) => ({
      vendor: 'nvidia', name: name!.trim(), utilizationRatio: number(busy, 0.01),
      vramTotalBytes: number(total, MIB), vramUsedBytes: number(used, MIB), powerWatts: number(watts),
      temperatureCelsius: number(celsius)
    }))
}

/** GPU vendors by PCI vendor id. AMD GPUs without a display are processing accelerators (class 0x12). */
const PCI: Readonly<Record<string, { vendor: GpuVendor, name: string, classes: RegExp }>> = {
  '0x10de': { vendor: 'nvidia', name: 'NVIDIA GPU', classes: /^0x03/ },
  '0x1002': { vendor: 'amd', name: 'AMD GPU', classes: /^0x(03|12)/ },
  '0x8086': { vendor: 'intel', name: 'Intel GPU', classes: /^0x03/ }
}

/** GPUs on the PCI bus, with readings from amdgpu driver files (docs.kernel.org/gpu/amdgpu). */
async function readPciGpus ({ list, read }: MachineIo): Promise<Gpu[]> {
  const bus = '/sys/bus/pci/devices'
  const found = await Promise.all((await list(bus)).map(async (address): Promise<Gpu[]> => {
    const device = `${bus}/${address}`
    const [kind, id] = await Promise.all([read(`${device}/class`), read(`${device}/vendor`)])
    const known = PCI[id.trim()]
    if (known?.classes.test(kind) !== true) return []
    const [sensors = 'none'] = await list(`${device}/hwmon`)
    const [busy, total, used, microwatts, millidegrees] = await Promise.all([
      'gpu_busy_percent', 'mem_info_vram_total', 'mem_info_vram_used',
      `hwmon/${sensors}/power1_average`, `hwmon/${sensors}/temp1_input`
    ].map((file) => read(`${device}/${file}`)))
    return [{
      vendor: known.vendor, name: known.name, utilizationRatio: number(busy, 0.01),
      vramTotalBytes: number(total) || null, vramUsedBytes: number(used),
      powerWatts: number(microwatts, 1e-6), temperatureCelsius: number(millidegrees, 0.001)
    }]
  }))
  return found.flat()
}

function vendorOf (text: string): GpuVendor | undefined {
  if (/nvidia/i.test(text)) return 'nvidia'
  if (/advanced micro|\bamd\b|\bati\b|radeon/i.test(text)) return 'amd'
  return /intel/i.test(text) ? 'intel' : /apple/i.test(text) ? 'apple' : undefined
}

/** GPUs from systeminformation's `graphics()`. Apple and Intel GPUs share the machine's memory. */
export function gpusOf (answer: unknown): Gpu[] {
  const { controllers } = (answer ?? {}) as { controllers?: unknown }
  if (!Array.isArray(controllers)) return []
  return (controllers as Record<string, unknown>[]).flatMap(({ vendor: maker, model, name, vram }) => {
    const vendor = vendorOf(`${String(maker)} ${String(model)}`)
    if (vendor === undefined) return []
    const shared = vendor === 'apple' || vendor === 'intel'
    const vramTotalBytes = shared ? null : number(vram, MIB) || null
    return [{ ...named(vendor, String(name ?? model ?? 'GPU')), vramTotalBytes }]
  })
}

const PROCESSOR_SENSORS = new Set(['coretemp', 'k10temp', 'zenpower', 'cpu_thermal', 'cpu-thermal'])

/** Processor temperature in degrees Celsius from /sys; null if no known sensor exists. */
export async function readProcessorHeat (
  { list, read }: Pick<MachineIo, 'list' | 'read'>
): Promise<number | null> {
  for (const sensor of await list('/sys/class/hwmon')) {
    const folder = `/sys/class/hwmon/${sensor}`
    if (!PROCESSOR_SENSORS.has((await read(`${folder}/name`)).trim())) continue
    const celsius = number(await read(`${folder}/temp1_input`), 0.001)
    if (celsius !== null) return celsius
  }
  for (const zone of (await list('/sys/class/thermal')).filter((name) => name.startsWith('thermal_zone'))) {
    if (!/cpu|x86_pkg/i.test(await read(`/sys/class/thermal/${zone}/type`))) continue
    const celsius = number(await read(`/sys/class/thermal/${zone}/temp`), 0.001)
    if (celsius !== null) return celsius
  }
  return null
}

const GPUS_MAX = 16

/**
 * The GPUs that programs with this environment can use. CUDA_VISIBLE_DEVICES selects NVIDIA GPUs by number;
 * if it contains names, only the first GPU counts, because the mapping of names is unknown.
 */
export function usableGpus (
  gpus: readonly Gpu[], { CUDA_VISIBLE_DEVICES: named }: Readonly<Record<string, string | undefined>>
): Gpu[] {
  const nvidia = gpus.filter(({ vendor }) => vendor === 'nvidia')
  if (named === undefined || nvidia.length === 0) return gpus.slice(0, GPUS_MAX)
  const numbers = named.split(',').map((entry) => entry.trim())
  // Like CUDA, stop at the first invalid entry.
  const end = numbers.findIndex((entry) => !/^\d+$/.test(entry) || Number(entry) >= nvidia.length)
  const known = numbers.slice(0, end < 0 ? undefined : end).map((entry) => nvidia[Number(entry)]!)
  const seen = known.length > 0 || numbers.every((one) => /^-?\d*$/.test(one)) ? known : nvidia.slice(0, 1)
  return [...seen, ...gpus.filter(({ vendor }) => vendor !== 'nvidia')].slice(0, GPUS_MAX)
}

export function summarize (
  gpus: readonly Gpu[], processorCelsius: number | null,
  env: Readonly<Record<string, string | undefined>> = {}
): LoadReading {
  const known = (list: (number | null)[]): number[] => list.filter((n) => n !== null)
  const sum = (list: number[]): number => list.reduce((a, b) => a + b, 0)
  const usage = known(gpus.map((g) => g.utilizationRatio))
  const heat = known([processorCelsius, ...gpus.map((g) => g.temperatureCelsius)])
  const power = known(gpus.map((g) => g.powerWatts))
  return {
    gpuUsage: usage.length > 0 ? sum(usage) / usage.length : null,
    temp: heat.length > 0 ? Math.max(...heat) : null, sysPower: power.length > 0 ? sum(power) : null,
    accelerator: gpus[0] ?? null, accelerators: usableGpus(gpus, env)
  }
}
