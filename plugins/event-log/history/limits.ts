/** What is known of the cluster is brought up to date so many indices before the log forgets it. */
export const FOLLOW_ENTRIES = 250

/** A snapshot is due this often, ms. */
export const MINUTE_MS = 60_000

/** Where only readings change, one is due this often, ms. */
export const REFRESH_MS = 600_000

/** The documents are in step with the events when nothing came for so long, ms. */
export const SETTLE_MS = 500

/** A snapshot does not wait longer than this for things to settle, ms. */
export const SETTLE_MOST_MS = 5_000

/** Least time between two snapshots, ms. */
export const APART_MS = 2_000

/** Least time after one until another is taken because tasks fail, ms. */
export const TASKS_APART_MS = 30_000

/** Most bytes of a snapshot; the largest keys of the state are left out above that. */
export const BODY_BYTES = 1024 * 1024

/** Newest snapshots held in memory: the bytes of them beside a store, and where nothing can be stored. */
export const RECENT_BYTES = 2 * 1024 * 1024
export const MEMORY_BYTES = 16 * 1024 * 1024

/** Most events in one answer. */
export const EVENTS_SHOWN = 200

/** Entries read from the log at once. */
export const READ_ENTRIES = 1_000

/** Events of different nodes may be in the log out of the order of their times by so much, ms. */
export const SKEW_MS = 60_000
