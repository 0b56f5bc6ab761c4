import type { DeclarationSet, Plugin } from '../api/plugin.js'
import type { Client, ClientOptions, Signing } from './client.js'
import type { CliError, ExitCode } from './errors.js'
import type { Io, Out, Progress } from './output.js'
import type { Sink } from './sink.js'

export interface WaitOptions {
  /** Time limit for retries in seconds. */
  seconds: number
  signal: AbortSignal
  again (error: CliError): boolean | Promise<boolean>
  /** Called before each retry with the last failure. */
  onWait? (error: CliError): void
}

export interface VerbContext {
  readonly client: Client
  /** Creates a client with the same TLS trust but without this command's credential. */
  clientFor (
    options: Pick<ClientOptions, 'url' | 'token'> & Partial<Pick<ClientOptions, 'signal' | 'signing'>>
  ): Client
  readonly out: Out
  readonly err: Progress
  readonly home: string
  /** The address given on the command line, unless it belongs to this home's node. */
  readonly elsewhere: string | undefined
  /** Seconds of `--wait[=s]`; undefined without the option. */
  readonly wait: number | undefined
  readonly signal: AbortSignal
  readonly io: Io
  /** The plugins that ship with svc; imported on first use. */
  plugins (): Promise<readonly Plugin[]>
  /** Declarations of the kernel and this home's plugins; needs no running node. */
  declared (): Promise<DeclarationSet>
  /** A sink for media: a file that appears under its name only when complete, or stdout for `-`. */
  sink (path: string): Sink
  /** Retries until success, the time limit or a final error. `notYet` recognises errors worth a retry. */
  retry<T> (options: Omit<WaitOptions, 'signal'>, attempt: () => Promise<T>): Promise<T>
  /** True for errors from a starting or busy node, and for a missing answer. */
  notYet (error: CliError): boolean
  /** Creates an error that ends the command with that exit status; the caller throws it. */
  fail (code: ExitCode, message: string): CliError
}

/** Error type for verbs: the exit status and, if a node answered, its error object. */
export type VerbError = CliError

/** True for errors from the client and from `ctx.fail`. */
export function isVerbError (error: unknown): error is VerbError {
  return error instanceof Error && 'exitCode' in error
}

/**
 * Default export of a verb's module. `args` are in declared order (a variadic one spread), `options` have
 * camelCase names. Returns the exit status; undefined means 0.
 */
export interface Verb {
  run (ctx: VerbContext, args: string[], options: Record<string, unknown>): Promise<number | void>
}

/** Default export of a module declared in `credentials`. */
export interface CredentialHelper {
  /** Undefined if the home has no credential for the node at that address. */
  signerAt (home: string, url: string): Signing | undefined
  /** Called after a command whose requests this helper signed, unless it was interrupted. Never throws. */
  used (ctx: VerbContext): Promise<unknown>
}
