/** Default and maximum number of lines in a page. */
export const LIMIT = 200
export const LIMIT_MOST = 1000
/** Limit on the lines in one write to a following client. */
export const BATCH_LINES = 100
/** Interval in ms of keep-alive comments. */
export const COMMENT_MS = 10_000
/** Deadline in ms for a node's page, and the page's size limit in bytes. */
export const PAGE_MS = 3000
export const PAGE_BYTES = 32 * 1024 ** 2
