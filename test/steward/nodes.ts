/** Scenarios with nodes that die, stop, hang, are cut off or do not start; three nodes behind proxies. */
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { ask } from '../node/http.js'
import { svc, until, writeConfig } from '../node/kit.js'
import { links } from './links.js'
import { follower, hasCode, hourMinute, lostNode, placed, startRig, stopGently, allLinked } from './rig.js'
import { group } from './types.js'
import type { Member } from '../node/cluster-kit.js'
import type { Rig } from './rig.js'
import type { Fault, Scenario } from './types.js'

/** Fault of a dead member, whose remedy is a restart on its host. */
async function gone (rig: Rig, member: Member, ask: Fault['ask']): Promise<Fault> {
  const rest = rig.members.filter((m) => m !== member && m.up)
  await rig.agreed({ on: rest, live: rest.length })
  return {
    at: rest, ask, truth: { kind: 'fault', causes: lostNode(member.name) },
    mend: { command: /svc up/, run: async () => { await member.start() },
      holds: async () => await rig.agreed() },
    repair: async () => { if (!member.up) await member.start(); await rig.agreed() }
  }
}

/** A healthy cluster and three ways to ask about its state. */
const well = (rig: Rig, ask: Fault['ask']): Fault => ({ at: rig.members, ask, truth: { kind: 'healthy' } })

