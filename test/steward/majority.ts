/** Scenarios on three nodes with a majority quorum. */
import { until } from '../node/kit.js'

import { lostNode, startRig, type Rig } from './rig.js'
import { group, type Cause, type Scenario } from './types.js'
import type { Member } from '../node/cluster-kit.js'

const noQuorum: Cause = { codes: ['no_quorum'], names: [], says: /quorum|majority|too few/i }

const quorumLost = async (at: Member): Promise<unknown> =>
  await until('quorum to be lost', async () => (await at.state())?.cluster.quorum === 'lost')

const scenarios: Scenario<Rig>[] = [
  {
    name: 'healthy: three nodes with a majority',
    break: async (rig) => {
      await rig.agreed()
      return { at: rig.members, ask: ['is the cluster fine?', 'do we have a quorum problem?', 'is sth wrong'],
        truth: { kind: 'healthy' } }
    }
  },
  {
    name: 'two of three are killed',
    break: async (rig) => {
      const { master, others: [a, b] } = await rig.agreed()
      await Promise.all([a!.kill(), b!.kill()])
      await quorumLost(master)
      return {
        at: [master],
        repair: async () => {
          await Promise.all([a!, b!].filter((m) => !m.up).map((m) => m.start()))
          await rig.agreed()
        },
        ask: ['why can I not place anything?', 'what is wrong with the cluster?', 'no_quorum ??'],
        truth: { kind: 'fault', causes: [noQuorum] },
        mend: { command: /svc up/, run: async () => { await a!.start(); await b!.start() },
          holds: async () => await rig.agreed() }
      }
    }
  },
  {
    name: 'the smaller half is cut off, asked there',
    break: async (rig) => {
      const { others: [member] } = await rig.agreed()
      rig.cut(member!)
      await quorumLost(member!)
      const heal = async (): Promise<unknown> => { rig.heal(member!); return await rig.agreed() }
      return {
        at: [member!], repair: heal,
        ask: ['why is there no master?', 'what is the matter here', 'who is mster'],
        truth: { kind: 'fault', causes: [noQuorum] },
        mend: { command: /svc up|svc doctor|svc nodes/, run: async () => { rig.heal(member!) },
          holds: async () => await rig.agreed() }
      }
    }
  },
  {
    name: 'one of three is gone, and two still decide',
    break: async (rig) => {
      const { others: [member] } = await rig.agreed()
      await member!.kill()
      await rig.agreed()
      const back = async (): Promise<unknown> => {
        if (!member!.up) await member!.start()
        return await rig.agreed()
      }
      return {
        at: rig.up(), repair: back,
        ask: ['is something broken?', 'can the cluster still decide?', `${member!.name}?`],
        truth: { kind: 'fault', causes: lostNode(member!.name) },
        mend: { command: /svc up/, run: async () => { await member!.start() },
          holds: async () => await rig.agreed() }
      }
    }
  }
]

export const majority = group<Rig>({
  name: 'majority', scenarios,
  needs: async (t) => await startRig(t, { nodes: 3, proxied: true, quorum: 'majority' })
})
