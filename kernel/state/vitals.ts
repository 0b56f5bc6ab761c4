import type { LoadReading, Vitals, VitalsRegister, VitalsSource } from '../api/vitals.js'

/** The newest readings of this node's machine, and where a plugin offers them. */
export interface NodeVitals extends VitalsRegister {
  vitals (): Promise<Vitals>
  /** Null without a source. */
  load (): LoadReading | null
}

const UNKNOWN: Vitals = { memory: null, system: null, disk: null, network: null }

/** Everything is unknown while no plugin offers readings; of two sources the later one counts. */
export function createVitals (): NodeVitals {
  let source: VitalsSource | undefined
  return {
    vitals: async () => await source?.vitals() ?? UNKNOWN,
    load: () => source?.load() ?? null,
    offer (next) {
      source = next
      return () => { if (source === next) source = undefined }
    }
  }
}
