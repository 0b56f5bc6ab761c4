import { defineService } from './service.js'

export type GpuVendor = 'nvidia' | 'amd' | 'intel' | 'apple'

/** A GPU in the shape of `nodeSystem.accelerator` in /state; null for unknown facts. */
export interface Gpu {
  vendor: GpuVendor
  name: string
  /** 0 to 1. */
  utilizationRatio: number | null
  /** Dedicated memory; null also for a GPU that shares the machine's memory. */
  vramTotalBytes: number | null
  vramUsedBytes: number | null
  powerWatts: number | null
  temperatureCelsius: number | null
}

/** Load, temperature and power of a machine; null for each value that is unknown. */
export interface LoadReading {
  /** Mean utilization of the GPUs, 0 to 1. */
  gpuUsage: number | null
  /** Highest temperature of processor and GPUs in degrees Celsius. */
  temp: number | null
  /** Combined power of all GPUs in watts. */
  sysPower: number | null
  /** The first GPU. */
  accelerator: Gpu | null
  /** All GPUs that programs of this process can use, in the order in which those programs number them. */
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
    /** Share of all cores that was busy since the previous reading (initially since boot), 0 to 1. */
    pcpuUsage: number | null
  } | null
  disk: { total: Bytes, available: Bytes } | null
  network: { interfaces: InterfaceReading[] } | null
}

export interface VitalsSource {
  /** Measures the machine; calls within a second share one result. Never throws or takes more than 1 s. */
  vitals (): Promise<MachineStats>
  /** The last GPU and sensor readings; if they are outdated, new ones are taken in the background. */
  load (): LoadReading
}

/** This node's readings in /state, on which other nodes base placement. */
export interface VitalsRegister {
  /** Publishes the readings of `source` until the returned function is called. */
  offer (source: VitalsSource): () => void
}
export const VitalsService = defineService<VitalsRegister>('kernel.vitals')
