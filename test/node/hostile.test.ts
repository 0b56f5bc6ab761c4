/** Sends hostile models and bodies to the master of three nodes, and watches the cluster. */
import t from 'tap'
import { join } from 'node:path'
import { startCluster, type Member } from './cluster-kit.js'
import { attack } from './hostile-kit.js'
import { figure, folder, pick, sleep } from './kit.js'
import { alive } from './proc.js'

/** Event kinds of an election, a lost node or a broken link, which must not occur. */
const MISSED =
  ['MasterElected', 'SessionChanged', 'NodeTimedOut', 'StaleDirectiveRefused', 'ProtocolViolation']

async function missed (at: Member): Promise<number> {
  const answer = await at.ask(`/events?limit=1000&kinds=${MISSED.join(',')}`)
  return (answer!.json as { events: unknown[] }).events.length
}

t.test('no process ends, no master is elected, no heartbeat is missed', { timeout: 7_200_000 }, async (t) => {
  const store = { model_store: { store_path: join(folder(t), 'store'), hub: { enabled: false } } }
  // Uses the product's heartbeat, because the test checks for pauses of several seconds.
  const configOf = (number: number): Record<string, unknown> => number === 1 ? store : {}
  const cluster = await startCluster(t, { configOf })
  const { master, others, term, sessionId } = await cluster.agreed()
  t.equal(master.name, 'n1', 'the one with the store')
  const pids = cluster.members.map((member) => member.pid())
  const before = await missed(others[0]!)
  const over = new AbortController()
  const seen = new Set<string>()
  const waits: number[] = []
  const watching = (async () => {
    while (!over.signal.aborted) {
      const state = await others[0]!.state()
      if (state !== undefined) {
        const { liveNodes, quorum, stale, partition } = state.cluster
        const { masterNodeId, cluster: { term } } = state
        seen.add(JSON.stringify([masterNodeId, term, liveNodes, quorum, stale, partition]))
      }
      const from = performance.now()
      await master.ask('/healthz', { ms: 60_000 })
      waits.push(performance.now() - from)
      await sleep(50)
    }
  })()
  const { odd, ...outcome } = await attack(t, master, pick(300, 5000), 20_260_117)
  over.abort()
  await watching
  t.same(odd, [], 'every answer is typed')
  t.same([...seen], [JSON.stringify([master.node.nodeId, term, 3, 'ok', false, false])],
    'the same master of three nodes all along')
  t.same(cluster.members.map((member) => member.pid()), pids)
  t.ok(pids.every(alive), 'the same processes')
  const { term: last, sessionId: session } = await cluster.agreed()
  t.same([last, session], [term, sessionId])
  t.equal(await missed(others[0]!), before, 'nobody was missed')
  waits.sort((a, b) => a - b)
  const p99 = Math.round(waits[Math.floor(waits.length * 0.99)] ?? 0)
  const healthz = { p99, max: Math.round(waits.at(-1) ?? 0) }
  figure(t, 'hostile', outcome.refused > outcome.asked / 2, { ...outcome, healthz })
})
