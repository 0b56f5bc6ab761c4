import t, { type Test } from 'tap'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { startHub } from '../../plugins/staging/test/hub-kit.js'
import { startCluster, type Cluster, type Member, type State } from './cluster-kit.js'
import { askWithin, nodesOf, place, placeOn, view } from './instances-kit.js'
import { figure, folder, pick, until } from './kit.js'
import { mixedLoad, describeAttempt, wrong, type Outage } from './rolling-kit.js'
import { voiceFolder } from './staging-kit.js'

/** A voice that exists only in this cluster's store. */
const PRIVATE = 'local/board-room-voice'
/** Expected number of instances of each model. */
const WANTED: readonly [string, number][] = [['svc/voice-en', 2], ['svc/guide', 2], [PRIVATE, 1]]
const ROUNDS = pick(1, 4)
const CLIENTS = pick(1, 3)

/** Waits until every node lists the expected instances, ready and on different nodes. */
async function inPlace (cluster: Cluster): Promise<void> {
  let last: unknown
  await until('every instance to be ready', async () => {
    const views = await Promise.all(cluster.up().map(({ node }) => view(node)))
    last = views.map(({ instances, runners, instanceFailures }, n) => ({ node: cluster.up()[n]!.name,
      instances: Object.values(instances).map(({ RingInstance: { instanceId, shardAssignments, drainUntil,
        placement } }) =>
        [instanceId, shardAssignments.modelId, shardAssignments.nodeToRunner, drainUntil,
          placement?.replaces]),
      runners, instanceFailures }))
    const live = new Set(views.map(({ localNodeId }) => localNodeId))
    return views.every(({ instances, runners }) => WANTED.every(([model, count]) => {
      const rings = Object.values(instances).map(({ RingInstance: ring }) => ring)
        .filter(({ shardAssignments }) => shardAssignments.modelId === model)
      const ready = rings.filter((ring) => ring.drainUntil === undefined &&
        nodesOf(ring).every((nodeId) => live.has(nodeId)) &&
        Object.values(ring.shardAssignments.nodeToRunner).every((runnerId) =>
          ['RunnerReady', 'RunnerRunning'].includes(Object.keys(runners[runnerId] ?? {})[0] ?? 'none')))
      return rings.length === count && ready.length === count &&
        new Set(ready.flatMap(nodesOf)).size === count
    }))
  }, { seconds: 60, everyMs: 100 }).catch(async (error: Error) => {
    const state = await cluster.up()[0]!.state() as State
    throw new Error(`${error.message}; they say ${JSON.stringify(last, null, 1)} ` +
      `${JSON.stringify([state['waiting'], state['waitingInstances'], state.nodeHealth])}`, { cause: error })
  })
}

/**
 * Stops or kills a node and starts it again (with `atOnce`, before the other nodes miss it); then waits until
 * all models are back in place.
 */
async function outage (cluster: Cluster, member: Member, how: Outage['how'], atOnce = false):
Promise<Outage> {
  const { master } = await cluster.agreed({ seconds: 60 })
  const from = performance.now()
  const phases: number[] = []
  const phase = (): void => { phases.push(Math.round((performance.now() - from) / 100) / 10) }
  if (how === 'kill') await member.kill()
  else {
    process.kill(member.node.child.pid, 'SIGTERM')
    await member.node.child.ended
    await member.kill()
  }
  phase()
  if (how === 'kill' && !atOnce) await cluster.agreed({ seconds: 60 })
  phase()
  await member.start()
  phase()
  await cluster.agreed({ seconds: 60 })
  phase()
  await inPlace(cluster)
  phase()
  return { member, how, master: member === master, from, to: performance.now(), phases }
}

// Time for four nodes that stop and start one after the other on a machine that may have other load.
t.setTimeout(pick(300_000, 3_600_000))

t.test('a rolling restart and a failover fail no request that another node can serve', async (t: Test) => {
  const hub = await startHub({ models: {} })
  t.teardown(() => hub.close())
  const store = join(folder(t), 'store')
  const cluster = await startCluster(t, {
    config: { plugins: { placement: { autoplace: [] } } },
    configOf: (number) => ({ model_store: {
      hub: { enabled: true, url: hub.url, redirect_hosts: [hub.cdnHost] },
      ...number === 1 ? { store_path: store } : {}
    } })
  })
  const [first] = cluster.members as [Member, Member, Member]
  await imported(cluster, first)
  await Promise.all(WANTED.flatMap(([model, count]) => cluster.members.slice(0, count).map(async (member) =>
    await (model === PRIVATE ? place(first.node, model) : placeOn(cluster, member, model)))))
  await inPlace(cluster)

  const load = mixedLoad(cluster.members, CLIENTS)
  await until('answers of every kind', () => load.done() >= 12)
  const outages: Outage[] = []
  for (let round = 0; round < ROUNDS; round++) {
    for (const member of cluster.members) outages.push(await outage(cluster, member, 'restart'))
    const { master } = await cluster.agreed({ seconds: 60 })
    outages.push(await outage(cluster, master, 'kill', round % 2 === 1))
  }
  await load.stop()

  const bad = wrong(load.attempts, outages)
  t.strictSame(bad.slice(0, 10).map(describeAttempt), [], `${bad.length} of ${load.attempts.length} attempts`)
  t.strictSame(load.given, [], 'every request got its answer in the end')
  const heard = decodeURIComponent(hub.requests.map(({ url }) => url).join(' '))
  t.notMatch(heard, /board-room/, 'the hub never heard of the private voice')
  const failed = load.attempts.filter(({ outcome }) => outcome !== 'ok')
  figure(t, 'rolling', t.passing(), { rounds: ROUNDS, answers: load.done(), attempts: load.attempts.length,
    refused: counted(failed.map(({ outcome }) => outcome)),
    goneAgreedStartedAgreedInPlace: outages.map(({ how, member, phases }) =>
      `${member.name} ${how} ${phases.join(' ')}`) })
})

function counted (words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}

/** Imports the private voice from a folder into a node's store. */
async function imported (cluster: Cluster, host: Member): Promise<void> {
  const source = pathToFileURL(voiceFolder(t)).href
  await until('the store to accept models', async () =>
    (await askWithin(host.node, `/store/models/${PRIVATE}/download`, { body: { source } })).status === 200)
  await until('the voice to be there', async () => {
    const { json } = await askWithin(host.node, `/store/models/${PRIVATE}/download/status`)
    const { status, error } = json as { status: string, error: string | null }
    if (status === 'failed') throw new Error(`the import failed: ${error}`)
    return status === 'complete'
  })
  for (const { node } of cluster.up()) {
    await until('the voice to be known', async () => ((await askWithin(node, '/models/copies')).json as {
      copies: { modelId: string }[] }).copies.some(({ modelId }) => modelId === PRIVATE))
  }
}
