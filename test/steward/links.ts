/** Scenarios with cut or slow links and skewed clocks; nodes behind proxies. */
import { skewed, type Member } from '../node/cluster-kit.js'
import { until } from '../node/kit.js'
import { follower, live, lostNode, stopGently, allLinked, type Rig } from './rig.js'
import type { Test } from 'tap'
import type { Fault, Scenario } from './types.js'

const HOUR_MS = 3_600_000

export const links: readonly Scenario<Rig>[] = [
  {
    name: 'the link between two nodes is cut',
    break: async (rig) => {
      const { master, others: [member] } = await rig.agreed()
      rig.cut(master, member)
      await until('the cut to be seen', async () => (await master.state())?.cluster.partition === true)
      const names = [master.name, member!.name]
      const heal = async (): Promise<unknown> => { rig.heal(master, member); return await allLinked(rig) }
      return {
        at: [master], repair: heal,
        ask: ['is something wrong with the network?', `can ${names[0]!} and ${names[1]!} reach each other?`,
          'partition??'],
        truth: { kind: 'fault',
          causes: [{ codes: ['partition', 'link_cut', 'link_lost', 'member_unreachable', 'node_lost'],
            names: [member!.name], says: /not reach|cut|partition|not see|link/i }] },
        mend: { command: /svc doctor|svc members|firewall|port|network/i,
          run: async () => { rig.heal(master, member) },
          holds: async () => await allLinked(rig) }
      }
    }
  },
  {
    name: 'a node is cut off from all others, asked at the others',
    break: async (rig) => {
      const member = await follower(rig)
      rig.cut(member)
      const rest = rig.members.filter((m) => m !== member)
      await rig.agreed({ on: rest, live: 2 })
      return {
        at: rest, truth: { kind: 'fault', causes: lostNode(member.name) },
        ask: ['what is the matter with the cluster?', `why is ${member.name} not live?`,
          `${member.name} missing, why`],
        mend: { command: /svc up|svc doctor/, run: async () => { rig.heal(member) },
          holds: async () => await allLinked(rig) },
        repair: async () => { rig.heal(member); await allLinked(rig) }
      }
    }
  },
  {
    name: 'a node is cut off from all others, asked at that node',
    break: async (rig) => {
      const member = await follower(rig)
      rig.cut(member)
      await live(member, 1)
      const rest = rig.members.filter((m) => m !== member)
      return {
        at: [member], truth: { kind: 'fault', causes: lostNode(...rest.map(({ name }) => name)) },
        ask: ['what is wrong here?', 'why do I see no other node', 'wheres everybody'],
        mend: { command: /svc up|svc doctor/, run: async () => { rig.heal(member) },
          holds: async () => await allLinked(rig) },
        repair: async () => { rig.heal(member); await allLinked(rig) }
      }
    }
  },
  {
    name: 'a slow link',
    break: async (rig) => {
      const { master, others: [member] } = await rig.agreed()
      const [a, b] = [master.proxy!, member!.proxy!]
      a.shape({ latencyMs: 150 }, 'both', member!.name)
      b.shape({ latencyMs: 150 }, 'both', master.name)
      await until('a long round trip', async () => ((await rttOf(master, member!)) ?? 0) > 200)
      const heal = async (): Promise<unknown> => {
        a.heal(member!.name); b.heal(master.name)
        return await until('a short round trip', async () => ((await rttOf(master, member!)) ?? 999) < 100)
      }
      return {
        at: [master], repair: heal,
        ask: ['why is everything so slow?', `how is the link between ${master.name} and ${member!.name}?`,
          'network slow?'],
        truth: { kind: 'fault', causes: [{ codes: ['link_slow'], names: [member!.name], says: /slow|ms/ }] },
        mend: { command: /svc doctor|svc members|network|cable|link/i, run: async () => { await heal() },
          holds: heal }
      }
    }
  },
  {
    name: 'a clock is an hour off',
    break: async (rig, t) => await clockOff(rig, t)
  }
]

async function rttOf (from: Member, to: Member): Promise<number | undefined> {
  const { members } = (await from.ask('/cluster/members'))!.json as { members: { name: string,
    rttMs: number | null }[] }
  return members.find(({ name }) => name === to.name)?.rttMs ?? undefined
}

async function clockOff (rig: Rig, t: Test): Promise<Fault> {
  const member = await follower(rig)
  const clock = skewed(t, 0)
  await stopGently(member)
  await member.start({ env: clock.env })
  await rig.agreed()
  clock.set(HOUR_MS)
  const dateOf = async (): Promise<number> => {
    const { lastSeen, localNodeId } = (await member.state())! as unknown as {
      lastSeen: Record<string, string>, localNodeId: string }
    return Date.parse(lastSeen[localNodeId]!)
  }
  await until('its clock to jump', async () => await dateOf() > Date.now() + HOUR_MS / 2)
  const back = async (): Promise<unknown> => {
    clock.set(0)
    return await until('its clock to be right', async () => await dateOf() < Date.now() + HOUR_MS / 2)
  }
  return {
    at: rig.members, repair: back,
    ask: ['are the clocks right?', 'the times in the logs make no sense, why?',
      'clock of some node is wrong'],
    truth: { kind: 'fault', causes: [{ codes: ['clock_skew'], names: [member.name], says: /clock|ahead/i }] },
    mend: { command: /timedatectl|ntp/i, run: async () => { await back() },
      holds: async () => await rig.agreed() }
  }
}
