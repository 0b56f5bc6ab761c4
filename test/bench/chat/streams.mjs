// Eight answers at once against one, and against a peer that writes them one after the other.
import { figure } from '../lib/report.mjs'
import { interleave, median, pluck } from '../lib/stats.mjs'
import { startEngine, startTransformers, THREADS } from './peers.mjs'
import { inTurn, together, wholeSeconds, withWorkers } from './times.mjs'

const COUNT = 8
const TOKENS = 64

const some = (count, length, tokens) =>
  Array.from({ length: count }, (_, i) => ({ length, seed: 10 + i, tokens }))

const asked = (worker, streams) => async () => (await worker.ask({ streams })).streams

async function beginnings ({ svc, peer }, rounds, peerStreams) {
  // Those that begin first write on until the last one has begun.
  const steps = {
    one: asked(svc, some(1, 128, TOKENS)),
    eight: asked(svc, some(COUNT, 128, 2 * TOKENS)),
    ...peer === undefined ? {} : { peer: asked(peer, some(peerStreams, 128, TOKENS)) }
  }
  await interleave(1, { one: steps.one })
  return await interleave(rounds, steps)
}

/** Eight answers to one long prompt, so that it is worked on once; each has a state of its own. */
async function long ({ svc }, rounds) {
  const [stream] = some(1, 1024, TOKENS / 2)
  return await interleave(rounds, { one: asked(svc, [stream]), eight: asked(svc, [{ ...stream, n: COUNT }]) })
}

function figuresOf ({ one, eight, peer }) {
  const figures = { one: one.map(inTurn), eight: eight.map(together), peer: peer?.map(inTurn) ?? [] }
  const ratio = (to) => median(figures.eight.map(({ rate }, i) => rate / (figures[to][i]?.rate ?? NaN)))
  return { figures, toOne: ratio('one'), toPeer: ratio('peer') }
}

export default {
  title: `${COUNT} streams at once, ${THREADS} thread`,
  async run ({ short: quick, rounds = quick ? 2 : 6 }) {
    const notes = []
    return await withWorkers({
      svc: () => startEngine({ prefix_cache_bytes: 0 }),
      peer: () => startTransformers(notes)
    }, async (workers) => {
      const small = await beginnings(workers, rounds, quick ? 2 : COUNT)
      const large = await long(workers, Math.ceil(rounds / 2))
      const [at128, at1024] = [figuresOf(small), figuresOf(large)]
      const row = (name, context, list) => [name, `${context}`, figure(median(pluck(list, 'rate'))),
        figure(Math.max(...pluck(list, 'rate'))), figure(median(pluck(list, 'processorMs')))]
      const rows = [[128, at128], [1024, at1024]].flatMap(([context, { figures: { one, eight, peer } }]) => [
        row('one stream', context, one), row(`${COUNT} streams together`, context, eight),
        ...peer.length === 0 ? [] : [row('transformers.js, one after another', context, peer)]
      ])
      return {
        columns: ['', 'context', 'tokens a second, median', 'most of the rounds',
          'of the processor, ms a token'],
        rows,
        targets: [
          { name: `context 128, ${COUNT} streams : one stream`, value: at128.toOne, limit: 2.5,
            atLeast: true },
          { name: `context 128, ${COUNT} streams : transformers.js in turn`, value: at128.toPeer, limit: 4,
            atLeast: true }
        ],
        notes: [...notes, `context 1024, ${COUNT} streams : one stream = ${figure(at1024.toOne)} (no target)`,
          `prompts included, ${COUNT} streams of ${2 * TOKENS} tokens at context 128 took ` +
            `${figure(median(small.eight.map(wholeSeconds)), 's')}`,
          `${rounds} rounds, interleaved; rates are of tokens after the prompts`],
        data: { at128, at1024 }
      }
    })
  }
}
