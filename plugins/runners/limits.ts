const MIB = 1024 * 1024

/** Finished tasks stay visible in /state for this long, and at most this many of them. */
export const TASK_LINGER_MS = 30_000
export const TASKS_FINISHED_MAX = 64
/** A task that was named but never opened within this time counts as timed out. */
export const TASK_PENDING_MS = 60_000

/** A card with more files goes into an instance without them: the document goes to every node. */
export const INSTANCE_FILES_MAX = 64

/** Instance failures kept per node and shown in /state. */
export const FAILURES_MAX = 64

/** Longest error text in an event, a status or a failure record. */
export const MESSAGE_CHARS_MAX = 500

/** A runner counts as proven while its last real inference is at most this old. */
export const FORWARD_FRESH_SECONDS = 30
/** How long a canary inference may take. */
export const CANARY_DEADLINE_MS = 5_000

/** Progress and Ready/Running changes reach the document at most this often; other changes at once. */
export const STATUS_COALESCE_MS = 500

/** The GPU probe starts this long after the plugin, so as not to delay the first model. */
export const PROBE_DELAY_MS = 1_000

/** Dedicated memory from which an AMD or Intel GPU is worth serving from. */
export const SERVING_VRAM_BYTES = 4 * 1024 * MIB

/** Default memory cap of a runner: see `memoryLimitBytes`. */
export const RUNNER_MEMORY_FLOOR_BYTES = 1024 * MIB
export const MODEL_MEMORY_OVERHEAD = 1.3
export const MEMORY_FIXED_BYTES = 256 * MIB
export const MEMORY_CAP_FACTOR = 1.1
/** What engines keep of sequences where no option says it. */
export const USUAL_SEQUENCE_BYTES = 1024 * MIB
