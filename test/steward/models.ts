/** Scenarios with models that are stopped, too large, never placed, do not start, or wait for a lost node. */
import { askWithin, homeOf, instance, instancesOf, openFrames, place, placeOn, removing,
  view } from '../node/instances-kit.js'
import { until } from '../node/kit.js'
import { runnersOf } from '../node/proc.js'
import { runAt } from './harness.js'

import { answers, chainAt, lostNode, placed, removeAll, startRig, type Rig } from './rig.js'
import { group, type Cause, type Fault, type ExpectedRemedy, type Scenario } from './types.js'

const VOICE = 'acme/voice'
const TINY = 'acme/tiny'
const READER = 'acme/reader'

/** Expects the remedy `svc place MODEL`, after which the model must answer at every running node. */
const placing = (rig: Rig, model: string, after: () => Promise<void> = async () => {}): ExpectedRemedy => ({
  command: new RegExp(`svc place ${model}`),
  holds: async () => { await answers(rig.up(), model); await after() }
})

const about = (model: string, codes: string[], says: RegExp): Cause => ({ codes, names: [model], says })

/** Expects `svc stop` or `svc place`: `before` fixes the cause, then the model is placed again. */
const anew = (rig: Rig, model: string, before: () => void = () => {}): ExpectedRemedy => ({
  command: /svc (stop|place)/,
  run: async () => {
    before()
    await removeAll(rig, model)
    await runAt(rig.n(1), `svc place ${model}`)
  },
  holds: async () => { await answers(rig.members, model) }
})

/** Returns a function that counts the model's failures since this call. */
async function newFailures (rig: Rig, model: string): Promise<() => Promise<number>> {
  const ids = async (): Promise<string[]> => (await view(rig.n(1).node)).instanceFailures
    .filter(({ modelId }) => modelId === model).map(({ instanceId }) => instanceId)
  const before = new Set(await ids())
  return async () => (await ids()).filter((id) => !before.has(id)).length
}

