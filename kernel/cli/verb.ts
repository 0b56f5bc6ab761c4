import type { Plugin } from '../api/plugin.js'
import type { Client, ClientOptions } from './client.js'
import type { Declared } from './declared.js'
import type { CliError, ExitCode } from './errors.js'
import type { Frame } from './invoke.js'
import type { Io } from './output.js'
import type { Sink } from './sink.js'
import type { WaitOptions } from './waiting.js'

/** Data for the caller, on stdout only. */
export interface Out {
  readonly json: boolean
  readonly terminal: boolean
  line (text: string): void
  /** One JSON value: on one line with `--json`, else indented. */
  value (value: unknown): void
  table (headers: readonly string[], rows: readonly (readonly string[])[]): void
  /** Raw bytes; resolves when the reader took them. */
  bytes (bytes: Uint8Array): Promise<void>
}

/** Progress for people, on stderr. */
export interface Progress {
  line (text: string): void
  /** Replaces the current line on a terminal; elsewhere nothing. */
  update (text: string): void
  /** Ends a replaced line. */
  end (): void
  /** Colours the text where that is wanted (terminal, no NO_COLOR). */
  paint (style: 'red' | 'green' | 'yellow' | 'bold' | 'dim', text: string): string
}

/** What to invoke. The version may be left out where the node serves one only. */
export interface Invocation {
  id: string
  version?: string
  payload: Record<string, unknown>
  /** Longest wait for the first and for each next chunk, seconds; the node's default when absent. */
  timeoutSeconds?: number
  /** Node that is to serve it, by id, install id or name; the one that is asked when absent. */
  node?: string
}

export interface VerbContext {
  readonly client: Client
  /** Another client, which trusts as `client` does; without a token it has no credential. */
  clientFor (options: Pick<ClientOptions, 'url' | 'token'> & Partial<Pick<ClientOptions, 'signal'>>): Client
  readonly out: Out
  readonly err: Progress
  readonly home: string
  /** The given address, unless it is that of this home's node. */
  readonly elsewhere: string | undefined
  /** Seconds of `--wait[=s]`; undefined when it was not given. */
  readonly wait: number | undefined
  readonly signal: AbortSignal
  readonly io: Io
  /** The plugins that ship with svc; imported on first use. */
  plugins (): Promise<readonly Plugin[]>
  /** Declarations of the kernel and this home's plugins; needs no running node. */
  declared (): Promise<Declared>
  /** Discovers a streaming capability and calls it. Throws CliError for every way it can fail. */
  invoke (call: Invocation): AsyncIterable<Frame>
  /** A sink for media: a file that appears under its name only when it is whole, or stdout for `-`. */
  sink (path: string): Sink
  /** Tries until it works, the time is up or the error is final; `notYet` covers the usual reasons. */
  retry<T> (options: Omit<WaitOptions, 'signal'>, attempt: () => Promise<T>): Promise<T>
  /** Lets the plugins store data of a node that has paired this machine. Returns lines; never throws. */
  learn (url: string): Promise<string[]>
  /** True for a starting or busy node, and for no answer. */
  notYet (error: CliError): boolean
  /** An error that ends the command with that exit status; throw it. */
  fail (code: ExitCode, message: string): CliError
}

/** The error of a verb: it has the exit status and, when a node answered, its error object. */
export type VerbError = CliError

/** True for what the client and `ctx.fail` throw. */
export function isVerbError (error: unknown): error is VerbError {
  return error instanceof Error && 'exitCode' in error
}

/**
 * Default export of a verb's module. `args` in declared order (a variadic one spread), `options` by camelCase
 * name. Returns the exit status; undefined is 0.
 */
export interface Verb {
  run (ctx: VerbContext, args: string[], options: Record<string, unknown>): Promise<number | void>
}
