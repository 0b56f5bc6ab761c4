/** Default and most lines of a page. */
export const LIMIT = 200
export const LIMIT_MOST = 1000
/** Lines that are written to a follower at once. */
export const BATCH_LINES = 100
/** A stream without news gets a comment this often, ms; a node that is silent for longer is asked anew. */
export const COMMENT_MS = 10_000
export const NODE_TIMEOUT_MS = 30_000
/** Longest wait for a node's page, ms, and its most bytes. */
export const PAGE_MS = 3000
export const PAGE_BYTES = 32 * 1024 ** 2
/** Wait for lines of other nodes before sorting, ms. */
export const GATHER_MS = 200
/** Lines that wait for a reader; beyond it nothing more is read from the nodes. */
export const MAX_BUFFERED_LINES = 2000
/** Pauses between two attempts to follow a node, ms. */
export const FIRST_RETRY_MS = 1000
export const LAST_RETRY_MS = 10_000
/** Interval of checks for other nodes, ms. */
export const POLL_MS = 1000
/** Longest server-sent event of another node, characters. */
export const EVENT_CHARS = 1024 ** 2
