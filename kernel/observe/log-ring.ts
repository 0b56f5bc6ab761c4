import { isObject, parseJson } from '../api/schema.js'
import { withoutUrlSecrets } from '../net/urls.js'
import type { Clock } from '../api/clock.js'

/** Log levels with pino's numbers, lowest first. */
const LEVELS = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, fatal: 60 } as const
export type LogLevel = keyof typeof LEVELS

/** Log levels, lowest first. */
export const logLevels = Object.keys(LEVELS) as readonly LogLevel[]

/** A line from this node's log or a runner's output, with secrets removed. */
export interface LogLine {
  /** Sequence number, which rises by one with each line since this node started. */
  readonly seq: number
  /** Time in ISO-8601. */
  readonly at: string
  /** Log level; always `info` for lines from a runner. */
  readonly level: LogLevel
  /** `runner` for output from a runner process, as the engine printed it. */
  readonly source: 'node' | 'runner'
  /** The plugin that wrote the line; null for a runner and for the node as a whole. */
  readonly plugin: string | null
  readonly modelId: string | null
  readonly runnerId: string | null
  readonly message: string
  /** All other fields of the line. */
  readonly fields: Readonly<Record<string, unknown>>
}

/** Selects log lines; without conditions, every line. */
export interface LogFilter {
  readonly afterSeq?: number
  /** Earliest time in ms since 1970. */
  readonly sinceMs?: number
  /** Minimum level. */
  readonly level?: LogLevel
  readonly modelId?: string
  readonly plugin?: string
  /** Maximum number of lines: the newest ones, or the oldest ones if `afterSeq` is given. */
  readonly limit?: number
}

export interface RunnerRef {
  readonly runnerId: string
  readonly instanceId: string
  readonly modelId: string
}

export interface LogRing {
  /** The matching lines, oldest first. */
  lines (want?: LogFilter): LogLine[]
  /** Sequence numbers of the oldest stored line and of the next new line. */
  readonly firstSeq: number
  readonly nextSeq: number
  output (runner: RunnerRef, stream: 'stdout' | 'stderr', text: string): void
  /** Calls `fn` after each line; it must not log. Returns a function that unregisters it. */
  onLine (fn: () => void): () => void
  /** `logging.ingest_url`, for the plugin that sends lines there; undefined if it is not set. */
  readonly ingestUrl: string | undefined
  /** Passes JSON lines from the node's log to `sink`, including earlier ones, until the node has stopped. */
  sendTo (sink: LogSink): void
}

/** Receives lines from the node's log in pino's format. */
export interface LogSink {
  /** Receives one line; must neither block nor log. */
  push (line: string): void
  /** Called after the last line, to send those still queued. */
  close (): Promise<void>
}

export interface LogRingEnd extends LogRing {
  /** Adds a JSON line from the node's log, in pino's format. */
  push (line: string): void
  close (): Promise<void>
}

export interface LogRingOptions {
  clock: Clock
  /** Limits on the stored lines and on their UTF-8 bytes; the oldest lines are dropped. */
  lines?: number
  bytes?: number
  ingestUrl?: string | undefined
}

const MAX_LINES = 5000
const MAX_BYTES = 4 * 1024 ** 2
/** Maximum length of a runner's line in characters; the rest is cut off. */
const MAX_OUTPUT = 8192
/** Maximum number of lines queued during the boot until a sink is set. */
const MAX_EARLY = 200

type Kept = Omit<LogLine, 'at' | 'fields'> & {
  readonly atMs: number
  /** Other fields as JSON text, since they are read far less often than written. */
  readonly rest: string
  readonly bytes: number
}