const scenarios: Scenario<Rig>[] = [
  {
    name: 'a model was never placed',
    break: async (rig) => {
      for (const { node } of rig.members) {
        await until('the placed instances to be listed', async () =>
          (await askWithin(node, `/models/${VOICE}/availability`)).text
            .includes('it is not placed on any node'))
      }
      return { at: rig.members, repair: async () => { await removeAll(rig, VOICE) },
        ask: ['why does acme/voice not answer?', 'acme/voice says no_instance, what do I do',
          'acme/voise silent'],
        truth: { kind: 'fault', causes: [about(VOICE, ['not_placed', 'no_instance'],
          /not placed|nobody placed|no instance/i)] },
        mend: placing(rig, VOICE) }
    }
  },
  {
    name: 'healthy: a model that answers',
    break: async (rig) => {
      if ((await instancesOf(rig.n(1).node, VOICE)).length === 0) await place(rig.n(1).node, VOICE)
      await answers(rig.members, VOICE)
      return { at: rig.members, truth: { kind: 'healthy' },
        ask: ['does acme/voice work?', 'why does acme/voice not answer?', 'acme/voice ok?'] }
    }
  },
  {
    name: 'what is running',
    break: async (rig) => {
      const on = homeOf(rig, (await instancesOf(rig.n(1).node, VOICE))[0]!)
      return { at: rig.members, ask: ['what is running?', 'which models are up, and where', 'whats runing'],
        truth: { kind: 'fact', says: [/acme\/voice/, new RegExp(`\\b${on.name}\\b`)] } }
    }
  },
  {
    name: 'an operator stopped the model',
    break: async (rig) => {
      await runAt(rig.n(1), `svc stop ${VOICE} --wait=30 -y`)
      await chainAt(rig.members, VOICE, 'placement')
      return { at: rig.members, repair: async () => { await removeAll(rig, VOICE) },
        ask: ['why does acme/voice not answer any more?', 'acme/voice worked an hour ago and now it does not',
          'acme/voice gone'],
        truth: { kind: 'fault', causes: [about(VOICE, ['model_stopped', 'not_placed'],
          /stopped|removed|not placed/i)] },
        mend: placing(rig, VOICE, async () => { await removeAll(rig, VOICE) }) }
    }
  },
  {
    name: 'a model is being stopped while a request is open',
    break: async (rig) => {
      const id = await placeOn(rig, rig.n(2), TINY)
      const opened = await openFrames(rig.n(2).node, TINY)
      await removing(rig.n(1).node, id, '?drain_seconds=3000')
      await chainAt(rig.members, TINY, 'placement')
      const repair = async (): Promise<void> => { opened.leave(); await removeAll(rig, TINY) }
      return { at: rig.members, repair,
        ask: ['why does acme/tiny take no new requests?', 'what is happening to acme/tiny',
          'acme/tiny draining?'],
        truth: { kind: 'fault', causes: [about(TINY, ['draining', 'model_draining', 'model_stopped'],
          /stopp|drain/i)] },
        mend: placing(rig, TINY, repair) }
    }
  },
  {
    name: 'a model that nobody knows',
    break: async (rig) => ({
      at: rig.members,
      ask: ['why does zebra/music not answer?', 'I want to use zebra/music but get model_unknown',
        'zebra/music?'],
      truth: { kind: 'fault', causes: [about('zebra/music', ['model_unknown'],
        /no model|not known|unknown|nobody/i)] },
      mend: { command: /svc pull zebra\/music/, run: async () => {},
        holds: async () => { await rig.agreed() } }
    })
  },
  {
    name: 'the runner ends at every start, on every node',
    break: async (rig) => await notStarting(rig, 'exit')
  },
  {
    name: 'the runner hangs in its warmup',
    break: async (rig) => await notStarting(rig, 'stuck')
  },
  {
    name: 'a runner was killed too often, and its model may go nowhere else',
    break: async (rig) => {
      await placeOn(rig, rig.n(2), TINY)
      const failures = await newFailures(rig, TINY)
      const killed = new Set<number>()
      await until('it to be given up', async () => {
        for (const pid of runnersOf(rig.n(2).node.pid)) {
          if (killed.has(pid)) continue
          killed.add(pid)
          process.kill(pid, 'SIGKILL')
        }
        return await failures() > 0
      })
      await chainAt(rig.members, TINY, 'runner')
      return { at: rig.members, repair: async () => { await removeAll(rig, TINY) },
        ask: ['why is acme/tiny down?', 'acme/tiny fails all the time, what is the reason',
          'acme/tiny dead why'],
        truth: { kind: 'fault', causes: [about(TINY, ['runner_failed', 'instance_failed'],
          /given up|failed|runner/i)] },
        mend: { ...anew(rig, TINY), holds: async () => {
          await answers(rig.members,
            TINY); await removeAll(rig, TINY)
        } } }
    }
  },
  {
    name: 'the node of a model died, and it runs elsewhere now',
    break: async (rig) => {
      const { master } = await rig.agreed()
      const id = await place(master.node, READER, { excluded_nodes: [master.name] })
      const home = homeOf(rig, await instance(master.node, id))
      await home.kill()
      const rest = rig.members.filter((m) => m !== home)
      await until('another instance', async () => (await instancesOf(master.node, READER)).some((ring) =>
        ring.instanceId !== id))
      await answers(rest, READER)
      const back = async (): Promise<void> => {
        if (!home.up) await home.start()
        await rig.agreed()
        await removeAll(rig, READER)
      }
      return { at: rest, repair: back,
        ask: ['why was acme/reader away a moment ago?', 'what happened to acme/reader',
          'why did acme/reader move'],
        truth: { kind: 'fault', causes: lostNode(home.name) },
        mend: { command: /svc up/, run: async () => { await home.start() }, holds: back } }
    }
  },
  {
    name: 'the node of a model died, and no other may have it',
    break: async (rig) => {
      const { master, others: [home] } = await rig.agreed()
      await placeOn(rig, home!, READER)
      await home!.kill()
      const rest = rig.members.filter((m) => m !== home)
      await chainAt(rest, READER, 'placement')
      const back = async (): Promise<void> => {
        if (!home!.up) await home!.start()
        await rig.agreed()
        await answers([master], READER)
        await removeAll(rig, READER)
      }
      return { at: rest, repair: back,
        ask: ['why does acme/reader not answer?', 'acme/reader is waiting for what?', 'acme/reader waits??'],
        truth: { kind: 'fault', causes: [{ codes: ['node_lost', 'waiting', 'model_waiting', 'not_placed'],
          names: [READER],
          says: /lost|waits/i }, ...lostNode(home!.name)] },
        mend: { command: /svc up/, run: async () => { await home!.start() }, holds: back } }
    }
  },
  {
    name: 'a node is lost, and a model was stopped: asked about the model',
    break: async (rig) => {
      const { master, others: [home] } = await rig.agreed()
      await placeOn(rig, master, VOICE)
      await home!.kill()
      const rest = rig.members.filter((m) => m !== home)
      await rig.agreed({ on: rest, live: 2 })
      await runAt(master, `svc stop ${VOICE} --wait=30 -y`)
      await chainAt(rest, VOICE, 'placement')
      const back = async (): Promise<void> => {
        if (!home!.up) await home!.start()
        await rig.agreed()
        await removeAll(rig, VOICE)
      }
      return { at: rest, repair: back,
        ask: ['why does acme/voice not answer?', 'acme/voice stopped working, is it the lost node?',
          'acme/voice broken'],
        truth: { kind: 'fault', causes: [about(VOICE, ['model_stopped', 'not_placed'],
          /stopped|not placed/i)] },
        mend: placing(rig, VOICE, back) }
    }
  },
  {
    name: 'a node is lost, and a runner was given up: asked about everything',
    break: async (rig) => {
      const fault = await notStarting(rig, 'exit')
      const [instance] = await instancesOf(rig.members[0]!.node, TINY)
      const { others } = await rig.agreed()
      const home = others.find((one) => one !== homeOf(rig, instance!))
      await home!.kill()
      const rest = rig.members.filter((m) => m !== home)
      await rig.agreed({ on: rest, live: 2 })
      const back = async (): Promise<void> => {
        if (!home!.up) await home!.start()
        await rig.agreed()
        await fault.repair!()
      }
      return { at: rest, repair: back, ask: ['what is wrong?', 'list everything that is broken', 'problems?'],
        truth: { kind: 'fault', causes: [...lostNode(home!.name),
          { codes: ['runner_failed', 'instance_failed'],
            names: [TINY] }] },
        mend: { command: /svc up/, run: back, holds: async () => await rig.agreed() } }
    }
  },
  {
    name: 'a model that is too large',
    break: async (rig) => ({
      at: rig.members,
      ask: ['why can acme/huge not be placed?', 'why does acme/huge not run', 'acme/huge doesnt fit?'],
      truth: { kind: 'fault', causes: [about('acme/huge', ['does_not_fit', 'insufficient_memory'],
        /fit|memory|GiB|TiB|too large|room/i)] }
    })
  },
  {
    name: 'can I run it here: no',
    break: async (rig) => ({
      at: rig.members, ask: ['can I run acme/huge here?', 'is there enough memory for acme/huge',
        'acme/huge possible?'],
      truth: { kind: 'fact', says: [/acme\/huge/, /not fit|cannot|no\b|too large|missing|needs/i, /[GT]iB/] }
    })
  },
  {
    name: 'can I run it here: yes',
    break: async (rig) => ({
      at: rig.members, ask: ['can I run acme/tiny here?', 'would acme/tiny fit on this cluster',
        'acme/tiny posible?'],
      truth: { kind: 'fact', says: [/acme\/tiny/, /fits|can be placed|can run|yes|would go/i] }
    })
  },
  {
    name: 'what would happen if a node died',
    break: async (rig) => {
      const one = await placed(rig, rig.n(2), TINY)
      return { at: rig.members, repair: one.remove,
        ask: ['what would happen if n2 died?', 'what do we lose when n2 goes down', 'n2 dies what then'],
        truth: { kind: 'fact', says: [/\bn2\b/, /acme\/tiny/] } }
    }
  }
]

