/** Default and maximum lines of a page. */
export const LIMIT = 200
export const LIMIT_MOST = 1000
/** Most lines per write to a follower. */
export const BATCH_LINES = 100
/** Interval of keep-alive comments, ms; a node without any event for NODE_TIMEOUT_MS is retried. */
export const COMMENT_MS = 10_000
export const NODE_TIMEOUT_MS = 30_000
/** Deadline of a node's page, ms, and its size limit. */
export const PAGE_MS = 3000
export const PAGE_BYTES = 32 * 1024 ** 2
/** Wait for lines of other nodes before sorting, ms. */
export const GATHER_MS = 200
/** Lines that wait for a reader; at this number, reading from the nodes pauses. */
export const MAX_BUFFERED_LINES = 2000
/** Delay between attempts to follow a node, ms. */
export const FIRST_RETRY_MS = 1000
export const LAST_RETRY_MS = 10_000
/** Interval of checks for nodes that joined, ms. */
export const POLL_MS = 1000
/** Longest server-sent event of another node, characters. */
export const EVENT_CHARS = 1024 ** 2
