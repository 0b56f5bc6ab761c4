import { statfs } from 'node:fs/promises'
import os from 'node:os'
import type { LoadReading, MachineStats, VitalsRegister, VitalsSource } from '../api/vitals.js'

/** This machine's newest readings; a plugin may register to provide them. */
export interface NodeVitals extends VitalsRegister {
  vitals (): Promise<MachineStats>
  /** The last GPU and sensor readings; null if no plugin provides them. */
  load (): LoadReading | null
}

const UNKNOWN: MachineStats = { memory: null, system: null, disk: null, network: null }

/** Node.js's readings of the machine or container, and of the disk that holds `home`; swap is unknown. */
async function plainVitals (home: string): Promise<MachineStats> {
  const none = { inBytes: 0 }
  const volume = await statfs(home).catch(() => null)
  const interfaces = Object.entries(os.networkInterfaces()).flatMap(([name, list = []]) =>
    list.map(({ address, family }) =>
      ({ name, address, family, rxBytesPerSecond: null, txBytesPerSecond: null })))
  return {
    memory: {
      // constrainedMemory() is 0 or exceeds the machine's memory if the container has no limit.
      ramTotal: { inBytes: Math.min(os.totalmem(), process.constrainedMemory() || Infinity) },
      ramAvailable: { inBytes: process.availableMemory() }, swapTotal: none, swapAvailable: none
    },
    system: {
      pcpuUsage: null, gpuUsage: null, temp: null, sysPower: null, accelerator: null, accelerators: []
    },
    disk: volume && {
      total: { inBytes: volume.blocks * volume.bsize }, available: { inBytes: volume.bavail * volume.bsize }
    },
    network: { interfaces }
  }
}

/**
 * Provides readings from the last registered source, or from Node.js if there is none. With neither a home
 * nor a source, all readings are null.
 */
export function createVitals (home?: string): NodeVitals {
  let source: VitalsSource | undefined
  return {
    vitals: async () => await source?.vitals() ?? (home === undefined ? UNKNOWN : await plainVitals(home)),
    load: () => source?.load() ?? null,
    offer (next) {
      source = next
      return () => { if (source === next) source = undefined }
    }
  }
}
