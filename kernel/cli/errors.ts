import type { IncomingHttpHeaders } from 'node:http'
import { parseJson } from '../api/schema.js'
import { plain } from './output.js'

/** Exit statuses of `svc` with their meanings, as printed by `svc help exit-codes`. */
const EXITS = {
  ok: [0, 'ok'],
  failed: [1, 'failed: the command was valid but did not succeed'],
  usage: [2, 'usage: unknown verb or option, or invalid value'],
  notFound: [3, 'not found: no such model, capability, plugin, node or token'],
  notReady: [4, 'not ready: busy or still starting, try again (HTTP 503 and 429)'],
  auth: [5, 'not allowed: no token, or one without the authority (HTTP 401 and 403)'],
  doesNotFit: [6, 'does not fit: not enough memory or disk space'],
  unreachable: [7, 'unreachable: no node answers at that address'],
  interrupted: [130, 'interrupted (Ctrl-C)']
} as const

type Exits = typeof EXITS
export type ExitCode = Exits[keyof Exits][0]

export const exitCodes = Object.fromEntries(Object.entries(EXITS).map(([name, [code]]) => [name, code])) as
  { readonly [name in keyof Exits]: Exits[name][0] }

export const exitCodeMeanings: readonly (readonly [code: ExitCode, meaning: string])[] = Object.values(EXITS)

/** Reasons whose exit status does not follow from their HTTP status. */
const byReason: Readonly<Record<string, ExitCode>> = {
  insufficient_memory: exitCodes.doesNotFit,
  insufficient_disk: exitCodes.doesNotFit,
  no_safe_fit: exitCodes.doesNotFit,
  not_ready: exitCodes.notReady,
  not_ready_yet: exitCodes.notReady,
  unreachable: exitCodes.unreachable,
  cancelled: exitCodes.failed
}

const byStatus: Readonly<Record<number, ExitCode>> = {
  400: exitCodes.usage,
  401: exitCodes.auth,
  403: exitCodes.auth,
  404: exitCodes.notFound,
  422: exitCodes.usage,
  429: exitCodes.notReady,
  503: exitCodes.notReady
}

export function exitCodeFor (status: number, reason?: string): ExitCode {
  return byReason[reason ?? ''] ?? byStatus[status] ?? exitCodes.failed
}

export interface ApiError {
  message: string
  /** The HTTP status, or the error code of a foreign API such as OpenAI's. */
  code: number | string | null
  reason: string
  requestId?: string
  details?: Record<string, unknown>
}

/** A failure that is printed as a sentence and ends the command with `exitCode`. */
export class CliError extends Error {
  readonly exitCode: ExitCode
  readonly api: ApiError | undefined
  readonly status: number | undefined
  /** Id of the failed command if the answer does not explain the failure. */
  readonly commandId: string | undefined
  constructor (
    exitCode: ExitCode, message: string,
    answer: { api?: ApiError | undefined, status?: number, commandId?: string | undefined } = {}
  ) {
    super(message)
    this.name = 'CliError'
    this.exitCode = exitCode
    this.api = answer.api
    this.status = answer.status
    this.commandId = answer.commandId
  }
}

export function usageError (message: string): CliError { return new CliError(exitCodes.usage, message) }

export function interrupted (): CliError { return new CliError(exitCodes.interrupted, 'interrupted') }

const COMMAND_HEADER = 'x-svc-command-id'
const COMMAND_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Converts an API error object (body or `failed` frame) to a CliError; a header may give the command id. */
export function apiFailure (
  status: number, api: ApiError | undefined, text = '', headers: IncomingHttpHeaders = {}
): CliError {
  if (api === undefined) {
    const said = text.trim().slice(0, 200)
    const words = `the node answered ${status}${said === '' ? '' : `: ${said}`}`
    return new CliError(exitCodeFor(status), words, { status })
  }
  const id = headers[COMMAND_HEADER]
  // Keeps the command id for a look-up, except for a 503, which explains itself, or a call that never began.
  const odd = status >= 500 && status !== 503 && api.details?.['begun'] !== false &&
    typeof id === 'string' && COMMAND_ID.test(id)
  return new CliError(exitCodeFor(status, api.reason), sentence(status, api),
    { api, status, commandId: odd ? id : undefined })
}

function sentence (status: number, api: ApiError): string {
  const issues = (api.details?.['issues'] as { path: string, message: string }[] | undefined) ?? []
  const remedy = api.details?.['remedy']
  return [
    `${api.message} (${status} ${api.reason})`,
    ...issues.filter((issue) => !api.message.includes(issue.message))
      .map((issue) => `  ${issue.path}: ${issue.message}`),
    ...(typeof remedy === 'string' ? [`  ${remedy}`] : []),
    ...(status >= 500 && api.requestId !== undefined ? [`  request id ${api.requestId}`] : [])
  ].join('\n')
}

/** Converts an error object inside a successful answer: exit status 1, since the answer had begun. */
export function failureWithin (error: Record<string, unknown>): CliError {
  const { message, reason, code, details } = error
  const { remedy } = (details ?? {}) as { remedy?: unknown }
  const words = typeof reason === 'string' ? ` (${typeof code === 'number' ? `${code} ` : ''}${reason})` : ''
  const told = typeof message === 'string' && message !== '' ? message : 'the answer failed'
  const said = plain(`${told}${words}`)
  return new CliError(exitCodes.failed, typeof remedy === 'string' ? `${said}\n  ${plain(remedy)}` : said,
    // With --json, the node's error object is printed, just like that of a refused request.
    words === '' ? {} : { api: error as unknown as ApiError })
}

/** The error object if the text is a node's error body; undefined otherwise. */
export function readApiError (text: string): ApiError | undefined {
  return asApiError((parseJson(text) as { error?: unknown } | null | undefined)?.error)
}

export function asApiError (value: unknown): ApiError | undefined {
  const error = value as Partial<ApiError> | null | undefined
  const { message, reason } = error ?? {}
  return typeof message === 'string' && typeof reason === 'string' ? error as ApiError : undefined
}
