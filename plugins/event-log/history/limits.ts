/** Events since the last snapshot are applied so many indices before they leave memory. */
export const FOLLOW_ENTRIES = 250

/** Interval of snapshots, ms. */
export const MINUTE_MS = 60_000

/** Interval of snapshots while only readings change, ms. */
export const REFRESH_MS = 600_000

/** The state contains an event when that is so old, ms. */
export const SETTLE_MS = 500

/** A snapshot waits at most so long for events to stop coming, ms. */
export const SETTLE_MOST_MS = 5_000

/** Least time between two snapshots, ms. */
export const APART_MS = 2_000

/** Least time between two snapshots that are taken because tasks fail, ms. */
export const TASKS_APART_MS = 30_000

/** Most bytes of a snapshot; the largest keys of the state are left out above that. */
export const BODY_BYTES = 1024 * 1024

/** Bytes of the newest snapshots that are kept in memory: with a store, and without. */
export const RECENT_BYTES = 2 * 1024 * 1024
export const MEMORY_BYTES = 16 * 1024 * 1024

/** Most events in one answer. */
export const EVENTS_SHOWN = 200

/** Entries read from the log at once. */
export const READ_ENTRIES = 1_000

/** Most difference between the clocks of nodes that a search by time allows for, ms. */
export const SKEW_MS = 60_000
