import t from 'tap'
import { framesSeconds, walkFrames } from '../../plugins/capabilities-tts/test/mp3.js'
import { figure, full, inTime, pick, secondsSince, sleep, svc, until } from './kit.js'
import {
  askWithin, homeOf, instancesCluster, instancesOf, nodesOf, openFrames, outcomeOf, settled, view
} from './instances-kit.js'
import type { Member } from './cluster-kit.js'

const VOICE = 'svc/voice-en'
const DEMANDED_SECONDS = 2

const svcAt = async ({ node }: Member, ...args: string[]): ReturnType<typeof svc> =>
  await svc([...args, '--home', node.home, '--url', node.url])

/** Waits until the voice answers with more than 0.3 s of sound at each of these members. */
async function speaksAt (on: readonly Member[], seconds = 30): Promise<void> {
  await until('the voice at every node', async () => {
    const all = await Promise.all(on.map(async ({ node }) =>
      await askWithin(node, '/v1/audio/speech', { body: { model: VOICE, input: 'Good morning.' } })))
    return all.every(({ status, bytes }) => status === 200 && framesSeconds(walkFrames(bytes).frames) > 0.3)
  }, { seconds })
}

t.test('models that are placed automatically', async (t) => {
  const cluster = await instancesCluster(t, { plugins: {
    placement: { autoplace: [VOICE], on_demand: true, on_demand_ttl_seconds: DEMANDED_SECONDS }
  } })
  const start = performance.now()

  await t.test('one voice for the whole cluster', async (t) => {
    await speaksAt(cluster.members)
    const rings = await settled(cluster.members)
    t.match(rings.map((ring) => [ring.shardAssignments.modelId, ring.placement?.origin]),
      [[VOICE, 'autoplace']], 'one instance')
    figure(t, 'autoplace', t.passing(), { seconds: secondsSince(start) })
  })

  await t.test('kill -9 of its node', async (t) => {
    const took: number[] = []
    for (let n = 0; n < pick(1, 6); n++) {
      const [ring] = await settled(cluster.members)
      const home = homeOf(cluster, ring!)
      const from = performance.now()
      await home.kill()
      await speaksAt(cluster.up())
      took.push(secondsSince(from))
      const [now, ...more] = await instancesOf(cluster.up()[0]!.node, VOICE)
      t.strictSame(more, [], 'one voice again')
      t.match(now?.placement, { replaces: ring!.instanceId, origin: 'autoplace' })
      await home.start()
      await cluster.agreed()
      t.equal((await settled(cluster.members)).length, 1, 'the node that is back brings no other')
    }
    figure(t, 'autoplace, kill -9', t.passing() && inTime(Math.max(...took), 13),
      { speaksAgainSeconds: Math.max(...took) })
  })

  await t.test('a request for a model that is not placed places it', async (t) => {
    const [first, second, third] = cluster.members
    const from = performance.now()
    const words = await Promise.all([first!, second!, third!, first!, second!].map(async ({ node }) =>
      await outcomeOf(node, 'test/ok')))
    t.strictSame([...new Set(words)], ['completed'], 'each is answered')
    const rings = await instancesOf(third!.node, 'test/ok')
    t.match(rings.map(({ placement }) => placement), [{ origin: 'on_demand', ttlSeconds: DEMANDED_SECONDS }],
      'it was placed once')
    figure(t, 'on demand', t.passing(), { firstAnswersSeconds: secondsSince(from) })
    const opened = await openFrames(first!.node, 'test/ok')
    await sleep(DEMANDED_SECONDS * 1500)
    // Both instances are listed if the request arrived just as an older instance began to drain.
    t.ok((await instancesOf(third!.node, 'test/ok')).length >= 1, 'an open request keeps it')
    opened.leave()
    await until('it to be unloaded', async () => (await instancesOf(third!.node, 'test/ok')).length === 0)
    const again = await settled(cluster.members)
    t.match(again.map((ring) => ring.shardAssignments.modelId), [VOICE])
    t.match(await outcomeOf(second!.node, 'acme/unknown'), /^(no_instance|model_unknown)$/)
  })

  await t.test('svc stop', async (t) => {
    const [, second] = cluster.members
    const stopped = await svcAt(second!, 'stop', '-y', VOICE)
    t.equal(stopped.status, 0, `${stopped.stdout} ${stopped.stderr}`)
    t.strictSame(await settled(cluster.members), [])
    const before = await cluster.agreed()
    await before.master.kill()
    const next = await cluster.agreed({ not: before.sessionId })
    await before.master.start()
    await cluster.agreed()
    // Autoplace runs when a session starts and when a node joins; both have just happened.
    await sleep(pick(2000, 15_000))
    t.strictSame((await view(next.master.node)).instances, {}, 'what was stopped stays stopped')
    t.strictSame(await settled(cluster.members), [])
    const placed = await svcAt(second!, 'place', VOICE)
    t.equal(placed.status, 0, `${placed.stdout} ${placed.stderr}`)
    await speaksAt(cluster.members)
    const [ring] = await settled(cluster.members)
    if (!full) return
    const home = homeOf(cluster, ring!)
    await home.kill()
    await speaksAt(cluster.up())
    t.not(nodesOf((await instancesOf(cluster.up()[0]!.node, VOICE))[0]!)[0], home.node.nodeId,
      'until it is placed again: then it is kept as before')
  })
})
