import { statfs } from 'node:fs/promises'
import os from 'node:os'
import type { LoadReading, MachineStats, VitalsRegister, VitalsSource } from '../api/vitals.js'

/** The newest readings of this node's machine, and the registration for a plugin that offers them. */
export interface NodeVitals extends VitalsRegister {
  vitals (): Promise<MachineStats>
  /** Null without a source. */
  load (): LoadReading | null
}

const UNKNOWN: MachineStats = { memory: null, system: null, disk: null, network: null }

/** Node's own figures for the machine, in its container, and for the volume of `home`; none for swap. */
async function plainVitals (home: string): Promise<MachineStats> {
  const none = { inBytes: 0 }
  const volume = await statfs(home).catch(() => null)
  const interfaces = Object.entries(os.networkInterfaces()).flatMap(([name, list = []]) =>
    list.map(({ address, family }) =>
      ({ name, address, family, rxBytesPerSecond: null, txBytesPerSecond: null })))
  return {
    memory: {
      // Without a limit the second value is 0, or larger than any machine.
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
 * Readings from Node itself while no plugin offers any; empty without a home. Of two sources the later one
 * counts.
 */
export function createVitals (home?: string): NodeVitals {
  let source: VitalsSource | undefined
  return {
    vitals: async () =>
      await source?.vitals() ?? (home === undefined ? UNKNOWN : await plainVitals(home)),
    load: () => source?.load() ?? null,
    offer (next) {
      source = next
      return () => { if (source === next) source = undefined }
    }
  }
}
