import type { Gpu, GpuVendor, LoadReading } from '../../../kernel/index.js'
import type { MachineIo } from './io.js'

/** In the order in which GPUs are listed. */
const MAKERS: readonly GpuVendor[] = ['nvidia', 'amd', 'intel', 'apple']

/** The GPUs of a machine, and a sentence for each source that could not be asked. */
export interface GpuReport {
  readonly gpus: readonly Gpu[]
  readonly problems: readonly string[]
  /** Bytes on all GPUs by process; empty if the driver does not report it, or for other PID namespaces. */
  readonly vramByPid?: ReadonlyMap<number, number>
}

export interface GpuReading {
  /** Monotonic; -Infinity before the first time. */
  readonly atMs: number
  /** Those that programs of this node can use. */
  readonly gpus: readonly Gpu[]
  /** Bytes by process; a missing process uses none, or is not reported. */
  readonly vramByPid: ReadonlyMap<number, number>
}

const MIB = 1024 * 1024

/** A number, or a text such as `71.5`, times `factor`; null for `[N/A]` and the like. */
function number (value: unknown, factor = 1): number | null {
  const text = typeof value === 'string' && /^\s*-?\d+(\.\d+)?\s*$/.test(value)
  return text || (typeof value === 'number' && Number.isFinite(value)) ? Number(value) * factor : null
}

/** A GPU of which nothing but its maker is known. */
const named = (vendor: GpuVendor, name: string): Gpu => ({
  vendor, name, utilizationRatio: null, vramTotalBytes: null, vramUsedBytes: null, powerWatts: null,
  temperatureCelsius: null
})

/** Lists the GPUs of a machine with what they do just now. Never throws, and takes up to 15 s. */
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
  // Only nvidia-smi reports processes, and only if it could query the GPUs.
  const asked = gpus.some(({ vendor, vramUsedBytes }) => vendor === 'nvidia' && vramUsedBytes !== null)
  const vramByPid = parseProcesses(asked ? await io.nvidiaSmi(SMI_PROCESSES).catch(() => '') : '')
  gpus.sort((a, b) => MAKERS.indexOf(a.vendor) - MAKERS.indexOf(b.vendor))
  return { gpus, problems, vramByPid }
}

/**
 * Of NVIDIA's the source that knows most is believed as a whole, because the sources do not name their
 * devices alike: its tool, its driver, the PCI bus, its device files. Without a driver or a device no program
 * is run.
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

/** Device files: `nvidia0` and so on. */
async function nvidiaDevices ({ list }: MachineIo): Promise<string[]> {
  return (await list('/dev')).filter((name) => /^nvidia\d+$/.test(name))
}

async function nvidiaNames ({ list, read }: MachineIo): Promise<string[]> {
  const folder = '/proc/driver/nvidia/gpus'
  const texts = await Promise.all((await list(folder)).map((gpu) => read(`${folder}/${gpu}/information`)))
  return texts.map((text) => /^Model:\s*(.+)$/m.exec(text)?.[1]?.trim() ?? 'NVIDIA GPU')
}

/** Arguments of nvidia-smi; `parseSmi` and `parseProcesses` read the output. */
const SMI_GPUS = [
  '--query-gpu=name,utilization.gpu,memory.total,memory.used,power.draw,temperature.gpu',
  '--format=csv,noheader,nounits'
] as const

const SMI_PROCESSES = ['--query-compute-apps=pid,used_memory', '--format=csv,noheader,nounits'] as const

/** Bytes by process out of the answer to SMI_PROCESSES: a line for each GPU that it uses. Pure. */
export function parseProcesses (output: string): Map<number, number> {
  const all = new Map<number, number>()
  for (const [, pid, mib] of output.matchAll(/^(\d+), (\d+)$/gm)) {
    all.set(Number(pid), (all.get(Number(pid)) ?? 0) + Number(mib) * MIB)
  }
  return all
}

