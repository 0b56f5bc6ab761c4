import { fail, ok, plain, showBytes, warn } from '../../../kernel/cli/index.js'
import type { Check, Checker } from '../../../kernel/cli/index.js'
import type { ModelState } from './status.js'

/** Less memory than this share of the machine's is little. */
const MEMORY_LITTLE = 0.05

/** Nodes short of memory, and models that are placed and do not answer. */
export default {
  run: async ({ state }) => [...checkPressure(state), ...checkModels(state)]
} satisfies Checker

/** Models that are placed and do not answer, or wait for a place. Pure, as all here. */
export function checkModels (state: ModelState): Check[] {
  const checks = Object.values(state.instances ?? {}).flatMap((tagged) => {
    const { modelId, nodeToRunner } = assignedIn(tagged)
    return Object.entries(nodeToRunner).map(([nodeId, runnerId]) =>
      checkRank(state, { modelId, nodeId, kind: kindOf(state.runners?.[runnerId]) }))
  })
  const waiting = Object.values(state.waitingInstances ?? {}).map(({ modelId }) =>
    warn(`model ${plain(modelId)}`, 'waits for a place', `What keeps it: svc why ${plain(modelId)}`))
  const found = [...checks.filter((check) => check.result !== 'ok'), ...waiting]
  const count = Object.keys(state.instances ?? {}).length
  return found.length > 0 || count === 0 ? found : [ok('models', `${count} placed, all runners ready`)]
}

interface Assigned { modelId: string, nodeToRunner: Record<string, string> }

function assignedIn (tagged: Record<string, unknown>): Assigned {
  const [instance] = Object.values(tagged) as { shardAssignments?: object }[]
  return { modelId: 'a model', nodeToRunner: {}, ...instance?.shardAssignments }
}

const kindOf = (status: Record<string, unknown> | undefined): string =>
  Object.keys(status ?? {})[0] ?? 'no runner'

function checkRank (state: ModelState, rank: { modelId: string, nodeId: string, kind: string }): Check {
  const model = plain(rank.modelId)
  const name = `model ${model}`
  const message = `${rank.kind} on ${nameIn(state, rank.nodeId)}`
  if (rank.kind === 'RunnerReady' || rank.kind === 'RunnerRunning') return ok(name, message)
  const make = rank.kind === 'RunnerFailed' ? fail : warn
  return make(name, message, `What keeps it from answering: svc why ${model}`)
}

const nameIn = ({ nodeIdentities }: ModelState, nodeId: string): string =>
  plain(nodeIdentities[nodeId]?.friendlyName ?? nodeId)

/** Nodes that are short of memory. */
export function checkPressure (state: ModelState): Check[] {
  return Object.entries(state.nodeMemory ?? {}).flatMap(([nodeId, memory]) => {
    if (memory === null) return []
    const [free, total] = [memory.ramAvailable.inBytes, memory.ramTotal.inBytes]
    if (free >= total * MEMORY_LITTLE) return []
    const node = plain(state.nodeIdentities[nodeId]?.friendlyName ?? nodeId)
    return [warn(`memory of ${node}`, `${showBytes(free)} free of ${showBytes(total)}`,
      'See what is loaded there and stop what nobody needs: svc ps, svc stop MODEL')]
  })
}
