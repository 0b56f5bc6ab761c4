// Ways of calling onnxruntime, on the same model and state: what copying the state costs, and what the C API
// would save.
import { figure } from '../lib/report.mjs'
import { interleave, median } from '../lib/stats.mjs'
import { startSession, THREADS } from './peers.mjs'
import { withWorkers } from './times.mjs'

const NAMES = {
  official: 'official API, whole states as outputs',
  engine: 'svc: official API, new entries as outputs',
  native: 'C API through koffi, states stay in place'
}
const CASES = [['optimum', 1, 1024], ['genai', 1, 1024], ['optimum', 8, 128], ['genai', 8, 128]]
const STEPS = 3
const MOST_ROUNDS = 18

function differs (results) {
  const [first, ...others] = Object.values(results).map(([{ logits }]) => logits)
  return Math.max(...others.flatMap((logits) => logits.map((each, i) => Math.abs(each - first[i]))))
}

async function measure ([layout, rows, length], rounds, notes) {
  const start = (how) => () => startSession({ how, rows, length, layout }, notes)
  return await withWorkers(Object.fromEntries(Object.keys(NAMES).map((how) => [how, start(how)])),
    async (workers) => {
      const steps = Object.fromEntries(Object.entries(workers).filter(([, worker]) => worker !== undefined)
        .map(([how, worker]) => [how, () => worker.ask({ steps: STEPS })]))
      const warm = await interleave(1, steps)
      const worst = differs(warm)
      if (!(worst < 1e-3)) throw new Error(`${layout}: the ways differ by ${worst}`)
      return await interleave(Math.min(rounds, MOST_ROUNDS), steps)
    })
}

export default {
  title: `A step through the official API and the C API, ${THREADS} thread`,
  async run ({ short, rounds = short ? 6 : MOST_ROUNDS }) {
    const notes = []
    const rows = []
    const data = {}
    for (const each of CASES) {
      const results = await measure(each, rounds, notes)
      const ms = (how) => results[how]?.map(({ times }) => median(times)) ?? []
      const cpu = (how) => median(results[how].map(({ cpuMs }) => cpuMs))
      const to = (how, other) => median(ms(how).map((time, i) => (ms(other)[i] ?? NaN) / time))
      const [layout, count, length] = each
      for (const how of Object.keys(results)) {
        rows.push([layout, `${count}`, `${length}`, NAMES[how], figure(median(ms(how))),
          figure(Math.min(...ms(how))), figure(to(how, 'official')), figure(cpu(how)),
          figure(results[how].at(-1).residentMb)])
      }
      data[each.join(' ')] = Object.fromEntries(Object.keys(results).map((how) => [how, ms(how)]))
    }
    return {
      columns: ['layout', 'rows', 'context', 'way', 'step, median ms', 'least', 'speed, official = 1',
        'processor, ms', 'resident, MB'],
      rows, targets: [],
      notes: [...new Set(notes), `${Math.min(rounds, MOST_ROUNDS)} rounds of ${STEPS} steps, interleaved; ` +
        'all ways compute the same logits'],
      data
    }
  }
}
