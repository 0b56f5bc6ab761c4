import t from 'tap'
import { openSpeech, sameState, startCluster, type Member } from './cluster-kit.js'
import { does, ready, report, TTS } from './engine.js'
import { ask, call, refusal, streamed } from './http.js'
import { faultsConfig, placeOn, until } from './kit.js'

/** Number of requests that a node's runners are processing. */
const working = async ({ node }: Member): Promise<number> =>
  (await report(node, 'test/ok')).inProgressTasks.length

/** Restarts a member through another member; returns its new id once it is back. */
async function restart (through: Member, member: Member): Promise<string> {
  const old = (await member.ask('/node_id'))!.json as string
  const answer = await ask(through.node, `/admin/restart?node_id=${old}`, { method: 'POST' })
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
  return await until(`${member.name} under a new id`, async () => {
    const now = await member.ask('/node_id')
    return now?.status === 200 && now.json !== old && now.json as string
  })
}

t.test('three nodes with a voice', async (t) => {
  const cluster = await startCluster(t, { config: faultsConfig({}, { autoplace: [] }) })
  await Promise.all(cluster.members.map((m) => placeOn(m.node, 'test/ok')))
  const [one, two, three] = cluster.members as [Member, Member, Member]

  await t.test('all nodes answer /state equally', async (t) => {
    await sameState(cluster.members)
    const states = await Promise.all(cluster.members.map((m) => m.state()))
    const ids = cluster.members.map((m) => m.node.nodeId).sort()
    for (const [i, state] of states.entries()) {
      t.equal(state!.localNodeId, cluster.members[i]!.node.nodeId)
      for (const key of ['nodeIdentities', 'nodeMemory', 'nodeSystem', 'nodeDisk', 'nodeHealth', 'lastSeen',
        'nodeCapabilities', 'nodeResources']) {
        await until(`${key} of every node`, async () =>
          Object.keys((await cluster.members[i]!.state())?.[key] as object).sort().join() === ids.join())
      }
      t.match(state!.cluster, { quorum: 'ok', stale: false, partition: false, knownNodes: 3, liveNodes: 3 })
      t.strictSame([...state!.topology.nodes].sort(), ids)
    }
    await until('edges both ways between all', async () => {
      const { connections } = (await one.state())!.topology
      return ids.every((a) => ids.every((b) => a === b || (connections[a]?.[b]?.length ?? 0) > 0))
    })
  })

  await t.test('the capabilities of another node, and calls there', async (t) => {
    const { node_id: said, capabilities } = (await one.ask(`/v1/capabilities?node_id=${two.node.nodeId}`))!
      .json as { node_id: string, capabilities: { id: string, node_id: string }[] }
    t.equal(said, two.node.nodeId)
    t.ok(capabilities.some(({ id, node_id: at }) => id === 'tts' && at === two.node.nodeId))
    const tags = (await one.state())!['nodeCapabilities'] as Record<string, string[]>
    t.ok(Object.values(tags).every((list) => list.includes('tts')), 'any node finds who speaks')
    const there = await streamed(one.node, TTS, does('test/ok', 'count', { chunks: 5 }),
      { extra: { target_node: two.node.nodeId } })
    t.match([there.terminals, there.last?.header.kind, there.frames.length], [1, 'completed', 7])
    t.equal(there.bytes.byteLength, 5000)

    const opened = await openSpeech(one, 'x', { target_node: two.node.nodeId })
    await until('the work there', async () => await working(two) === 1)
    t.equal(await working(one), 0, 'and not here')
    opened.abort()
    await until('its end when the client leaves', async () => await working(two) === 0)

    const nobody = await ask(one.node, '/v1/capabilities/stream',
      { body: call(one.node, TTS, does('test/ok', 'count'), { target_node: 'nobody' }) })
    t.match([nobody.status, refusal(nobody)?.reason], [404, 'node_not_found'])
    const listed = await one.ask('/v1/capabilities?node_id=nobody')
    t.match([listed?.status, refusal({ json: listed?.json })?.reason], [404, 'node_not_found'])
  })

  await t.test('an absent node', async (t) => {
    const { others: [gone] } = await cluster.agreed()
    const asker = cluster.members.find((m) => m !== gone)!
    await gone!.kill()
    const answer = await ask(asker.node, '/v1/capabilities/stream',
      { body: call(asker.node, TTS, does('test/ok', 'count'), { target_node: gone!.node.nodeId }) })
    t.match(answer.status, 502, answer.text)
    t.equal(refusal(answer)?.reason, 'unreachable')
    const refused = await ask(asker.node, `/admin/restart?node_id=${gone!.node.nodeId}`, { method: 'POST' })
    t.match([refused.status, refusal(refused)?.reason], [502, 'unreachable'], refused.text)
    await gone!.start()
    await cluster.agreed()
    await ready(gone!.node, 'test/ok')
  })

  await t.test('a node restarts itself or another node, and only that', async (t) => {
    const nobody = await ask(one.node, '/admin/restart?node_id=nobody', { method: 'POST' })
    t.match([nobody.status, refusal(nobody)?.reason], [404, 'node_not_found'])
    for (const [through, member] of [[three, three], [one, two]] as const) {
      const id = await restart(through, member)
      const after = await cluster.agreed({ seconds: 60 })
      t.ok((await after.master.state())!.topology.nodes.includes(id), `${member.name} is back by itself`)
    }
    await sameState(cluster.members)
  })
})
