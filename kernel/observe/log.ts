import { multistream, pino, stdSerializers, type DestinationStream, type StreamEntry } from 'pino'
import pretty from 'pino-pretty'
import { withoutUrlSecrets } from '../net/urls.js'
import { unsafe } from '../config/paths.js'
import { createLogRing, type LogRing } from './log-ring.js'
import type { Clock } from '../api/clock.js'
import type { Logger } from '../api/plugin.js'

export interface LogOptions {
  /** The `logging.level` setting. */
  level: string
  /** The `logging.enabled` setting: JSON lines on stdout in addition to the readable ones on stderr. */
  json: boolean
  /** The `logging.ingest_url` setting, the address to which a plugin sends JSON lines. */
  ingestUrl: string | undefined
  clock: Clock
  base: Record<string, string>
}

export interface NodeLog {
  child (plugin: string): Logger
  root: Logger
  readonly ring: LogRing
  /** Closes the log after giving the sink time to send queued lines. */
  close (): Promise<void>
}

/** Maximum length of a text field in characters; longer text is cut. */
const MAX_FIELD = 2048
/** Names of fields that never reach a log, at the top level or up to two levels below. */
const SECRET = ['authorization', 'cookie', 'token', 'secret', 'password', 'key', 'sig']
const REDACT = SECRET.flatMap((name) => [name, `*.${name}`, `*.*.${name}`])

/**
 * The node's log: readable text on stderr (coloured on a terminal), JSON on stdout, and lines that a plugin
 * sends. Callers pass fields, never prompts, payloads or headers; the log removes secrets nevertheless.
 */
export function createLog (options: LogOptions): NodeLog {
  const level = options.level as 'info'
  const ring = createLogRing({ clock: options.clock, ingestUrl: options.ingestUrl })
  const streams: StreamEntry[] = [
    { level, stream: readable() }, { level, stream: { write: (line) => { ring.push(line) } } }
  ]
  if (options.json) streams.push({ level, stream: process.stdout })
  const all = multistream(streams)
  const write = all.write.bind(all)
  all.write = (line: string) => write(withoutUrlSecrets(line))
  const logger = pino({
    level: options.level, base: options.base, timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: REDACT, censor: '[redacted]' }, serializers: { err: shortError },
    formatters: { log: cutFields }
  }, all)
  return { root: logger, child: (plugin) => logger.child({ plugin }), ring, close: ring.close }
}

function readable (): DestinationStream {
  return pretty({
    destination: 2, colorize: process.stderr.isTTY && process.env['NO_COLOR'] === undefined,
    ignore: 'pid,hostname,node', translateTime: 'SYS:HH:MM:ss', sync: true, singleLine: true
  })
}

function shortError (error: unknown): unknown {
  if (!(error instanceof Error)) return String(error).slice(0, MAX_FIELD)
  const { type, message, stack } = stdSerializers.err(error)
  return { type, message: message.slice(0, MAX_FIELD), stack: stack.slice(0, MAX_FIELD) }
}

/** Cuts long strings, and replaces characters that could break a line of output or hide in it. */
function cutFields (fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) =>
    [key, typeof value === 'string' ? clean(value) : value]))
}

function clean (value: string): string {
  return value.slice(0, MAX_FIELD).replace(unsafe, (character) =>
    /[\n\t]/.test(character) ? character : '\ufffd')
}
