// A medium Piper voice: time to the first and last samples, against sherpa-onnx on the same file and text.
import { mediumCard, mediumVoice } from './lib/graphs.mjs'
import { espeakData } from './lib/paths.mjs'
import { figure } from './lib/report.mjs'
import { interleave, median, pluck } from './lib/stats.mjs'
import { startWorker } from './lib/worker.mjs'

const TEXTS = {
  'one sentence':
    'The little station at the edge of the town opens before sunrise, ' +
    'and the first train leaves for the coast.',
  'three sentences':
    'The quick brown fox jumps over the lazy dog. It was a bright cold day in April, and the clocks were ' +
    'striking thirteen. Speech should start as soon as its first words are ready.',
  'one long sentence':
    'When the road at last came down from the hills and the lights of the harbour lay below them in the ' +
    'rain, the two travellers stopped under the old bridge to wait for the boy who carried ' +
    'the lamp and the bread.'
}
const WARM_ROUNDS = 2

const seconds = (results) => figure(median(pluck(results, 'seconds')))

function rowOf (text, name, results) {
  const [first, last] = ['firstMs', 'totalMs'].map((field) => median(pluck(results, field)))
  return [
    text,
    name,
    figure(first),
    figure(last),
    seconds(results),
    figure(last / 1000 / median(pluck(results, 'seconds')))
  ]
}

/** Ratio of svc's median to that of sherpa-onnx. */
const ratio = (ours, theirs, field) =>
  theirs === undefined ? null : median(pluck(ours, field)) / median(pluck(theirs, field))

async function startPeer (folder, notes) {
  const data = espeakData()
  if (data === undefined) {
    notes.push(
      '**sherpa-onnx-node was skipped**: no espeak-ng data ' +
        '(npm --prefix test/bench install brings them)'
    )
    return undefined
  }
  try {
    return await startWorker('sherpa', { folder, data })
  } catch (error) {
    notes.push(`**sherpa-onnx-node was skipped**: ${error.message.split('\n')[0]}`)
    return undefined
  }
}

async function measure (text, engine, peer, rounds) {
  const ask = (encoding) => () => engine.ask({ payload: { model: 'm', text, encoding } })
  return await interleave(rounds, {
    pcm: ask('pcm'),
    ...(peer === undefined ? {} : { sherpa: () => peer.ask({ text }) }),
    mp3: ask('mp3')
  })
}

export default {
  title: 'Medium Piper voice with random weights, one thread, warm',
  async run ({ short }) {
    const { folder, parameters, bytes } = await mediumVoice()
    const notes = [
      `${(parameters / 1e6).toFixed(1)} million random weights, ${(bytes / 1e6).toFixed(1)} MB; ` +
        'the phonemes come from espeak-ng on both sides and are part of the time; ' +
        'the durations draw no noise, so both speak equally long but for where they cut the text'
    ]
    const peer = await startPeer(folder, notes)
    const engine = await startWorker('engine', { card: mediumCard, directory: folder, espeak: true })
    try {
      const rows = []
      const targets = []
      const data = {}
      for (const [name, text] of Object.entries(TEXTS)) {
        await measure(text, engine, peer, WARM_ROUNDS)
        const results = await measure(text, engine, peer, short ? 5 : 15)
        const { pcm, sherpa, mp3 } = results
        rows.push(rowOf(name, 'svc, PCM', pcm), rowOf(name, 'svc, MP3', mp3))
        if (sherpa !== undefined) rows.push(rowOf(name, 'sherpa-onnx-node, PCM', sherpa))
        targets.push(
          { name: `${name}: first PCM, svc : sherpa`, value: ratio(pcm, sherpa, 'firstMs'), limit: 0.5 },
          { name: `${name}: last PCM, svc : sherpa`, value: ratio(pcm, sherpa, 'totalMs'), limit: 1.2 }
        )
        data[name] = results
      }
      notes.push(`medians of ${short ? 5 : 15} rounds, interleaved, after ${WARM_ROUNDS} warm ones`)
      return {
        columns: ['text', '', 'first, ms', 'last, ms', 'speech, s', 'real-time factor'],
        rows,
        targets,
        notes,
        data
      }
    } finally {
      await Promise.all([engine.stop(), peer?.stop()])
    }
  }
}
