import t, { type Test } from 'tap'
import { randomUUID } from 'node:crypto'
import { available, createLan } from '../tools/netns.js'
import {
  acknowledged, HEARTBEAT_MS, quiet, receiptOf, SILENCE_MS, startCluster, type Cluster, type Member,
  type Receipt
} from './cluster-kit.js'
import { does, TTS } from './engine.js'
import { refusal, streamed } from './http.js'
import {
  faultsConfig, figure, full, inTime, pick, placeOn, secondsSince, svc, until, writeConfig
} from './kit.js'

/** Sends sequential commands through one node; `acked` are the acknowledged ones. */
function load (member: Member): { acked: Map<string, Receipt>, refused: Map<string, number>,
  stop (): Promise<void> } {
  const acked = new Map<string, Receipt>()
  const refused = new Map<string, number>()
  let on = true
  const work = (async () => {
    while (on) {
      const id = randomUUID()
      const answer = await member.touch(id, 60_000)
      const receipt = receiptOf(answer)
      const reason = refusal({ json: answer?.json })?.reason ?? 'silence'
      if (receipt !== undefined) acked.set(id, receipt)
      else refused.set(reason, (refused.get(reason) ?? 0) + 1)
    }
  })()
  return { acked, refused, async stop () { on = false; await work } }
}

/** Cuts the master or a follower off from the other nodes under load, and heals the cut. */
async function cutOff (t: Test, cluster: Cluster, what: 'master' | 'follower', speaks = false):
Promise<void> {
  const before = await cluster.agreed()
  const alone = what === 'master' ? before.master : before.others[0]!
  const rest = cluster.members.filter((m) => m !== alone)
  const loads = cluster.members.map(load)
  await until('commands', () => loads.every(({ acked }) => acked.size > 2))
  const start = performance.now()
  cluster.cut(alone)
  await until('the smaller side to report no_quorum', async () =>
    refusal({ json: (await alone.touch())?.json })?.reason === 'no_quorum', { seconds: 60 })
  const told = secondsSince(start)
  const lonely = await alone.state()
  t.match(lonely, { masterNodeId: null, cluster: { quorum: 'lost', stale: true } },
    'it still answers, and says what it is')
  if (speaks) {
    const heard = await streamed(alone.node, TTS, does('test/ok', 'count', { chunks: 3 }))
    t.equal(heard.last?.header.kind, 'completed', 'its own instance still speaks')
  }
  const next = await cluster.agreed({ on: rest })
  t.equal(next.sessionId === before.sessionId, what === 'follower', 'a session ends with its master')
  const side = await acknowledged(rest)
  t.equal(side.sid, next.sessionId)
  cluster.heal(alone)
  const after = await cluster.agreed()
  t.equal(after.sessionId, next.sessionId, 'the larger side goes on undisturbed')
  for (const { stop } of loads) await stop()

  // A repeated command gets its first receipt if the log still has it, and a new one if it was lost. Only the
  // newest commands are repeated, because a cluster remembers only a thousand.
  const acked = loads.flatMap((l) => [...l.acked]).sort(([, a], [, b]) => a.term - b.term || a.seq - b.seq)
  let lost = 0
  for (const [id, receipt] of acked.slice(-pick(150, 900))) {
    const again = receiptOf(await cluster.members[0]!.touch(id))
    if (JSON.stringify(again) !== JSON.stringify(receipt)) lost++
  }
  figure(t, 'T-E05', t.passing() && lost === 0 && inTime(told, (SILENCE_MS + HEARTBEAT_MS) / 1000),
    { cut: what, acked: acked.length, lost, toldSeconds: told })
}

t.test('a majority over proxies', async (t) => {
  const cluster = await startCluster(t,
    { quorum: 'majority', config: quiet, proxied: true, nodes: pick(4, 5) })
  await t.test('T-E05: the master is cut off', (t) => cutOff(t, cluster, 'master'))
  await t.test('T-E05: a follower is cut off', { skip: full ? false : 'in the long form only' },
    (t) => cutOff(t, cluster, 'follower'))

  await t.test('T-E13: a quorum that both halves could reach', async (t) => {
    const { others: [member] } = await cluster.agreed()
    await member!.kill()
    writeConfig(member!.home, member!.config({ quorum: 2 }))
    const { status, stderr } = await svc(['up', '--home', member!.home, '--port', '0'])
    t.not(status, 0, `quorum 2 of ${cluster.members.length} is refused`)
    t.match(stderr, /cluster\.quorum is 2/, 'the setting is named')
    t.match(stderr, new RegExp(`\\b${cluster.members.length} `), 'and the number of voters')
    t.notMatch(stderr, /\n\s+at /, 'without a stack')
    await member!.start()
    await cluster.agreed()
    figure(t, 'T-E13', t.passing(), { exitCode: status })
  })
})

t.test('T-E05: a majority over a LAN', { skip: available() ?? false }, async (t) => {
  const lan = createLan(t, 3)
  const cluster = await startCluster(t, { quorum: 'majority', config: faultsConfig({}, { autoplace: [] }),
    lan })
  await Promise.all(cluster.members.map((m) => placeOn(m.node, 'test/ok')))
  await cutOff(t, cluster, pick('follower', 'master'), true)
})
