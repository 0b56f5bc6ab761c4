/**
 * The quick scenarios of test/steward: every question is answered correctly, and the command in the answer
 * fixes the fault. `npm run test:steward` runs all scenarios.
 */
import t, { type Test } from 'tap'
import { play } from '../steward/harness.js'
import { majority } from '../steward/majority.js'
import { models } from '../steward/models.js'
import { nodes } from '../steward/nodes.js'
import { startRig } from '../steward/rig.js'
import { solo } from '../steward/solo.js'
import type { Group } from '../steward/types.js'

/** Plays these scenarios of a group in sequence. */
async function allRight (t: Test, of: Group, rig: unknown, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const scenario = of.scenarios.find((one) => one.name === name)
    if (scenario === undefined) throw new Error(`test/steward has no scenario "${name}" of ${of.name}`)
    const { kind, verdicts, ran, trouble, transcript } = await play(t, of.name, scenario, rig)
    t.match({ verdicts, trouble, ran }, {
      verdicts: ['right', 'right', 'right'], trouble: null, ran: kind === 'fault' ? String : null
    }, name, { transcript })
  }
}

t.test('three nodes', async (t) => {
  // The cut-off part must lose its majority quorum; the heartbeat is long so that no other node seems lost.
  const rig = await startRig(t, { nodes: 3, proxied: true, quorum: 'majority' })
  await allRight(t, nodes, rig, ['healthy: three fresh nodes', 'a node is killed', 'the master is killed'])
  await allRight(t, majority, rig, ['the smaller half is cut off, asked there'])
  await allRight(t, models, rig, ['healthy: a model that answers', 'an operator stopped the model',
    'the runner ends at every start, on every node'])
})

t.test('one node', async (t) => {
  await allRight(t, solo, await solo.needs(t), ['the plugin event-log is off'])
})
