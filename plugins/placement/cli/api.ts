import { plain } from '../../../kernel/cli/index.js'
import type { InstanceStates } from '../facts.js'

/** GET /state, as far as the verbs about instances read it. */
export interface SeenState extends InstanceStates {
  localNodeId: string
  nodeIdentities: Record<string, { friendlyName: string | null }>
}

/** What people call the node; its id when it has no name or is gone. */
export function nameOf ({ nodeIdentities }: SeenState, nodeId: string): string {
  return plain(nodeIdentities[nodeId]?.friendlyName ?? nodeId)
}

/** `1 instance`, `2 instances`. */
export const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`
