// Time from the start of `svc up` until it listens, and until the first speech.
import { figure } from './lib/report.mjs'
import { median, pluck, quantile } from './lib/stats.mjs'
import { firstSpeech, newHome, removeHome, startNode } from './lib/node.mjs'

const TEXT = 'Hello from svc.'

async function once (home) {
  const node = await startNode(home === undefined ? {} : { home, keepHome: true })
  const listeningMs = node.listeningAt - node.spawnedAt
  const { firstMs, totalMs } = await firstSpeech(node, TEXT)
  const speechMs = performance.now() - totalMs + firstMs - node.spawnedAt
  await node.stop()
  return { listeningMs, speechMs }
}

const rowOf = (name, results) => [
  name,
  ...['listeningMs', 'speechMs'].flatMap((field) => [
    figure(median(pluck(results, field))),
    figure(quantile(pluck(results, field), 1))
  ])
]

export default {
  title: 'Start of a node',
  async run ({ short }) {
    const rounds = short ? 5 : 15
    const used = newHome()
    const fresh = []
    const again = []
    try {
      await once(used)
      for (let round = 0; round < rounds; round++) {
        fresh.push(await once())
        again.push(await once(used))
      }
    } finally {
      removeHome(used)
    }
    const all = [...fresh, ...again]
    return {
      columns: ['', 'listening p50, ms', 'slowest', 'first speech p50, ms', 'slowest'],
      rows: [rowOf('new home', fresh), rowOf('used home', again)],
      targets: [
        {
          name: 'svc up to listening, p50',
          value: median(pluck(all, 'listeningMs')),
          limit: 1000,
          unit: 'ms'
        },
        {
          name: 'svc up to first speech, p50',
          value: median(pluck(all, 'speechMs')),
          limit: 3000,
          unit: 'ms'
        }
      ],
      notes: [
        `${rounds} starts each, in turn; from before the spawn of \`svc up --json\` to its line, ` +
          'and to the first MP3 byte of ' +
          '"Hello from svc." over HTTP (asked for again every 10 ms until a voice is ready)'
      ],
      data: { fresh, again }
    }
  }
}
