import t, { type Test } from 'tap'
import { sameState, type Cluster } from './cluster-kit.js'
import { refusal, type Answer } from './http.js'
import { figure, pick, secondsSince } from './kit.js'
import {
  answersAt, instancesCluster, nodesOf, place, placeOn, placing, removing, settled, view
} from './instances-kit.js'
import type { RingInstance } from '../../plugins/runners/service.js'

/** Checks that no node has two instances of a model, except draining instances. */
function apart (t: Test, rings: readonly RingInstance[]): void {
  const places = rings.filter(({ drainUntil }) => drainUntil === undefined)
    .map((ring) => `${ring.shardAssignments.modelId} on ${nodesOf(ring).join()}`)
  t.equal(new Set(places).size, places.length, `each in a place of its own: ${places.join('; ')}`)
}

/** Removes every instance, and waits until no runner is left. */
async function empty (t: Test, cluster: Cluster): Promise<void> {
  const { node } = cluster.members[0]!
  for (const id of Object.keys((await view(node)).instances)) await removing(node, id)
  t.strictSame(await settled(cluster.up()), [], 'nothing is placed, and no runner is left')
}

t.test('concurrent placements', async (t) => {
  const cluster = await instancesCluster(t, { nodes: 4, joined: 3 })
  const three = cluster.members.slice(0, 3)

  await t.test('the same model, placed through two nodes at once', async (t) => {
    for (let n = 0; n < pick(2, 20); n++) {
      const ids = await Promise.all(three.slice(1).map(async ({ node }) => await place(node, 'test/ok')))
      const rings = await settled(three)
      apart(t, rings)
      t.strictSame([...new Set(ids)].sort(), rings.map(({ instanceId }) => instanceId).sort(),
        'each was told an instance that there is')
      await answersAt(three, 'test/ok')
      await empty(t, cluster)
    }
  })

  await t.test('20 places and deletes of one model over all nodes', async (t) => {
    const words = new Map<string, number>()
    const count = (answer: Answer): void => {
      const { reason = answer.text } = refusal(answer) ?? {}
      const word = answer.status === 200 ? 'done' : `${answer.status} ${reason}`
      words.set(word, (words.get(word) ?? 0) + 1)
    }
    const rounds = pick(2, 15)
    for (let round = 0; round < rounds; round++) {
      await Promise.all(Array.from({ length: 20 }, async (_, n) => {
        const { node } = three[n % 3]!
        const other = three[(n + round + 1) % 3]!
        if (n % 2 === 0) {
          count(await placing(node, 'test/ok', n % 4 === 0 ? {}
            : { excluded_nodes: three.filter((m) => m !== other).map(({ name }) => name) }))
        } else {
          const ids = Object.keys((await view(other.node)).instances)
          const query = n % 3 === 0 ? '?drain_seconds=0' : ''
          for (const id of ids.slice(0, 2)) count(await removing(node, id, query))
        }
      }))
      apart(t, await settled(three))
      await sameState(three)
    }
    const fine = new Set(['done', '404 instance_not_found'])
    const odd = [...words.keys()].filter((word) => !fine.has(word))
    t.strictSame(odd, [], 'each is done, or the instance is gone already')
    await place(three[0]!.node, 'test/ok')
    await answersAt(three, 'test/ok')
    await empty(t, cluster)
    figure(t, 'placements and deletes racing', t.passing(), { rounds, ...Object.fromEntries(words) })
  })

  await t.test('a node joins while models are placed', async (t) => {
    const [first, second] = three
    const joining = cluster.members[3]!
    const { token } = (await cluster.joinToken(first!)).json as { token: string }
    let joined = false
    const start = performance.now()
    const words = new Set<string>()
    const join = joining.start({ args: ['--join', token] }).then(async () => {
      // This request may be the joining node's first message to the cluster.
      const id = await place(joining.node, 'test/b', { excluded_nodes: ['n1', 'n2', 'n3'] })
      joined = true
      return id
    })
    join.catch(() => { joined = true })
    let placed = 0
    do {
      const at = placed % 2 === 0 ? first! : second!
      const answer = await placing(at.node, 'test/ok', { wait: true })
      words.add(answer.status === 200 ? 'done' : `${answer.status} ${refusal(answer)?.reason}`)
      const { instance_id: id } = answer.json as { instance_id?: string }
      if (id !== undefined) await removing(at.node, id, '?drain_seconds=0')
      placed++
    } while (!joined)
    const id = await join
    await cluster.agreed({ live: 4 })
    t.strictSame([...words], ['done'], 'no placement failed for it')
    const rings = await settled(cluster.members)
    apart(t, rings)
    t.strictSame(rings.filter(({ instanceId }) => instanceId === id).map(nodesOf), [[joining.node.nodeId]],
      'and the one that joined has what was placed on it')
    await answersAt(cluster.members, 'test/b')
    figure(t, 'a node joins during placements', t.passing(), { placed, seconds: secondsSince(start) })
    await placeOn(cluster, joining, 'test/ok')
    await empty(t, cluster)
  })
})