/** A model whose runners do not start, after the node has given up retrying. */
async function notStarting (rig: Rig, how: 'exit' | 'stuck'): Promise<Fault> {
  const failures = await newFailures(rig, TINY)
  rig.weak.starts(TINY, how)
  await runAt(rig.n(1), `svc place ${TINY} --exclude n3 --no-wait`)
  await until('it to be given up', async () => await failures() >= 2, { seconds: 120 })
  await chainAt(rig.members, TINY, 'runner')
  const mend = anew(rig, TINY, () => { rig.weak.starts(TINY, 'fine') })
  const holds = async (): Promise<void> => { await mend.holds(); await removeAll(rig, TINY) }
  return { at: rig.members, mend: { ...mend, holds },
    repair: async () => { rig.weak.starts(TINY, 'fine'); await removeAll(rig, TINY) },
    ask: ['why does acme/tiny not start?', 'acme/tiny was placed but never gets ready',
      'acme/tiny wont load'],
    truth: { kind: 'fault', causes: [about(TINY, ['runner_failed', 'instance_failed', 'warmup_timeout'],
      /given up|failed|warmup|ended|exit/i)] } }
}

export const models = group<Rig>({
  name: 'models', scenarios,
  needs: async (t) => await startRig(t, { nodes: 3, env: { SVC_WARMUP_DEADLINE_SECONDS: '2' } })
})
