import { defineService } from './service.js'

export type GpuVendor = 'nvidia' | 'amd' | 'intel' | 'apple'

/** A GPU in the shape of `nodeSystem.accelerator` in /state; null for unknown facts. */
export interface Gpu {
  vendor: GpuVendor
  name: string
  /** 0 to 1. */
  utilizationRatio: number | null
  /** Of its own; null also where it shares the memory of the machine. */
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
  /** All GPUs that programs of this process can use, in the order in which they number them. */
  accelerators: readonly Gpu[]
}

/** Bytes per second; null before there are two readings, or when a counter began anew. */
export interface Rates { rxBytesPerSecond: number | null, txBytesPerSecond: number | null }

/** An address of the machine; the rates are those of its whole interface. */
export interface InterfaceReading extends Rates { name: string, address: string, family: string }

interface Bytes { inBytes: number }

/**
 * What a node reports about its machine, in the shapes of `/state`. A part that could not be read is null.
 */
export interface MachineStats {
  memory: { ramTotal: Bytes, ramAvailable: Bytes, swapTotal: Bytes, swapAvailable: Bytes } | null
  system: LoadReading & {
    /** Busy share of all cores since the reading before (the first: since the machine started), 0 to 1. */
    pcpuUsage: number | null
  } | null
  disk: { total: Bytes, available: Bytes } | null
  network: { interfaces: InterfaceReading[] } | null
}

/** The plugin that reads the machine. */
export interface VitalsSource {
  /** The same reading again within a second. It never throws and never waits longer than a second. */
  vitals (): Promise<MachineStats>
  /** The last reading of GPUs and sensors; starts a new one in the background when it is due. */
  load (): LoadReading
}

/** The readings of this node in /state, which other nodes place models by. */
export interface VitalsRegister {
  /** Publishes the readings of `source` until the returned function is called. */
  offer (source: VitalsSource): () => void
}
export const VitalsService = defineService<VitalsRegister>('kernel.vitals')
