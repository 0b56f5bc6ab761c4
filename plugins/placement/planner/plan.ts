import { accountOf } from './refusals.js'
import { solve } from './solve.js'
import type { Solved } from './solve.js'
import { suggest } from './suggest.js'
import type { ClusterView, Meter, PlanRequest, PlanResult, Suggestion } from './types.js'

/**
 * Chooses the nodes and parts for a model, or says why there is no choice and what would make one. Pure:
 * the same request and view give the same result, in whatever order nodes and edges are listed.
 */
export function plan (request: PlanRequest, view: ClusterView, meter: Meter = { steps: 0 }): PlanResult {
  const solved = solve(request, view, meter)
  if (solved.ok) return solved
  return refusalOf(request, view, solved, suggest(request, view, solved.problem, meter))
}

/** The same without suggestions, for callers that try other requests anyway. */
export function planBriefly (request: PlanRequest, view: ClusterView, meter: Meter): PlanResult {
  const solved = solve(request, view, meter)
  return solved.ok ? solved : refusalOf(request, view, solved, [])
}

function refusalOf (
  request: PlanRequest, view: ClusterView, { problem }: Solved & { ok: false }, suggestions: Suggestion[]
): PlanResult {
  const { reason, message, details } = accountOf(request, view, problem)
  const [first] = suggestions
  return {
    ok: false,
    reason,
    message: first === undefined ? message : `${message} It can be placed if you ${first.text}.`,
    details: { ...details, suggestions },
    ...problem.reason === 'info_pending' && {
      pendingNodes: problem.pending.map(({ node }) => node.nodeId)
    }
  }
}
