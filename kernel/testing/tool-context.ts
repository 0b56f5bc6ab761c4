import { apiFailure, type CliError } from '../cli/errors.js'
import type { ToolContext } from '../cli/tool.js'

/** An error for `toolContext`, worded like a node's refusal. */
export function refusal (
  status: number, reason: string, message: string, details: Record<string, unknown> = {}
): CliError {
  return apiFailure(status, { code: status, reason, message, details }, message)
}

/** The refusal for a caller that lacks the authority. */
export const lacks = (authority: string): CliError =>
  refusal(403, 'missing_grant', `The credential lacks the authority "${authority}".`, { authority })

/** A tool context for tests, with the recorded requests. */
export interface ToolBench extends ToolContext { readonly asked: string[] }

/**
 * A tool context with canned answers by path; `/events?` matches that path with any query. A path
 * without an answer is unknown to the node. `now` is ISO-8601.
 */
export function toolContext (answers: Readonly<Record<string, unknown>>, now: string): ToolBench {
  const asked: string[] = []
  return {
    asked,
    nowMs: Date.parse(now),
    declared: async () => await Promise.reject(new Error('nothing is declared here')),
    look: async <T>(path: string) => {
      asked.push(path)
      const answer = answers[path] ?? answers[path.replace(/\?.*/, '?')]
      return answer === undefined ? refusal(404, 'not_found', `There is no route GET ${path}.`) : answer as T
    }
  }
}
