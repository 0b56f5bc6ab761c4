// Resident memory of the node process and of the voice runner over a thousand sentences.
import { figure } from './lib/report.mjs'
import { median, slope } from './lib/stats.mjs'
import { firstSpeech, processes, speak, startNode } from './lib/node.mjs'

const MB = 1e6
const STEP = 25
const WORDS = [
  'lantern',
  'harbour',
  'winter',
  'bridge',
  'paper',
  'engine',
  'garden',
  'window',
  'number',
  'river',
  'silver',
  'morning',
  'teacher',
  'market',
  'summer',
  'letter',
  'island',
  'forest',
  'kitchen',
  'signal'
]

/** Sentence number `i`, of 5 to 29 words; consecutive sentences differ. */
function sentence (i) {
  const words = Array.from(
    { length: 4 + ((i * 7) % 25) },
    (_, k) => WORDS[(i * 13 + k * (1 + (i % 9))) % WORDS.length]
  )
  return `Sentence ${i}: ${words.join(' ')}.`
}

/** Memory growth over the second half of the samples, in MB per 100 sentences. */
const growth = (samples, role) =>
  100 * slope(samples.slice(samples.length >> 1).map((s) => [s.sentences, s[role]]))

async function measure (node, count) {
  const samples = []
  for (let i = 0; i <= count; i++) {
    if (i % STEP === 0) {
      const { kernel, runner } = await processes(node)
      samples.push({ sentences: i, kernel: kernel.rssBytes / MB, runner: runner.rssBytes / MB })
    }
    await speak(node, sentence(i))
  }
  return samples
}

export default {
  title: 'Resident memory over many sentences',
  async run ({ short }) {
    const count = short ? 300 : 1000
    const node = await startNode({})
    try {
      await firstSpeech(node, sentence(0))
      const samples = await measure(node, count)
      const at = (share, role) => samples[Math.round((samples.length - 1) * share)][role]
      const lastHalf = (role) => samples.slice(samples.length >> 1).map((s) => s[role])
      const rows = ['kernel', 'runner'].map((role) => [
        role,
        ...[0, 0.1, 0.25, 0.5, 0.75, 1].map((share) => figure(at(share, role))),
        figure(median(lastHalf(role))),
        figure(Math.max(...lastHalf(role))),
        figure(growth(samples, role))
      ])
      // Memory counts as flat if ten times as many sentences would add less than a tenth of the limit.
      const flat = (role, limit) => ({
        name: `${role}: growth over the last half per 100 sentences`,
        value: growth(samples, role),
        limit,
        unit: 'MB'
      })
      return {
        columns: [
          'MB after',
          'none',
          '10 %',
          '25 %',
          '50 %',
          '75 %',
          'all',
          'last half: median',
          'most',
          'growth per 100'
        ],
        rows,
        targets: [
          { name: `kernel after ${count} sentences`, value: at(1, 'kernel'), limit: 150, unit: 'MB' },
          {
            name: `voice runner after ${count} sentences`,
            value: at(1, 'runner'),
            limit: 250,
            unit: 'MB'
          },
          flat('kernel', 1),
          flat('runner', 1)
        ],
        notes: [
          `${count} sentences of 5 to 29 words, one after the other, raw MP3; ` +
            'resident set as /v1/diagnostics/node reports it, every ' +
            `${STEP} sentences; growth is the slope of the line through the last half`
        ],
        data: samples
      }
    } finally {
      await node.stop()
    }
  }
}
