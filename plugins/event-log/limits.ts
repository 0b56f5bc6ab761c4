/** Entries that are kept in memory where nothing can be stored. */
export const RING_ENTRIES = 10_000

/**
 * The same with a store behind: enough for what is asked for as a rule. More of them would live long enough
 * at many events a second to cost the garbage collector its time.
 */
export const RING_STORED = 1_000

/** Entries that are kept as JSON, to be sent: one that is two seconds behind is not fed from the disk. */
export const RING_TEXTS = 20_000

/** Bytes of JSON those entries may have together; the oldest go first. */
export const RING_BYTES = 32 * 1024 * 1024

/** Own events that wait until they are in the log; one more is dropped and counted. */
export const QUEUE_ENTRIES = 1_000

/** A larger event is dropped and counted: the newest 20,000 fit into what the disk may have of them. */
export const EVENT_BYTES = 8 * 1024

/** Most entries, and most bytes of them, in one message. */
export const PAGE_ENTRIES = 500
export const PAGE_BYTES = 256 * 1024

/** New entries within so many ms after some were sent go together. */
export const BATCH_MS = 10

/** A link that was full is tried again after so long, ms. */
export const FULL_MS = 20

/**
 * How far ahead of what a follower has said to have it is sent entries, in indices: what a master makes in
 * half a second at 10,000 a second, and no more than fits into the follower's queue to its disk.
 */
export const WINDOW_IDX = 5_000

/** After so many indices a follower says what it has. */
export const TOOK_IDX = 500

/** A follower that has said nothing for so long with the window used up is told where the log ends, ms. */
export const STALL_MS = 3_000

/** So often a follower is answered with the same page of the store, in case that was lost. */
export const SAME_ANSWERS = 3

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

/** An indexed event says that its node lives if it is no older, and only so often, ms. */
export const SIGN_MS = 1_000

/** A comment goes down an idle stream this often, ms. */
export const COMMENT_MS = 10_000
