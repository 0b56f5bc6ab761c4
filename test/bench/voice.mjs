// The embedded voice after warm-up: time to the first MP3 byte over HTTP, and total time compared with the
// bare model's.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { figure } from './lib/report.mjs'
import { interleave, median, pluck, quantile } from './lib/stats.mjs'
import { firstSpeech, speak, startNode } from './lib/node.mjs'
import { root, source } from './lib/paths.mjs'
import { startWorker } from './lib/worker.mjs'

const SENTENCE =
  'The little station at the edge of the town opens before sunrise, and the first train leaves for the coast.'
// Sentences to speak before measuring, enough for V8 to compile the MP3 encoder, which is JavaScript.
const WARM_ROUNDS = 20
const folder = join(root, 'plugins/capabilities-tts/voice')


/** Input for the bare session: the phoneme ids of the whole sentence from svc's front end. */
async function bareInput () {
  const { prepareEnglish } = await source('plugins/capabilities-tts/text/front-end.ts')
  const { readVoiceConfig, phonemeIds } = await source('plugins/capabilities-tts/engine/voice-config.ts')
  const config = readVoiceConfig(
    JSON.parse(readFileSync(join(folder, 'en_US-flite-16k.onnx.json'), 'utf8'))
  )
  const phonemes = [...prepareEnglish(SENTENCE, { maxSymbols: 400, firstSymbols: 400 })]
    .map((unit) => unit.phonemes)
    .join(' ')
  return {
    model: join(folder, 'en_US-flite-16k.onnx'),
    ids: phonemeIds(config, phonemes, false),
    scales: [config.noiseScale, config.lengthScale, config.noiseW],
    sid: 0,
    sampleRate: config.sampleRate,
    kbps: 48
  }
}

async function embeddedCard () {
  const { parse } = await import('yaml')
  return parse(readFileSync(join(folder, 'card.yaml'), 'utf8'))
}

/** The times of an answer in ms, rounded to microseconds, without its bytes. */
const timesOf = (answer) =>
  Object.fromEntries(
    Object.entries(answer)
      .filter(([name]) => name.endsWith('Ms'))
      .map(([name, ms]) => [name, Number(ms.toFixed(3))])
  )

const row = (name, results) => [
  name,
  ...['firstMs', 'totalMs'].flatMap((field) =>
    results[0][field] === undefined
      ? ['–', '–']
      : [figure(median(pluck(results, field))), figure(quantile(pluck(results, field), 0.9))]
  ),
  figure(results[0].seconds ?? null)
]

export default {
  title: 'Embedded voice, 20 words, one thread, warm',
  async run ({ short }) {
    const node = await startNode({})
    const engine = await startWorker('engine', { card: await embeddedCard(), directory: folder })
    const bare = await startWorker('bare', await bareInput())
    try {
      await firstSpeech(node, SENTENCE)
      const steps = {
        http: () => speak(node, SENTENCE),
        engine: () => engine.ask({ payload: { model: 'svc/voice-en', text: SENTENCE } }),
        bare: () => bare.ask({})
      }
      await interleave(WARM_ROUNDS, steps)
      const { http, engine: alone, bare: floor } = await interleave(short ? 20 : 60, steps)
      const ratios = (list) => list.map((r, i) => r.totalMs / floor[i].totalMs)
      const first = median(pluck(http, 'firstMs'))
      const total = median(pluck(http, 'totalMs')) / median(pluck(floor, 'totalMs'))
      return {
        columns: ['', 'first byte p50, ms', 'p90', 'total p50, ms', 'p90', 'speech, s'],
        rows: [
          row('svc over HTTP, raw MP3', http),
          row('its engine alone', alone),
          row('bare session + bare lamejs', floor),
          ['of that: session', '–', '–', figure(median(pluck(floor, 'sessionMs'))), '–', '–'],
          ['of that: lamejs', '–', '–', figure(median(pluck(floor, 'encodeMs'))), '–', '–']
        ],
        targets: [
          { name: 'first MP3 byte over HTTP, p50', value: first, limit: 100, unit: 'ms' },
          { name: 'total over HTTP : bare session + lamejs (medians)', value: total, limit: 1.25 }
        ],
        notes: [
          `median of the ratios round by round: HTTP ${figure(median(ratios(http)))}, ` +
            `engine alone ${figure(median(ratios(alone)))}`,
          `${http.length} rounds, interleaved, after ${WARM_ROUNDS} warm ones; "${SENTENCE}"`
        ],
        data: { http: http.map(timesOf), engine: alone.map(timesOf), bare: floor.map(timesOf) }
      }
    } finally {
      await Promise.all([node.stop(), engine.stop(), bare.stop()])
    }
  }
}
