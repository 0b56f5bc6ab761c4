import type { DiskStore } from './options.js'

/** Where nothing can be stored: the newest events are in memory only. */
export function memoryStore (): DiskStore {
  return {
    reserved: 0,
    append () {},
    cut () {},
    record () {},
    flushed: async () => {},
    read: async () => [],
    snapshotBefore: async () => null,
    status: () => ({ mode: 'memory', counted: 0, gaps: [], firstIdx: null, bytes: 0, queued: 0, dropped: 0 }),
    onMode: () => () => {},
    close: async () => {}
  }
}
