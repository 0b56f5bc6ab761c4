import { definePlugin, type Plugin } from '../../../kernel/index.js'
import { fakeNode, quickPace, type Answers, type FakeNode } from '../../../kernel/test/cli-helpers.js'
import { createDrain } from '../cli/drain.js'
import { createPlace } from '../cli/place.js'
import { createStop } from '../cli/stop.js'
import { verbs } from '../manifest.js'
import { instanceOf } from '../place/instance.js'
import { changed, type Instance } from '../../runners/service.js'
import { card, stateOf, type StateView } from './kit.js'
import type { WaitClock } from '../../../kernel/cli/index.js'
import type { SeenState } from '../cli/state.js'

export { quickPace, sendError, sendJson } from '../../../kernel/test/cli-helpers.js'

function placementVerbs (pace: WaitClock = quickPace()): Plugin {
  const paced = {
    ...verbs,
    place: { ...verbs.place, load: async () => ({ default: createPlace(pace) }) },
    drain: { ...verbs.drain, load: async () => ({ default: createDrain(pace) }) },
    stop: { ...verbs.stop, load: async () => ({ default: createStop(pace) }) }
  }
  return definePlugin({
    name: 'placement-verbs', version: '1.0.0', kernel: '^1.0.0', summary: 'The verbs.', verbs: paced
  }, () => ({}))
}

export const nodeOf = async (
  t: { teardown (fn: () => unknown): void }, answers: Answers
): Promise<FakeNode> =>
  await fakeNode(t, answers, (pace) => [placementVerbs(pace)])

export function seenState (): SeenState & StateView {
  return {
    ...stateOf({ n1: 64, n2: 64 }), localNodeId: 'id-n1',
    nodeIdentities: { 'id-n1': { friendlyName: 'n1' }, 'id-n2': { friendlyName: 'n2' } }
  }
}

export function instanceOn (instanceId: string, modelId: string, nodeIds: string[]): Instance {
  const of = nodeIds.length
  let named = 0
  const ranks = nodeIds.map((nodeId, i) => ({
    nodeId, backend: 'cpu', startLayer: i * 10 / of, endLayer: (i + 1) * 10 / of, shareBytes: 0,
    neededBytes: 0, usableBytes: 0, freeAfterBytes: 0
  }))
  const made = instanceOf(
    { ranks, sharding: 'Pipeline', instanceMeta: 'Ring', contextLength: 4096 }, card(modelId), [],
    () => `${instanceId}-${named++}`)
  return changed(made, { instanceId })
}
