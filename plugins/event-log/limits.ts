/** Entries that are kept in memory where nothing can be stored. */
export const RING_ENTRIES = 10_000

/**
 * Entries that are kept in memory where there is a store. Enough for most requests; with more of them they
 * live so long, at many events a second, that the garbage collector has to move them.
 */
export const RING_STORED = 1_000

/**
 * Entries that are kept as JSON, to be sent. At 10,000 events a second, a follower that is up to two seconds
 * behind is served from memory.
 */
export const RING_TEXTS = 20_000

/** Bytes of JSON those entries may have together; the oldest go first. */
export const RING_BYTES = 32 * 1024 * 1024

/** Events of this node that may wait for their index; further ones are dropped and counted. */
export const QUEUE_ENTRIES = 1_000

/** A larger event is dropped and counted. So the newest 20,000 always fit into the limit on disk. */
export const EVENT_BYTES = 8 * 1024

/** Most entries, and most bytes of them, in one message. */
export const PAGE_ENTRIES = 500
export const PAGE_BYTES = 256 * 1024

/** Entries that come within so many ms after a message share the next message. */
export const BATCH_MS = 10

/** Pause before a link that was full is tried again, ms. */
export const FULL_MS = 20

/**
 * Most indices that a follower is sent beyond the newest it has acknowledged: half a second at 10,000 events
 * a second, and no more than fits into the follower's queue to its disk.
 */
export const WINDOW_IDX = 5_000

/** A follower acknowledges after so many indices. */
export const TOOK_IDX = 500

/** A follower that has not acknowledged a full window for so long is sent where the log ends, ms. */
export const STALL_MS = 3_000

/** How often a follower is sent the same page of the store, in case the message was lost. */
export const SAME_ANSWERS = 3

/** How long a new master waits for a silent peer before it gives out indices, ms. */
export const LEARN_MS = 500

/** How long a new master waits for the next page of a peer that has sent one, ms. */
export const LEARN_NEXT_MS = 3_000

/** After this time a new master gives out indices even if peers are still sending, ms. */
export const LEARN_MOST_MS = 60_000

/**
 * How long a node that was away waits for a page that its master no longer has, ms. The peer may have to
 * read it from its disk.
 */
export const FETCH_MS = 5_000

/** With so many entries waiting for its disk, a node that catches up waits before it asks for more. */
export const FEW_QUEUED = 5_000

/** How long it waits then at most, ms. Less than `LEARN_NEXT_MS`, so that a new master does not give up. */
export const ROOM_MS = 2_000

/** A `want` or a `submit` that is not answered is sent again after this time, ms. */
export const RESEND_MS = 1_000

/** How often a master sends where the log ends, in case a message was lost, ms. */
export const HEAD_MS = 5_000

/** Interval of the replication's ticks, ms. */
export const TICK_MS = 1_000

/** An event counts as a sign of life of its node when it is no older than this, and once in this time, ms. */
export const SIGN_MS = 1_000

/** Interval of comments on an idle stream, ms. */
export const COMMENT_MS = 10_000
