// Effect of the event log on token times and GET /state of one node: without events, at 2,000 events a
// second, and with the log's disk stalled or full.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { figure } from '../lib/report.mjs'
import { median, pluck, quantile } from '../lib/stats.mjs'
import { mountDisk } from './disk.mjs'
import { until, withNode } from './paced.mjs'

const PER_SECOND = 2000
const TOKEN_MS = 4
const LIMIT = 1.05
// Number of events that fill the in-memory buffer of recent events before the first measurement.
const WARM_EVENTS = 12_000

/** Expected state of the log in each condition. */
const CONDITIONS = {
  rest: { name: 'at rest', events: 0, holds: ({ mode, queued }) => mode === 'normal' && queued === 0 },
  busy: {
    name: `${PER_SECOND} events/s`, events: PER_SECOND,
    holds: ({ mode, dropped }, before) => mode === 'normal' && dropped === before.dropped
  },
  stalled: {
    name: `${PER_SECOND} events/s, disk stalled`, events: PER_SECOND,
    // The log writes nothing, so every event is queued, or dropped because the queue is full.
    holds: (log, before) => log.mode === 'normal' &&
      log.queued + log.dropped - before.queued - before.dropped >= (log.lastIdx - before.lastIdx) * 0.95
  },
  counting: {
    name: `${PER_SECOND} events/s, counting only`, events: PER_SECOND,
    holds: ({ mode, counted }, before) => mode === 'counting-only' && counted > before.counted
  }
}

/** Measures one condition: tokens from one stream, then sequential requests for the state. */
async function stretch (client, key, { tokens, states }) {
  const { events, holds, name } = CONDITIONS[key]
  await client.events(events)
  await sleep(300)
  const before = await client.log()
  const start = performance.now()
  const { gaps, way } = await client.tokens(tokens, TOKEN_MS)
  const state = await client.times('/state', states)
  const after = await client.log()
  const seconds = (performance.now() - start) / 1000
  await client.events(0)
  if (!holds(after, before)) {
    throw new Error(`the log was not "${name}": ${JSON.stringify(before)}, then ${JSON.stringify(after)}`)
  }
  return { gaps, way, state, perSecond: (after.lastIdx - before.lastIdx) / seconds }
}

const settled = (client) => until('the log to be at rest', async () => {
  const { mode, queued, waiting } = await client.log()
  return mode === 'normal' && queued === 0 && waiting === 0
})

/** Measures each condition with events once, after one at rest; without a separate disk, only `busy`. */
async function round (client, disk, counts, results) {
  const take = async (key) => {
    const rest = results.rest.at(-1)
    results[key].push({ ...await stretch(client, key, counts), rest })
  }
  await take('rest')
  await take('busy')
  await settled(client)
  if (disk === null) return
  await take('rest')
  const release = await disk.stall()
  try {
    await take('stalled')
  } finally {
    await release()
  }
  await settled(client)
  await take('rest')
  const empty = disk.fill()
  try {
    await client.events(PER_SECOND)
    await until('counting only', async () => (await client.log()).mode === 'counting-only')
    await take('counting')
  } finally {
    empty()
  }
  await settled(client)
}

async function measure (client, disk, { short, rounds, counts }) {
  const results = Object.fromEntries(Object.keys(CONDITIONS).map((key) => [key, []]))
  await client.place()
  await client.events(PER_SECOND)
  await client.tokens(short ? 500 : 2000, TOKEN_MS)
  await client.times('/state', counts.states)
  await until('a full memory of events', async () => (await client.log()).made >= WARM_EVENTS)
  await client.events(0)
  await settled(client)
  for (let n = 0; n < rounds; n++) await round(client, disk, counts, results)
  return results
}

const all = (stretches, field) => stretches.flatMap((each) => each[field])
const FIELDS = { gaps: 'token to token', way: 'token, engine to client', state: 'GET /state' }

const p99 = (values) => quantile(values, 0.99)
/** Ratio of each measurement's p99 to the p99 at rest just before. */
const ratios = (results, key, field) => results[key].filter(({ rest }) => rest !== undefined)
  .map((each) => p99(each[field]) / p99(each.rest[field]))
const ratio = (results, key, field) => median(ratios(results, key, field))

function rowsOf (results) {
  return Object.keys(FIELDS).flatMap((field) => Object.entries(CONDITIONS).map(([key, { name }]) => {
    const values = all(results[key], field)
    const rate = median(pluck(results[key], 'perSecond'))
    return [FIELDS[field], name, `${values.length}`, figure(rate),
      ...[0.5, 0.99, 1].map((q) => figure(quantile(values, q), 'ms')), figure(ratio(results, key, field))]
  }))
}

const targetsOf = (results) => ['gaps', 'state'].flatMap((field) =>
  Object.keys(CONDITIONS).filter((key) => key !== 'rest').map((key) => ({
    name: `${FIELDS[field]}, p99, ${CONDITIONS[key].name}, against rest`,
    value: ratio(results, key, field), limit: LIMIT
  })))

const dataOf = (results) => Object.fromEntries(Object.keys(FIELDS).map((field) => [field,
  Object.fromEntries(Object.keys(CONDITIONS).map((key) => [key, {
    p50: median(all(results[key], field)),
    p99: p99(all(results[key], field)),
    stretches: results[key].map((each) => p99(each[field])),
    ratios: ratios(results, key, field)
  }]))]))

/** Difference between measurements at rest, which is the noise of this machine. */
function noise (results, field) {
  const apart = ratios(results, 'rest', field)
  return `${FIELDS[field]} ${figure(Math.min(...apart))} to ${figure(Math.max(...apart))}`
}

export default {
  title: 'Tokens and GET /state beside the event log',
  async run ({ short }) {
    const rounds = short ? 2 : 10
    const counts = short ? { tokens: 500, states: 300 } : { tokens: 1000, states: 500 }
    let disk = null
    let without = null
    const before = (home) => {
      try {
        disk = mountDisk(join(home, 'events'))
      } catch (error) {
        without = `no stalled and no full disk here: ${error.message}`
      }
      return () => { disk?.unmount() }
    }
    const results = await withNode((client) => measure(client, disk, { short, rounds, counts }), { before })
    return {
      columns: ['what', 'the log', 'values', 'events/s', 'p50', 'p99', 'max', 'p99 to rest'],
      rows: rowsOf(results),
      targets: targetsOf(results),
      notes: [
        `${rounds} rounds in turn on one node; one stream of POST /v1/chat/completions, whose engine takes ` +
          `${TOKEN_MS} ms for a token; the events are made in the node itself`,
        'p99 to rest: each stretch to the one at rest before it, the median of the rounds; at rest ' +
          `itself that is ${Object.keys(FIELDS).map((field) => noise(results, field)).join(', ')}`,
        'stalled: fsfreeze on the ext4 of its own that has the log: each writer waits in the kernel until ' +
          'it ends. Counting only: that disk has 1 GiB free, which is below the floor',
        'token, engine to client: from the engine\'s yield to the bytes at the client; it has no target',
        ...without === null ? [] : [without]
      ],
      data: dataOf(results)
    }
  }
}
