// Event-loop delay of the node's main process during speech streams.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { here } from './lib/paths.mjs'
import { figure } from './lib/report.mjs'
import { median, pluck, quantile } from './lib/stats.mjs'
import { firstSpeech, request, speak, startNode } from './lib/node.mjs'

const STREAMS = 8
const SAMPLE_MS = 20
const STORY = [
  'This is one of eight listeners, each of whom hears a story of her own.',
  'The node passes all of it on and stays quick for everybody else.',
  'Nothing waits for the voice but the ones who asked for it.'
].join(' ')
const TEXT = `${STORY} ${STORY}`

/** Requests speech until stopped; returns the number of completed requests. */
async function listen (node, state) {
  let texts = 0
  while (!state.over) {
    await speak(node, TEXT)
    texts++
  }
  return texts
}

/** Samples the latency of /healthz until stopped. */
async function knock (node, state) {
  const times = []
  while (!state.over) {
    times.push((await request({ agent: node.agent, url: `${node.url}/healthz` })).totalMs)
    await sleep(SAMPLE_MS)
  }
  return times
}

const loopOf = async (node) => await node.json('/v1/bench/loop')

/** Measures once with that many concurrent streams. */
async function stretch (node, streams, seconds) {
  const state = { over: false }
  await loopOf(node)
  const listeners = Array.from({ length: streams }, () => listen(node, state))
  const knocking = knock(node, state)
  await sleep(seconds * 1000)
  const loop = await loopOf(node)
  state.over = true
  const [times, ...texts] = await Promise.all([knocking, ...listeners])
  return {
    ...loop,
    healthzP50: quantile(times, 0.5),
    healthzP99: quantile(times, 0.99),
    texts: texts.reduce((a, b) => a + b, 0)
  }
}

const rowOf = (name, results) => [
  name,
  ...['p50', 'p99', 'max', 'healthzP50', 'healthzP99'].map((field) =>
    figure(median(pluck(results, field)))
  )
]

export default {
  title: 'Event loop of the kernel while 8 speech streams run',
  async run ({ short }) {
    const seconds = short ? 6 : 20
    const rounds = short ? 2 : 5
    const module = join(here, 'workers', 'probe-plugin.mjs')
    const node = await startNode({
      yaml: `plugins: { loop-probe: { module: ${JSON.stringify(module)} } }\n`
    })
    try {
      await firstSpeech(node, TEXT)
      await stretch(node, STREAMS, 3)
      const idle = []
      const busy = []
      for (let round = 0; round < rounds; round++) {
        idle.push(await stretch(node, 0, seconds / 2))
        busy.push(await stretch(node, STREAMS, seconds))
      }
      const { resources } = await node.json('/v1/diagnostics/node')
      return {
        columns: ['', 'delay p50, ms', 'p99', 'max', 'GET /healthz p50, ms', 'p99'],
        rows: [rowOf('idle', idle), rowOf(`${STREAMS} streams`, busy)],
        targets: [
          {
            name: `event loop delay p99, ${STREAMS} streams (median of the rounds)`,
            value: median(pluck(busy, 'p99')),
            limit: 20,
            unit: 'ms'
          }
        ],
        notes: [
          'measured inside the node by a guest plugin (monitorEventLoopDelay, 1 ms, less its own 1 ms); ' +
            `${rounds} rounds of ${seconds} s; ` +
            `${busy.reduce((sum, r) => sum + r.texts, 0)} texts spoken`,
          `/v1/diagnostics/node said p99 ${figure(resources.eventLoopDelayMs.p99, 'ms')} ` +
            'for the whole life of the node, its start included'
        ],
        data: { idle, busy, diagnostics: resources.eventLoopDelayMs }
      }
    } finally {
      await node.stop()
    }
  }
}
