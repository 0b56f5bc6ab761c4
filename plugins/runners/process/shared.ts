/** What the main thread of a runner and its watchdog thread share: one Int32Array. */
export const SLOT = {
  /** One of PHASE. */
  phase: 0,
  /** Pieces of announced work in progress; while there are any, the node judges them. */
  announced: 1,
  /** Raised by a timer of the main thread: proof that its event loop turns. */
  beat: 2
} as const
export const SLOT_COUNT = 3

export const PHASE = { loading: 0, warmup: 1, serving: 2 } as const

/** How often the main thread raises the beat, and the watchdog looks. */
export const BEAT_MS = 500

/** What the watchdog thread is started with. Times in milliseconds. */
export interface WatchdogData {
  state: Int32Array
  nodePid: number
  modelId: string
  warmupMs: number
  loopBlockedMs: number
}
