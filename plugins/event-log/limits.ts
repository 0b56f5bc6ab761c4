/** Entries that are kept in memory where nothing can be stored. */
export const RING_ENTRIES = 10_000

/**
 * The same with a store behind: enough for what is asked for as a rule. More of them would live long enough
 * at many events a second to cost the garbage collector its time.
 */
export const RING_STORED = 1_000

/** Bytes of JSON those entries may have together; the oldest go first. */
export const RING_BYTES = 32 * 1024 * 1024

/** Own events that wait until they are in the log; one more is dropped and counted. */
export const QUEUE_ENTRIES = 1_000

/** A larger event is dropped and counted: it would not fit into a message. */
export const EVENT_BYTES = 16 * 1024

/** Most entries, and most bytes of them, in one message. */
export const PAGE_ENTRIES = 200
export const PAGE_BYTES = 256 * 1024

/** How long a new master waits for a silent peer before it gives out indices, ms. */
export const LEARN_MS = 500

/** How long it waits for the next page of a peer that has sent one, ms. */
export const LEARN_NEXT_MS = 3_000

/** How long it may take a new master to fetch what peers hold, as long as they keep sending, ms. */
export const LEARN_MOST_MS = 60_000

/**
 * How long one that was away waits for a page of what its master no longer has, ms: it may come from a
 * disk.
 */
export const FETCH_MS = 5_000

/** With so many entries waiting for its disk, a node that catches up waits before it asks for more. */
export const FEW_QUEUED = 5_000

/** How long it waits then at most, ms: less than a new master is given for the next page. */
export const ROOM_MS = 2_000

/** After this time without an answer a question or a submission is sent again, ms. */
export const RESEND_MS = 1_000

/** How often a master says where the log ends, in case a message was lost, ms. */
export const HEAD_MS = 5_000

/** How often the replication looks at the time, ms. */
export const TICK_MS = 1_000

/** A comment goes down an idle stream this often, ms. */
export const COMMENT_MS = 10_000
