import { execFile } from 'node:child_process'
import { readdir, readFile, statfs } from 'node:fs/promises'
import os from 'node:os'
import { promisify } from 'node:util'
import { createAsker, SYSTEM_PATH } from './asker.js'
import { gpusOf, parseSmi, readAmdGpus, readProcessorHeat, SMI_ARGS } from './gpu.js'
import { memoryOf, readLinuxMemory } from './memory.js'
import { parseNetDev, trafficOf } from './network.js'
import type { Clock } from '../../api/clock.js'
import type { GpuReading, ListNames } from './gpu.js'
import type { MemoryReading, ReadText } from './memory.js'
import type { Traffic } from './network.js'

/** What is read of a machine. Tests give their own. */
export interface Machine {
  platform: string
  read: ReadText
  list: ListNames
  /** Calls a function of systeminformation outside this process. */
  ask (call: string, ...args: unknown[]): Promise<unknown>
  nvidiaSmi (): Promise<string>
  /** Bytes of the volume a folder is on. */
  space (folder: string): Promise<{ total: number, available: number }>
  cpus (): os.CpuInfo[]
  addresses (): ReturnType<typeof os.networkInterfaces>
}

const run = promisify(execFile)
const SMI_TIMEOUT_MS = 15_000

/** The machine this process runs on. Files are read off the loop's thread; programs are never waited for. */
export function thisMachine (clock: Clock): Machine {
  const { ask } = createAsker({ clock })
  return {
    platform: process.platform,
    read: (path) => readFile(path, 'utf8').catch(() => ''),
    list: (folder) => readdir(folder).catch(() => []),
    ask,
    nvidiaSmi: async () => (await run('nvidia-smi', [...SMI_ARGS], {
      timeout: SMI_TIMEOUT_MS, killSignal: 'SIGKILL', env: { PATH: SYSTEM_PATH, LANG: 'C' }
    })).stdout,
    async space (folder) {
      const { blocks, bavail, bsize } = await statfs(folder)
      return { total: blocks * bsize, available: bavail * bsize }
    },
    cpus: () => os.cpus(),
    addresses: () => os.networkInterfaces()
  }
}

/** Total and available memory. */
export async function readMemory (machine: Machine): Promise<MemoryReading> {
  return machine.platform === 'linux'
    ? await readLinuxMemory(machine.read)
    : memoryOf(await machine.ask('mem'))
}

/** Bytes by interface since the machine started. */
export async function readTraffic (machine: Machine): Promise<Traffic> {
  if (machine.platform === 'linux') return parseNetDev(await machine.read('/proc/net/dev'))
  return trafficOf(await machine.ask('networkStats', Object.keys(machine.addresses()).join(',')))
}

/**
 * Live readings of the GPUs. Without an NVIDIA device file no program is run: systeminformation has live
 * readings for NVIDIA only, and only where `lspci` is installed; `nvidia-smi` itself fills that gap.
 */
export async function readGpus (machine: Machine): Promise<GpuReading[]> {
  if (machine.platform !== 'linux') return []
  const nvidia = (await machine.list('/dev')).some((name) => /^nvidia\d+$/.test(name))
  const drm = (await machine.list('/dev/dri')).length > 0
  return [
    ...nvidia ? await readNvidia(machine) : [],
    ...drm ? await readAmdGpus(machine.list, machine.read) : []
  ]
}

async function readNvidia (machine: Machine): Promise<GpuReading[]> {
  const seen = await machine.ask('graphics').then(gpusOf, () => [])
  const live = seen.filter((gpu) => gpu.vendor === 'nvidia')
  return live.length > 0 ? live : parseSmi(await machine.nvidiaSmi())
}

/** Temperature of the processor, degrees Celsius; null when no sensor is known. */
export async function readHeat (machine: Machine): Promise<number | null> {
  if (machine.platform === 'linux') return await readProcessorHeat(machine.list, machine.read)
  const { main } = (await machine.ask('cpuTemperature') ?? {}) as { main?: unknown }
  return typeof main === 'number' && Number.isFinite(main) ? main : null
}
