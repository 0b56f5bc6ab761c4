import { plain } from '../../../kernel/index.js'
import type { VerbContext } from '../../../kernel/index.js'
import type { StateView } from '../state-view.js'

/** The error of a verb: it has the exit status and, when a node answered, its error object. */
export type VerbError = Parameters<VerbContext['notYet']>[0]

/** True for what the client and `ctx.fail` throw. */
export function isVerbError (error: unknown): error is VerbError {
  return error instanceof Error && 'exitCode' in error
}

/** GET /state, as far as the verbs about instances read it. */
export interface SeenState extends StateView {
  localNodeId: string
  nodeIdentities: Record<string, { friendlyName: string | null }>
}

/** The rule for model ids; the node checks further. */
const MODEL_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,95}\/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$/

/** True for text such as `acme/voice`. */
export const isModelId = (text: string): boolean => MODEL_ID.test(text) && !text.includes('..')

/** The text as a model id. Throws VerbError (2) for anything else. */
export function readModelId (ctx: VerbContext, text: string): string {
  if (isModelId(text)) return text
  throw ctx.fail(2, `"${text.slice(0, 200)}" is no model: expected org/name, such as acme/voice`)
}

/** What people call the node; its id when it has no name or is gone. */
export function nameOf ({ nodeIdentities }: SeenState, nodeId: string): string {
  return plain(nodeIdentities[nodeId]?.friendlyName ?? nodeId)
}

/** `1 instance`, `2 instances`. */
export const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`
