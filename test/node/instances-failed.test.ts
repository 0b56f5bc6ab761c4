import t, { type Test } from 'tap'
import { figure, fixture, pick, secondsSince, sleep, until } from './kit.js'
import {
  answersAt, eventsOf, instancesCluster, instancesOf, placeOn, placing, removing, settled, view, type View
} from './instances-kit.js'
import { refusal } from './http.js'
import type { Cluster } from './cluster-kit.js'

const WARMUP_SECONDS = 2
/** Names of the nodes on which placement tries a model; each node makes its own attempts. */
const TRIED = pick(['n1', 'n2'], ['n1', 'n2', 'n3'])
const EXCLUDED = ['n1', 'n2', 'n3'].filter((name) => !TRIED.includes(name))

/** Failures of a model, as the first member lists them. */
const failuresOf = async (cluster: Cluster, model: string): Promise<View['instanceFailures']> =>
  (await view(cluster.members[0]!.node)).instanceFailures.filter(({ modelId }) => modelId === model)

/** Checks that a model that fails on every node has one failed instance with the causes, and no runner. */
async function givenUp (t: Test, cluster: Cluster, model: string, code: string): Promise<void> {
  const nodes = await until(`${model} to have failed on each node`, async () => {
    const told = await failuresOf(cluster, model)
    const failed = new Set(told.flatMap(({ affectedNodeIds }) => affectedNodeIds))
    return failed.size === TRIED.length && failed
  }, { seconds: 120 })
  const tried = cluster.members.filter(({ name }) => TRIED.includes(name))
  t.strictSame([...nodes].sort(), tried.map(({ node }) => node.nodeId).sort(), 'on none that was excluded')
  const failures = await failuresOf(cluster, model)
  t.strictSame([...new Set(failures.map(({ errorCode }) => errorCode))], [code])
  t.equal(failures.length, TRIED.length, 'once on each node')
  const rings = await instancesOf(cluster.members[0]!.node, model)
  t.equal(rings.length, 1, 'one instance says so')
  t.equal(rings[0]?.placement?.failedOn.length, TRIED.length - 1, 'it was moved')
  const { runners } = await view(cluster.members[0]!.node)
  for (const id of Object.keys(rings[0]?.shardAssignments.runnerToShard ?? {})) {
    t.match(runners[id], { RunnerFailed: { errorMessage: /./ } })
  }
}

t.test('models that cannot start', async (t) => {
  const cluster = await instancesCluster(t, {
    env: { SVC_WARMUP_DEADLINE_SECONDS: String(WARMUP_SECONDS) },
    plugins: { sized: { module: fixture('sized.mjs') } }
  })
  const [first, second] = cluster.members
  const start = performance.now()
  await placeOn(cluster, first!, 'test/b')

  await t.test('more memory than available', async (t) => {
    for (const { node } of cluster.members) {
      const answer = await placing(node, 'test/huge')
      t.match([answer.status, refusal(answer)], [400, { reason: 'insufficient_memory', message: /GiB/ }])
    }
    const forced = await placing(second!.node, 'test/huge', { force: true, wait: true, timeout_seconds: 60 })
    t.match([forced.status, refusal(forced)], [500, { reason: 'instance_failed' }], forced.text.slice(0, 300))
    const failures = await until('the failure', async () => {
      const found = await failuresOf(cluster, 'test/huge')
      return found.length > 0 && found
    })
    t.match(failures[0], { errorCode: 'insufficient_memory', errorMessage: /MiB|GiB|bytes/ },
      'the node looks itself before it loads')
    t.equal((await eventsOf([first!], 'PlacementForced')).length, 1, 'and the event log tells who forced it')
    for (const { instanceId } of await instancesOf(first!.node, 'test/huge')) {
      t.equal((await removing(first!.node, instanceId)).status, 200)
    }
  })

  await t.test('T-R03, T-R04: a runner that exits, and one that hangs in its warmup', async (t) => {
    await Promise.all(['test/exits', pick(undefined, 'test/stuck')].map(async (model) => {
      if (model === undefined) return
      t.equal((await placing(second!.node, model, { excluded_nodes: EXCLUDED })).status, 200)
    }))
    await givenUp(t, cluster, 'test/exits', 'load_failed')
    const exits = secondsSince(start)
    if (pick(false, true)) await givenUp(t, cluster, 'test/stuck', 'warmup_timeout')
    await answersAt(cluster.members, 'test/b')
    const events = await eventsOf([first!], 'InstanceFailureRecorded')
    t.equal(events.filter((event) => event['modelId'] === 'test/exits').length, TRIED.length)
    await sleep(pick(2000, 60_000))
    t.equal((await failuresOf(cluster, 'test/exits')).length, TRIED.length, 'and it is left at that')
    figure(t, 'T-R03', t.passing(), { nodes: TRIED.length, givenUpSeconds: exits })
    for (const id of Object.keys((await view(first!.node)).instances)) {
      t.equal((await removing(second!.node, id)).status, 200)
    }
    t.strictSame(await settled(cluster.members), [])
  })
})
