import { parseJson } from '../api/schema.js'
import { apiFailure, asApiError, type CliError } from './errors.js'
import { plain } from './output.js'
import type { DeclarationSet } from '../api/plugin.js'

/** Source of a fact. A `nodeId` is that of the node's current process; times are ISO-8601. */
export type Evidence =
  | { readonly kind: 'event', readonly idx: number, readonly at: string, readonly name: string }
  | { readonly kind: 'trace', readonly taskId: string }
  | { readonly kind: 'node', readonly nodeId: string, readonly name: string }
  | { readonly kind: 'error', readonly reason: string }
  | { readonly kind: 'log', readonly node: string, readonly at: string }
  | { readonly kind: 'time', readonly at: string }
  | { readonly kind: 'path', readonly path: string }

/** One finding of a tool; its text must be true and clear on its own. */
export interface Fact {
  /** fail: broken now. warn: a present or future problem. ok: checked and fine. info: neutral. */
  readonly level: 'fail' | 'warn' | 'ok' | 'info'
  /** Machine-readable kind of finding in snake_case: `node_lost`, `disk_full`, `runner_failed`. */
  readonly code: string
  /** One sentence for people, with names and numbers, ending in a full stop. */
  readonly text: string
  /** Names of the nodes, and ids of the models, instances and requests that the fact is about. */
  readonly about: readonly string[]
  readonly evidence: readonly Evidence[]
  /** A sentence with the repair command in backticks; null if there is no repair. */
  readonly remedy: string | null
}

/**
 * Codes of faults that usually follow from another fault, and of faults with effects on any node or model.
 */
const SYMPTOMS: ReadonlySet<string> = new Set([
  'no_instance', 'waiting_for_node', 'not_placed', 'not_ready', 'model_waiting', 'partition', 'degraded',
  'unavailable', 'not_live', 'node_silent', 'request_failed', 'files_missing'
])
const EVERYWHERE: ReadonlySet<string> = new Set([
  'no_quorum', 'no_master', 'disk_full', 'clock_skew', 'node_lost', 'memory_full', 'store_unreachable'
])

export const isSymptom = ({ code }: Pick<Fact, 'code'>): boolean => SYMPTOMS.has(code)

/** The cause of a symptom: a present fault of the same node or model, or one with effects everywhere. */
export function causeAmong<F extends Fact> (symptom: Fact, facts: readonly F[]): F | undefined {
  if (!isSymptom(symptom)) return undefined
  const bad = facts.filter((one) => (one.level === 'fail' || one.level === 'warn') && !isSymptom(one))
  return bad.find(({ about }) => about.some((one) => symptom.about.includes(one))) ??
    bad.find(({ code, level }) => EVERYWHERE.has(code) && level === 'fail')
}

/** Facts sorted by importance, most important first. */
export interface Finding {
  readonly facts: readonly Fact[]
  /** For each failed read, a sentence with its subject and the reason. */
  readonly unknown: readonly string[]
}

/** Context of a tool; its GET requests have the authorities of the tool's caller. */
export interface ToolContext {
  look<T> (path: string): Promise<T | CliError>
  /** Wall time, ms since 1970. */
  readonly nowMs: number
  declared (): Promise<DeclarationSet>
}

/** The default export of a declared tool's module. `args` match its schema. */
export interface Tool<A = Record<string, unknown>> {
  /** Does not throw for failed reads; adds sentences to `unknown` instead. */
  run (ctx: ToolContext, args: A): Promise<Finding>
}

/** Parses the answer to a GET: its value, or the failure in its error body. */
export function lookedAt<T> (status: number, text: string): T | ReturnType<typeof apiFailure> {
  const value = parseJson(text) ?? null
  if (status >= 200 && status < 300) return value as T
  return apiFailure(status, asApiError((value as { error?: unknown } | null)?.error), text)
}

/** Returns a `look` that requests each path only once, with `ask`. */
export function lookingOnce (
  ask: (path: string) => Promise<{ status: number, text: string }>
): ToolContext['look'] {
  const answers = new Map<string, Promise<unknown>>()
  const look = (path: string): Promise<unknown> => {
    const answer = answers.get(path) ?? ask(path).then(({ status, text }) => lookedAt(status, text))
    answers.set(path, answer)
    return answer
  }
  return look as ToolContext['look']
}

export function fact (level: Fact['level'], code: string, text: string, more: Partial<Fact> = {}): Fact {
  return { about: [], evidence: [], remedy: null, ...more, level, code, text }
}

/** Makes foreign text safe inside a sentence: one line of at most `most` characters. */
export function quoted (text: string, most = 200): string {
  const line = plain(text).trim()
  return line.length <= most ? line : `${line.slice(0, most - 1)}…`
}

/** Like `quoted`, without a final full stop, so that the sentence can continue. */
export const withoutFullStop = (text: string, most = 200): string => quoted(text, most).replace(/\.$/, '')

/** Reads for a tool; failed ones add a sentence to `unknown`. */
export interface ToolReads {
  readonly unknown: string[]
  /**
   * The answer to a GET, or null. `what` is the subject of the failure sentence, e.g. "The events". Refusals
   * with one of the `expected` reasons are not reported.
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

/** Describes a failed read in a sentence: "The events could not be read: that needs …". */
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
