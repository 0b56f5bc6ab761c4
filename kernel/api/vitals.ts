import { defineService } from './service.js'

export type GpuVendor = 'nvidia' | 'amd' | 'intel' | 'apple'

/** A GPU in the shape of `nodeSystem.accelerator` in /state; null for unknown facts. */
export interface Gpu {
  vendor: GpuVendor
  name: string
  /** 0 to 1. */
  utilizationRatio: number | null
  /** Dedicated memory; null also if it shares the memory of the machine. */
  vramTotalBytes: number | null
  vramUsedBytes: number | null
  powerWatts: number | null
  temperatureCelsius: number | null
}

/** Load, temperature and power of a machine; null for unknown ones. */
export interface LoadReading {
  /** Mean of the GPUs, 0 to 1. */
  gpuUsage: number | null
  /** The hottest of processor and GPUs, degrees Celsius. */
  temp: number | null
  /** Power of the GPUs together, W. */
  sysPower: number | null
  /** The first GPU. */
  accelerator: Gpu | null
  /** All GPUs that programs of this process can use, in their numbering. */
  accelerators: readonly Gpu[]
}

/** Bytes per second; null before there are two readings, or when a counter restarted. */
export interface Rates { rxBytesPerSecond: number | null, txBytesPerSecond: number | null }

/** An address of the machine; the rates are those of its whole interface. */
export interface InterfaceReading extends Rates { name: string, address: string, family: string }

interface Bytes { inBytes: number }

/** A node's report on its machine, in the shapes of `/state`. An unreadable part is null. */
export interface MachineStats {
  memory: { ramTotal: Bytes, ramAvailable: Bytes, swapTotal: Bytes, swapAvailable: Bytes } | null
  system: LoadReading & {
    /** Busy share of all cores since the previous reading (the first: since the machine started), 0 to 1. */
    pcpuUsage: number | null
  } | null
  disk: { total: Bytes, available: Bytes } | null
  network: { interfaces: InterfaceReading[] } | null
}

export interface VitalsSource {
  /** Returns the same reading again within a second. Never throws and never takes longer than a second. */
  vitals (): Promise<MachineStats>
  /** The last reading of GPUs and sensors; starts a new one in the background when it is due. */
  load (): LoadReading
}

/** The readings of this node in /state, on which other nodes base placement. */
export interface VitalsRegister {
  /** Publishes the readings of `source` until the returned function is called. */
  offer (source: VitalsSource): () => void
}
export const VitalsService = defineService<VitalsRegister>('kernel.vitals')
