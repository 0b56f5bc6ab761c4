/** Default and maximum number of lines in a page. */
export const LIMIT = 200
export const LIMIT_MOST = 1000
/** Limit on the lines in one write to a following client. */
export const BATCH_LINES = 100
/** Interval in ms of keep-alive comments. A node that sends no event for NODE_TIMEOUT_MS is retried. */
export const COMMENT_MS = 10_000
export const NODE_TIMEOUT_MS = 30_000
/** Deadline in ms for a node's page, and the page's size limit in bytes. */
export const PAGE_MS = 3000
export const PAGE_BYTES = 32 * 1024 ** 2
/** Milliseconds to wait for lines from other nodes before sorting. */
export const GATHER_MS = 200
/** Number of buffered lines at which the node stops reading from other nodes. */
export const MAX_BUFFERED_LINES = 2000
/** First and longest delay in ms between attempts to follow a node. */
export const FIRST_RETRY_MS = 1000
export const LAST_RETRY_MS = 10_000
/** Interval in ms of checks for nodes that have joined. */
export const POLL_MS = 1000
/** Longest accepted server-sent event from another node, in characters. */
export const EVENT_CHARS = 1024 ** 2