/** Keeps the newest lines in bounded memory. Never blocks, and never throws because of a line's contents. */
export function createLogRing (options: LogRingOptions): LogRingEnd {
  const { clock, lines: maxLines = MAX_LINES, bytes: maxBytes = MAX_BYTES } = options
  const kept: Kept[] = []
  const listeners = new Set<() => void>()
  let bytes = 0
  let nextSeq = 1
  const early: string[] = []
  let sink: LogSink | undefined
  const add = (line: Omit<Kept, 'seq' | 'bytes'>): void => {
    const size = Buffer.byteLength(line.message) + Buffer.byteLength(line.rest)
    kept.push({ ...line, seq: nextSeq++, bytes: size })
    bytes += size
    while (kept.length > maxLines || (bytes > maxBytes && kept.length > 1)) bytes -= kept.shift()!.bytes
    for (const fn of listeners) fn()
  }
  return {
    get firstSeq () { return kept[0]?.seq ?? nextSeq },
    get nextSeq () { return nextSeq },
    ingestUrl: options.ingestUrl,
    push (line) {
      add(parsed(line, clock.now()))
      if (sink !== undefined) sink.push(line)
      else if (early.length < MAX_EARLY) early.push(line)
    },
    sendTo (to) {
      sink = to
      for (const line of early.splice(0)) to.push(line)
    },
    close: async () => { await sink?.close() },
    output (runner, stream, text) { add(fromRunner(runner, stream, text, clock.now())) },
    onLine (fn) {
      listeners.add(fn)
      return () => { listeners.delete(fn) }
    },
    lines: (want = {}) => choose(kept, want).map(shown)
  }
}

function choose (all: readonly Kept[], want: LogFilter): Kept[] {
  const { afterSeq = 0, limit = Infinity } = want
  const from = Math.max(0, afterSeq + 1 - (all[0]?.seq ?? 0))
  const found = all.slice(from).filter((line) => fits(line, want))
  if (found.length <= limit) return found
  return want.afterSeq === undefined ? found.slice(found.length - limit) : found.slice(0, limit)
}

function fits (line: Kept, { sinceMs, level = 'trace', modelId, plugin }: LogFilter): boolean {
  return LEVELS[line.level] >= LEVELS[level] && (sinceMs === undefined || line.atMs >= sinceMs) &&
    (modelId === undefined || line.modelId === modelId) && (plugin === undefined || line.plugin === plugin)
}

function shown ({ seq, atMs, level, source, plugin, modelId, runnerId, message, rest }: Kept): LogLine {
  return {
    seq, at: new Date(atMs).toISOString(), level, source, plugin, modelId, runnerId, message,
    fields: JSON.parse(rest) as Record<string, unknown>
  }
}

/** Parses a line from pino; other text becomes the message unchanged. */
function parsed (line: string, now: number): Omit<Kept, 'seq' | 'bytes'> {
  const value = parseJson(line)
  const { level, time, msg, plugin, node: _node, ...fields }: Record<string, unknown> =
    isObject(value) ? value : { msg: line.trimEnd() }
  const atMs = typeof time === 'string' ? Date.parse(time) : Number.NaN
  return {
    atMs: Number.isNaN(atMs) ? now : atMs,
    level: logLevels.findLast((name) => LEVELS[name] <= Number(level)) ?? 'info', source: 'node',
    plugin: textOr(plugin), modelId: textOr(fields['modelId']), runnerId: textOr(fields['runnerId']),
    message: typeof msg === 'string' ? msg : '', rest: JSON.stringify(fields)
  }
}

const textOr = (value: unknown): string | null => typeof value === 'string' ? value : null

function fromRunner (
  { runnerId, instanceId, modelId }: RunnerRef, stream: string, text: string, now: number
): Omit<Kept, 'seq' | 'bytes'> {
  return {
    atMs: now, level: 'info', source: 'runner', plugin: null, modelId, runnerId,
    message: withoutSecrets(text.slice(0, MAX_OUTPUT)), rest: JSON.stringify({ instanceId, stream })
  }
}

const SECRETS = [
  /\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi,
  /\b((?:api[_-]?key|authorization|cookie|password|secret|token)"?\s*[=:]\s*)"?[^\s"',;]{4,}/gi
] as const

/** Removes anything that resembles a credential from another program's text. */
export function withoutSecrets (text: string): string {
  return SECRETS.reduce((left, pattern) => left.replace(pattern, '$1 [redacted]'), withoutUrlSecrets(text))
}
