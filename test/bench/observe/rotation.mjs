// The longest event-loop delay while a log of 300 MiB closes and deletes files.
import { newHome, removeHome } from '../lib/node.mjs'
import { figure } from '../lib/report.mjs'
import { startWorker } from '../lib/worker.mjs'

const LIMIT_MS = 50

/** The measured phases, in order. */
const PHASES = { append: 'events are appended', rotate: 'and old files are deleted' }

/** Fills a log and then trims it; an idle process measures the machine's own delays at the same time. */
async function once () {
  const home = newHome()
  const worker = await startWorker('../observe/rotation-worker', { home })
  const idle = await startWorker('../observe/rotation-worker')
  try {
    const filled = await worker.ask({ do: 'fill' })
    const phases = {}
    for (const phase of Object.keys(PHASES)) {
      await idle.ask({ do: 'loop' })
      const result = await worker.ask({ do: phase })
      phases[phase] = { ...result, idle: (await idle.ask({ do: 'loop' })).loop }
    }
    return { ...filled, phases }
  } finally {
    await Promise.all([worker.stop(), idle.stop()])
    removeHome(home)
  }
}

export default {
  title: 'Event loop while files of a log of 300 MiB are closed and deleted',
  async run ({ short }) {
    const rounds = []
    for (let n = 0; n < (short ? 1 : 5); n++) rounds.push(await once())
    const most = (phase, pick) => Math.max(...rounds.map(({ phases }) => pick(phases[phase])))
    return {
      columns: ['while', 'took', 'delay p99', 'longest block', 'idle process: p99', 'longest block'],
      rows: Object.entries(PHASES).map(([phase, name]) => [name,
        figure(most(phase, ({ seconds }) => seconds), 's'),
        ...['loop', 'idle'].flatMap((who) => ['p99', 'max'].map((field) =>
          figure(most(phase, (result) => result[who][field]), 'ms')))]),
      targets: [{
        name: 'longest block of the event loop while files are deleted',
        value: most('rotate', ({ loop }) => loop.max), limit: LIMIT_MS, unit: 'ms'
      }],
      notes: [
        `${rounds.length} logs of ${rounds.map(({ mebibytes, events }) =>
          `${figure(mebibytes)} MiB (${events} events)`).join(', ')}, the worst of each; in each phase ` +
          '2,000 events/s are appended, and the second begins with the opening of the log',
        'monitorEventLoopDelay in the process that has the store (1 ms, less its own 1 ms); the idle ' +
          'process beside it shows what the machine does to any process in the same time'
      ],
      data: { rounds }
    }
  }
}