/** GPUs out of the answer to SMI_GPUS: per line a name, %, MiB, MiB, W, degrees Celsius. Pure. */
export function parseSmi (output: string): Gpu[] {
  return output.split('\n').map((line) => /^(.+),([^,]+),([^,]+),([^,]+),([^,]+),([^,]+)$/.exec(line))
    .filter((match) => match !== null)
    .map(([, name, busy, total, used, watts, celsius]) => ({
      vendor: 'nvidia',
      name: name!.trim(),
      utilizationRatio: number(busy, 0.01),
      vramTotalBytes: number(total, MIB),
      vramUsedBytes: number(used, MIB),
      powerWatts: number(watts),
      temperatureCelsius: number(celsius)
    }))
}

/** By PCI vendor id. Some of AMD's have no display: they are processing accelerators (class 0x12). */
const PCI: Readonly<Record<string, { vendor: GpuVendor, name: string, classes: RegExp }>> = {
  '0x10de': { vendor: 'nvidia', name: 'NVIDIA GPU', classes: /^0x03/ },
  '0x1002': { vendor: 'amd', name: 'AMD GPU', classes: /^0x(03|12)/ },
  '0x8086': { vendor: 'intel', name: 'Intel GPU', classes: /^0x03/ }
}

/** GPUs on the PCI bus, with what the amdgpu driver says in files (docs.kernel.org/gpu/amdgpu). */
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
      vendor: known.vendor,
      name: known.name,
      utilizationRatio: number(busy, 0.01),
      vramTotalBytes: number(total) || null,
      vramUsedBytes: number(used),
      powerWatts: number(microwatts, 1e-6),
      temperatureCelsius: number(millidegrees, 0.001)
    }]
  }))
  return found.flat()
}

/** The maker named in a free text such as `NVIDIA Corporation`. */
function vendorOf (text: string): GpuVendor | undefined {
  if (/nvidia/i.test(text)) return 'nvidia'
  if (/advanced micro|\bamd\b|\bati\b|radeon/i.test(text)) return 'amd'
  return /intel/i.test(text) ? 'intel' : /apple/i.test(text) ? 'apple' : undefined
}

/** GPUs out of `graphics()` of systeminformation. The GPUs of Apple and Intel share the machine's memory. */
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

/** Sensors of processors by the name of their driver. */
const PROCESSOR_SENSORS = new Set(['coretemp', 'k10temp', 'zenpower', 'cpu_thermal', 'cpu-thermal'])

/** Temperature of the processor in degrees Celsius out of /sys; null when no sensor is known. */
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

/** Most GPUs that a node tells of. */
const GPUS_MAX = 16

/**
 * The GPUs that programs with this environment can use. CUDA_VISIBLE_DEVICES takes NVIDIA's by their numbers;
 * where it names them in another way, nothing tells which they are, and only the first is counted on.
 */
export function usableGpus (
  gpus: readonly Gpu[], { CUDA_VISIBLE_DEVICES: named }: Readonly<Record<string, string | undefined>>
): Gpu[] {
  const nvidia = gpus.filter(({ vendor }) => vendor === 'nvidia')
  if (named === undefined || nvidia.length === 0) return gpus.slice(0, GPUS_MAX)
  const numbers = named.split(',').map((word) => word.trim())
  // As CUDA does, up to the first that is none.
  const end = numbers.findIndex((word) => !/^\d+$/.test(word) || Number(word) >= nvidia.length)
  const known = numbers.slice(0, end < 0 ? undefined : end).map((word) => nvidia[Number(word)]!)
  const seen = known.length > 0 || numbers.every((word) => /^-?\d*$/.test(word)) ? known : nvidia.slice(0, 1)
  return [...seen, ...gpus.filter(({ vendor }) => vendor !== 'nvidia')].slice(0, GPUS_MAX)
}

/** One picture out of GPUs and processor. Pure. */
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
    temp: heat.length > 0 ? Math.max(...heat) : null,
    sysPower: power.length > 0 ? sum(power) : null,
    accelerator: gpus[0] ?? null,
    accelerators: usableGpus(gpus, env)
  }
}
