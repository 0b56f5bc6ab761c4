// Traffic of an idle cluster: frames and bytes per node and second, measured over virtual time.
import { figure } from '../lib/report.mjs'
import { advanceUntil, createCells, manualClock } from './cells.mjs'

const SECONDS = 60

async function idle (count, gossip) {
  const clock = manualClock()
  const cells = createCells({ count, clock, gossip })
  cells.start()
  await advanceUntil(clock, 'one session', () => cells.session())
  await clock.advance(20_000)
  cells.resetCounts()
  await clock.advance(SECONDS * 1000)
  const { frames, bytes, byKind } = cells.sent
  cells.stop()
  const each = count * SECONDS
  return { nodes: count, gossip, frames: frames / each, bytes: bytes / each,
    byKind: Object.fromEntries(Object.entries(byKind).map(([kind, n]) => [kind, n / each])) }
}

export default {
  title: 'What an idle cluster sends',
  async run ({ short }) {
    const results = []
    for (const count of short ? [3, 16] : [3, 16, 50]) {
      for (const gossip of [true, false]) results.push(await idle(count, gossip))
    }
    return {
      columns: ['nodes', 'readings', 'frames per node and second', 'bytes per node and second',
        'bytes per peer and second'],
      rows: results.map((r) => [`${r.nodes}`, r.gossip ? 'on' : 'off', figure(r.frames), figure(r.bytes),
        figure(r.bytes / (r.nodes - 1))]),
      targets: [],
      notes: [
        `in one process over ${SECONDS} virtual seconds at heartbeat 2 s; frames as links encode them, ` +
          'counted where they are sent, without the heads of WebSocket, TLS and TCP and the links\' own ping'
      ],
      data: results
    }
  }
}
