import type { Plugin } from '../api/plugin.js'
import type { Client, ClientOptions, Signing } from './client.js'
import type { DeclarationSet } from '../api/declared.js'
import type { CliError, ExitCode } from './errors.js'
import type { Io, Out, Progress } from './output.js'
import type { Sink } from './sink.js'

export interface WaitOptions {
  /** Longest time to go on trying, seconds. */
  seconds: number
  signal: AbortSignal
  again (error: CliError): boolean | Promise<boolean>
  /** Called before each new attempt with the last failure. */
  onWait? (error: CliError): void
}

export interface VerbContext {
  readonly client: Client
  /** Another client with the same trust and with no credential but that of these options. */
  clientFor (
    options: Pick<ClientOptions, 'url' | 'token'> & Partial<Pick<ClientOptions, 'signal' | 'signing'>>
  ): Client
  readonly out: Out
  readonly err: Progress
  readonly home: string
  /** The given address, unless it belongs to this home's node. */
  readonly elsewhere: string | undefined
  /** Seconds of `--wait[=s]`; undefined when it was not given. */
  readonly wait: number | undefined
  readonly signal: AbortSignal
  readonly io: Io
  /** The plugins that ship with svc; imported on first use. */
  plugins (): Promise<readonly Plugin[]>
  /** Declarations of the kernel and this home's plugins; needs no running node. */
  declared (): Promise<DeclarationSet>
  /** A sink for media: a file that appears under its name only when complete, or stdout for `-`. */
  sink (path: string): Sink
  /** Retries until success, a timeout or a final error; `notYet` covers the usual reasons. */
  retry<T> (options: Omit<WaitOptions, 'signal'>, attempt: () => Promise<T>): Promise<T>
  /** True for a starting or busy node, and for no answer. */
  notYet (error: CliError): boolean
  /** An error that ends the command with that exit status; throw it. */
  fail (code: ExitCode, message: string): CliError
}

/** The error of a verb: the exit status and, if a node answered, its error object. */
export type VerbError = CliError

/** True for the errors of the client and of `ctx.fail`. */
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

/** The default export of the module of declared `credentials`. */
export interface CredentialHelper {
  /** Undefined if the home has no credential for the node at that address. */
  signerAt (home: string, url: string): Signing | undefined
  /** Runs after a command whose requests it signed, unless that was interrupted. Never throws. */
  used (ctx: VerbContext): Promise<unknown>
}
