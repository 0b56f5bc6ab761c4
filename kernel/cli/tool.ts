import { parseJson } from '../api/schema.js'
import { apiFailure, asApiError } from './errors.js'
import { plain } from './output.js'
import type { DeclarationSet } from '../api/declared.js'
import type { CliError } from './errors.js'

/** The source of a fact. `nodeId`s are those of the present start; times are ISO-8601. */
export type Evidence =
  | { readonly kind: 'event', readonly idx: number, readonly at: string, readonly name: string }
  | { readonly kind: 'trace', readonly taskId: string }
  | { readonly kind: 'node', readonly nodeId: string, readonly name: string }
  | { readonly kind: 'error', readonly reason: string }
  | { readonly kind: 'log', readonly node: string, readonly at: string }
  | { readonly kind: 'time', readonly at: string }
  | { readonly kind: 'path', readonly path: string }

/** One finding of a tool: a sentence that is true without the others. */
export interface Fact {
  /** fail: broken now. warn: a present or future problem. ok: checked and fine. info: a plain fact. */
  readonly level: 'fail' | 'warn' | 'ok' | 'info'
  /** The kind of finding, in snake_case: `node_lost`, `disk_full`, `runner_failed`. */
  readonly code: string
  /** One sentence for people, with names and numbers, that ends in a full stop. */
  readonly text: string
  /** Names of the nodes, and ids of the models, instances and requests in question. */
  readonly about: readonly string[]
  readonly evidence: readonly Evidence[]
  /** A sentence with the command that repairs it, in backticks; null if there is no repair. */
  readonly remedy: string | null
}

/** Sorted by importance. */
export interface Finding {
  readonly facts: readonly Fact[]
  /** Failed reads, each a sentence with its reason. */
  readonly unknown: readonly string[]
}

/** Context of a tool: GETs with the authorities of its caller. */
export interface ToolContext {
  look<T> (path: string): Promise<T | CliError>
  /** Wall time, ms since 1970. */
  readonly nowMs: number
  declared (): Promise<DeclarationSet>
}

/** The default export of a declared tool's module. `args` match its schema. */
export interface Tool<A = Record<string, unknown>> {
  /** Failed reads become sentences in `unknown`; they do not throw. */
  run (ctx: ToolContext, args: A): Promise<Finding>
}

/** The value of a GET's answer, or the failure from its error body. */
export function lookedAt<T> (status: number, text: string): T | ReturnType<typeof apiFailure> {
  const value = parseJson(text) ?? null
  if (status >= 200 && status < 300) return value as T
  return apiFailure(status, asApiError((value as { error?: unknown } | null)?.error), text)
}

export function fact (level: Fact['level'], code: string, text: string, more: Partial<Fact> = {}): Fact {
  return { about: [], evidence: [], remedy: null, ...more, level, code, text }
}

/** Foreign text for use inside a sentence: on one line, at most `most` characters. */
export function quoted (text: string, most = 200): string {
  const line = plain(text).trim()
  return line.length <= most ? line : `${line.slice(0, most - 1)}…`
}

/** Like `quoted`, without a final full stop, so that the sentence can continue. */
export const withoutFullStop = (text: string, most = 200): string => quoted(text, most).replace(/\.$/, '')

/** GETs for a tool; failures go to `unknown`. */
export interface ToolReads {
  readonly unknown: string[]
  /**
   * The answer to a GET, or null. `what` begins the sentence about a failure: "The events". A refusal for one
   * of the `expected` reasons is not reported.
   */
  read<T> (what: string, path: string, ...expected: string[]): Promise<T | null>
}

export function createToolReads ({ look }: Pick<ToolContext, 'look'>): ToolReads {
  const unknown: string[] = []
  const tell = (sentence: string): null => {
    if (!unknown.includes(sentence)) unknown.push(sentence)
    return null
  }
  return {
    unknown,
    async read<T> (what: string, path: string, ...expected: string[]): Promise<T | null> {
      const answer = await look<T>(path).catch((error: unknown) =>
        tell(`${what} could not be read: ${quoted(error instanceof Error ? error.message : 'no answer')}.`))
      if (answer === null || !isRefusal(answer)) return answer
      return expected.includes(answer.api?.reason ?? '') ? null : tell(unreadableSentence(what, answer))
    }
  }
}

const isRefusal = (answer: unknown): answer is CliError => answer instanceof Error && 'exitCode' in answer

/** The failure of a read as a sentence: "The events could not be read: that needs …". */
export function unreadableSentence (what: string, { message, status, api }: CliError): string {
  return `${what} could not be read: ${causeOf({ message, status, api })}.`
}

function causeOf ({ message, status, api }: Pick<CliError, 'message' | 'status' | 'api'>): string {
  const { authority, plugin } = api?.details ?? {}
  if ((status === 401 || status === 403) && typeof authority === 'string') {
    return `that needs the authority ${quoted(authority)}`
  }
  if (api?.reason === 'plugin_disabled' && typeof plugin === 'string') {
    return `the plugin ${quoted(plugin)} is off; \`svc plugin enable ${quoted(plugin)}\` switches it on`
  }
  if (api?.reason === 'not_found') return 'this node does not have that'
  return withoutFullStop(api?.message ?? message.split('\n')[0]!)
}
