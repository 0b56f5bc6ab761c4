// Elections, lag of the followers' logs, missing events and heartbeat round trips on three real nodes, while
// the master creates durable events for a minute, a store is busy and the nodes produce speech.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { figure } from '../lib/report.mjs'
import { quantile } from '../lib/stats.mjs'
import { kit, withTeardown } from './processes.mjs'
import { scratch, storeWork } from './store-work.mjs'

const PER_SECOND = 10_000
const STREAMS = 200
/** Number of models staged concurrently on the store's own node, where staging only links the files. */
const LINKS = 8
const SENT_BYTES = 64 * 1024 ** 2
const SAMPLE_MS = 250
/** Limit on the heartbeat round-trip time in ms, well within the election timeout. */
const HEARTBEAT_MS = 2500
const SPEECH = { model: 'svc/voice-en', input: 'One two three four five.', response_format: 'wav' }

/** Writes the plugin module that emits events, for `plugins.observed.module`. */
function writePlugin (t) {
  const path = join(scratch(t), 'index.mjs')
  const plugin = new URL('../observe/plugin.mjs', import.meta.url).href
  writeFileSync(path, `import { pluginWith } from ${JSON.stringify(plugin)}\nexport default pluginWith({})\n`)
  return path
}

const get = async (member, path) => {
  const answer = await member.ask(path, { ms: 60_000 })
  if (answer?.status !== 200) throw new Error(`GET ${path} of ${member.name}: ${answer?.status}`)
  return answer.json
}

/** Log lag of a follower in ms: how long ago the master's log ended at `idx`, the follower's current end. */
function lagOf (samples, idx, now) {
  const before = samples.findLast((sample) => sample.idx <= idx)
  const next = samples.find((sample) => sample.idx > idx)
  if (before === undefined || next === undefined) return 0
  return now - before.at - (next.at - before.at) * (idx - before.idx) / (next.idx - before.idx)
}

const rtts = (state) => Object.values(state.topology.connections)
  .flatMap((to) => Object.values(to).flat()).flatMap(({ rttMs }) => rttMs ?? [])

/** Requests speech until stopped; counts the failed requests. */
async function speaking (member, running, counts) {
  while (running()) {
    const answer = await member.ask('/v1/audio/speech', { method: 'POST', body: SPEECH, ms: 60_000 })
    counts[answer?.status === 200 ? 'spoken' : 'refused']++
    if (answer?.status !== 200) await sleep(500)
  }
}

async function measure (t, { seconds, perSecond, streams }) {
  const plugins = { placement: { autoplace: [] }, observed: { module: writePlugin(t) } }
  const store = { store_path: join(scratch(t), 'store') }
  const configOf = (number) => ({ model_store: { hub: { enabled: false }, ...number === 1 ? store : {} } })
  const cluster = await kit.startCluster(t, { nodes: 3, config: { plugins }, configOf })
  const { master, others, term } = await cluster.agreed({ seconds: 120 })
  const placed = await master.ask('/place_instance',
    { method: 'POST', body: { model_id: SPEECH.model, wait: true, timeout_seconds: 120 }, ms: 120_000 })
  if (placed?.status !== 200) throw new Error(`the voice was not placed: ${placed?.text}`)
  const host = cluster.members[0]
  const copies = await storeWork(t, host, cluster.members.slice(1), { links: LINKS, bytes: SENT_BYTES })
  const counts = { spoken: 0, refused: 0 }
  let running = true
  const copying = copies.run(() => running)
  const speakers = Array.from({ length: streams }, (_, n) =>
    speaking(cluster.members[n % 3], () => running, counts))
  const first = await get(master, '/v1/bench/log')
  await master.ask('/v1/bench/events', { method: 'PUT', body: { perSecond } })
  const [samples, lags, trips] = [[], [], []]
  const start = performance.now()
  while (performance.now() - start < seconds * 1000) {
    const { lastIdx: idx } = await get(master, '/v1/bench/log')
    samples.push({ idx, at: performance.now() })
    for (const other of others) {
      const { lastIdx } = await get(other, '/v1/bench/log')
      lags.push(Math.max(0, lagOf(samples, lastIdx, performance.now())) / 1000)
    }
    if (samples.length % 4 === 0) trips.push(...rtts(await get(master, '/state')))
    await sleep(SAMPLE_MS)
  }
  const last = await get(master, '/v1/bench/log')
  const took = (performance.now() - start) / 1000
  const rate = (last.lastIdx - first.lastIdx) / took
  await master.ask('/v1/bench/events', { method: 'PUT', body: { perSecond: 0 } })
  running = false
  await Promise.all([...speakers, copying])
  const after = await cluster.agreed({ seconds: 120 })
  // Events that a follower skipped do not show up as lag, so missing events are counted separately.
  const logs = await Promise.all(cluster.members.map((member) => get(member, '/v1/bench/log')))
  const missing = logs.flatMap(({ gaps }) => gaps).reduce((sum, [from, to]) => sum + to - from + 1, 0)
  const { links, sentMiB } = copies.counts
  return { elections: after.term - term, rate, lags, trips, missing, links: links / took,
    sentMiB: sentMiB / took, ...counts }
}

export default {
  title: 'Heartbeats and followers under load',
  async run ({ short }) {
    const asked = { seconds: short ? 20 : 60, perSecond: PER_SECOND, streams: short ? 6 : STREAMS }
    const data = await withTeardown(async (t) => await measure(t, asked))
    const p99 = (values) => quantile(values, 0.99)
    return {
      columns: ['events/s', 'elections', 'lag p50', 'p99', 'max', 'missing', 'round trip p99',
        'links/s', 'sent', 'spoken', 'refused'],
      rows: [[figure(data.rate), `${data.elections}`, figure(quantile(data.lags, 0.5), 's'),
        figure(p99(data.lags), 's'), figure(Math.max(...data.lags), 's'), `${data.missing}`,
        figure(p99(data.trips), 'ms'), figure(data.links), figure(data.sentMiB, 'MiB/s'),
        `${data.spoken}`, `${data.refused}`]],
      targets: [
        { name: 'elections', value: data.elections, limit: 0 },
        { name: 'a follower behind, at most', value: Math.max(...data.lags), limit: 1, unit: 's' },
        { name: 'events that a node misses', value: data.missing, limit: 0 },
        { name: 'a round trip as heartbeats have it, p99', value: p99(data.trips), limit: HEARTBEAT_MS,
          unit: 'ms' },
        { name: 'events a second', value: data.rate, limit: PER_SECOND * 0.95, atLeast: true }
      ],
      notes: [
        `asked for: ${PER_SECOND} events/s at the master, ${asked.streams} speakers, ${asked.seconds} s; ` +
          `${LINKS} models staged as links and purged as fast as they go, ` +
          `one of ${SENT_BYTES / 1024 ** 2} MiB sent to each other node likewise`
      ],
      data
    }
  }
}