const scenarios: Scenario<Rig>[] = [
  {
    name: 'healthy: three fresh nodes',
    break: async (rig) => {
      await rig.agreed()
      return well(rig, ['is everything all right?', 'what is wrong with the cluster', 'anythign broken'])
    }
  },
  {
    name: 'a node is killed',
    break: async (rig) => {
      const member = await follower(rig)
      await member.kill()
      return await gone(rig, member, ['what is wrong?', `why does ${member.name} not answer any more`,
        `where did ${member.name} go`])
    }
  },
  {
    name: 'a node is stopped in order',
    break: async (rig) => {
      const member = await follower(rig)
      await stopGently(member)
      return await gone(rig, member, [`is ${member.name} still there?`, 'why are there only two nodes?',
        'whats up with the nods'])
    }
  },
  {
    name: 'a node stands still (SIGSTOP)',
    break: async (rig) => {
      const member = await follower(rig)
      member.pause()
      const rest = rig.members.filter((m) => m !== member)
      await rig.agreed({ on: rest, live: 2 })
      const repair = async (): Promise<void> => { member.cont(); await rig.agreed() }
      return {
        at: rest, truth: { kind: 'fault', causes: lostNode(member.name) }, repair,
        ask: [`what happened to ${member.name}?`, 'one node does not react, which one is it and why',
          `${member.name} dead?`],
        mend: { command: /svc up|svc doctor/, run: async () => { member.cont() },
          holds: async () => await rig.agreed() }
      }
    }
  },
  {
    name: 'the master is killed',
    break: async (rig) => {
      const { master, sessionId } = await rig.agreed()
      await master.kill()
      await rig.agreed({ not: sessionId })
      return await gone(rig, master, ['why did the master change?', 'is something wrong with the cluster?',
        'what broke just now'])
    }
  },
  {
    name: 'healthy: after a failover that has ended',
    break: async (rig) => {
      await rig.agreed()
      return well(rig, ['is the cluster healthy again?', 'is anything still broken', 'all ok?'])
    }
  },
  {
    name: 'svc.yaml of a node has an unknown key: it does not start',
    break: async (rig) => {
      const member = await follower(rig)
      await stopGently(member)
      writeConfig(member.home, { ...member.config(), plugin: {} })
      const { status } = await svc(['up', '--home', member.home])
      if (status !== 1) throw new Error(`the node started: ${status}`)
      return await gone(rig, member, [`why does ${member.name} not come up?`,
        `I restarted ${member.name} and it is not back, why?`, `${member.name} wont start`])
    }
  },
  {
    name: 'the port of a node is taken: it does not start',
    break: async (rig) => {
      const member = await follower(rig)
      await stopGently(member)
      const server = createServer()
      await new Promise<void>((resolve) => { server.listen(member.node.port, '127.0.0.1', resolve) })
      const { status } = await svc(['up', '--home', member.home, '--port', String(member.node.port)])
      if (status !== 1) throw new Error(`the node started: ${status}`)
      await new Promise((resolve) => server.close(resolve))
      return await gone(rig, member, ['which node is missing?', `what do I do to get ${member.name} back`,
        `${member.name} offline`])
    }
  },
  {
    name: 'a changed setting waits for a restart',
    break: async (rig) => {
      const member = await follower(rig)
      const { revision } = (await member.ask('/config'))!.json as { revision: string }
      const set = await member.ask('/config',
        { method: 'PUT', body: { revision, set: { 'limits.calls_at_once': 9 } } })
      if (set?.status !== 200) throw new Error(set?.text)
      for (const each of rig.members) await hasCode(each, member.node.nodeId, 'restart_needed')
      const before = member.node.nodeId
      const restart = async (): Promise<void> => {
        await member.ask('/admin/restart', { method: 'POST' })
        await until('the restart', async () => {
          const state = await member.state()
          return state !== undefined && state.localNodeId !== before
        })
        await allLinked(rig)
      }
      return {
        at: rig.members, repair: restart,
        ask: ['does any node need a restart?', `I changed a setting on ${member.name} and nothing happens`,
          'setting not appleid'],
        truth: { kind: 'fault', causes: [{ codes: ['restart_needed'], names: [member.name],
          says: /restart/i }] },
        mend: { command: /restart/i, run: restart,
          holds: async () => {
            await hasCode(rig.n(1), (await member.state())!.localNodeId, 'restart_needed',
              false)
          } }
      }
    }
  },
  {
    name: 'healthy: after a rolling restart',
    break: async (rig) => {
      for (const member of rig.members) {
        await stopGently(member)
        await rig.agreed()
        await member.start()
        await rig.agreed()
      }
      return well(rig, ['did the rolling restart go well?', 'is there a problem with any of the nodes?',
        'status?'])
    }
  },
  {
    name: 'healthy: old failures in the log',
    break: async (rig) => {
      const one = await placed(rig, rig.n(2), 'acme/tiny')
      const [pid] = rig.n(2).node.runners()
      process.kill(pid!, 'SIGKILL')
      await until('another runner', () => {
        const [now] = rig.n(2).node.runners()
        return now !== undefined && now !== pid
      })
      await until('it is ready',
        async () => (await rig.n(1).ask('/models/acme/tiny/availability'))?.json !== undefined &&
          ((await rig.n(1).ask('/models/acme/tiny/availability'))!.json as { available: boolean }).available)
      return { ...well(rig, ['is anything wrong right now?', 'does acme/tiny work?', 'any problms']),
        repair: one.remove }
    }
  },
  {
    name: 'who is master, and since when',
    break: async (rig) => {
      const { master } = await rig.agreed()
      const { events } = (await ask(master.node, '/events?kinds=MasterElected&limit=1000')).json as {
        events: { at: string }[] }
      const since = hourMinute(Date.parse(events.at(-1)!.at))
      return { at: rig.members, ask: ['who is master and since when?',
        'which node is the master, and how long has it been',
        'master??'],
      truth: { kind: 'fact', says: [new RegExp(`\\b${master.name}\\b`), new RegExp(since)] } }
    }
  },
  {
    name: 'what happened at a time',
    break: async (rig) => {
      const member = await follower(rig)
      const at = Date.now()
      await member.kill()
      await rig.agreed()
      await member.start()
      await rig.agreed()
      const when = hourMinute(at)
      return { at: rig.members, ask: [`what happened around ${when}?`, `what went on at ${when} today`,
        `${when}?`],
      truth: { kind: 'fact',
        says: [new RegExp(`\\b${member.name}\\b.*(lost|gone|left|died|closed|missed|sign of life)`,
          'i')] } }
    }
  },
  {
    name: 'two nodes of one name',
    break: async (rig) => {
      const { others: [a, b] } = await rig.agreed()
      await stopGently(b!)
      await startAs(b!, a!.name)
      await rig.agreed()
      const back = async (): Promise<unknown> => {
        await stopGently(b!)
        await b!.start()
        return await allLinked(rig)
      }
      return {
        at: rig.members, repair: back,
        ask: [`why is ${a!.name} listed twice?`, 'do two nodes have the same name?',
          `${a!.name} twice in the list`],
        truth: { kind: 'fault', causes: [{ codes: ['name_twice', 'names_twice', 'same_name'],
          names: [a!.name],
          says: /two|twice|both|same name/i }] },
        mend: { command: /svc config set name/, run: async () => { await back() },
          holds: async () => await allLinked(rig) }
      }
    }
  },
  {
    name: 'a node was removed from the cluster',
    break: async (rig) => {
      const { master, others: [member, other] } = await rig.agreed()
      const removed = await svc(['members', 'remove', member!.name, '--home', master.home, '--url',
        master.node.url])
      if (removed.status !== 0) throw new Error(removed.stderr)
      const rest = [master, other!]
      await rig.agreed({ on: rest, live: 2 })
      const back = async (): Promise<unknown> => {
        if (member!.up) await member!.kill()
        rmSync(member!.home, { recursive: true, force: true })
        const { token } = (await rig.joinToken(master)).json as { token: string }
        await member!.start({ args: ['--join', token] })
        return await rig.agreed()
      }
      return {
        at: rest, repair: back,
        ask: [`why is ${member!.name} not in the cluster any more?`, `who removed ${member!.name}?`,
          `${member!.name} vanished`],
        truth: { kind: 'fault', causes: [{ codes: ['node_removed'], names: [member!.name],
          says: /removed/i }] },
        mend: { command: /svc join-token/, run: async () => { await back() },
          holds: async () => await rig.agreed() }
      }
    }
  }
]

/** Starts a second node under a name that a running node has. */
async function startAs (member: Member, name: string): Promise<void> {
  await member.start({ args: ['--name', name] })
}

export const nodes = group<Rig>({
  name: 'nodes', scenarios: [...scenarios, ...links],
  needs: async (t) => await startRig(t, { nodes: 3, proxied: true })
})
