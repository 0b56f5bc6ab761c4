// Steps of one model through one way of calling onnxruntime, from a made-up state.
import { join } from 'node:path'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import { serveWorker } from '../lib/worker.mjs'
import { cache, source } from '../lib/paths.mjs'
import { SMOL } from './graph.mjs'
import { openNative } from './native.mjs'

const { kvHeads, head, layers, vocabulary } = SMOL
const slots = Array.from({ length: layers }, (_, i) => ['key', 'value'].map((what) =>
  ({ input: `past_key_values.${i}.${what}`, output: `present.${i}.${what}` }))).flat()
const ID = 5

/** Numbers of a state: the same for all. Each of `blocks` has `room` entries, `length` of them filled. */
function stateOf (blocks, length, room = length) {
  const values = new Float32Array(blocks * room * head)
  for (let block = 0; block < blocks; block++) {
    for (let i = 0; i < length * head; i++) {
      values[block * room * head + i] = ((block * length * head + i) * 7919 % 1000) / 5000 - 0.1
    }
  }
  return values
}

const whole = (count, value) => new BigInt64Array(count).fill(BigInt(value))

/** Names, numbers and dimensions of the inputs besides the state. */
const around = (rows, length, layout) => [
  ['input_ids', whole(rows, ID), [rows, 1]],
  ['attention_mask', whole(rows * (length + 1), 1), [rows, length + 1]],
  ...layout === 'optimum' ? [['position_ids', whole(rows, length), [rows, 1]]] : []
]

/** The official API with all of the state as outputs. */
async function official ({ folder, threads, layout, rows, length }) {
  const session = await InferenceSession.create(join(folder, 'onnx/model.onnx'), {
    intraOpNumThreads: threads, interOpNumThreads: 1, enableMemPattern: false, logSeverityLevel: 3,
    extra: { session: { intra_op: { allow_spinning: '0' } } }
  })
  let state = slots.map(() => stateOf(rows * kvHeads, length))
  return async () => {
    const feeds = Object.fromEntries(around(rows, length, layout)
      .map(([name, data, dims]) => [name, new Tensor('int64', data, dims)]))
    slots.forEach(({ input }, i) => {
      feeds[input] = new Tensor('float32', state[i], [rows, kvHeads, length, head])
    })
    const made = await session.run(feeds)
    state = slots.map(({ output }) => made[output].data)
    length++
    return made.logits.data.subarray(0, vocabulary)
  }
}

/** The engine's model: the official API with new entries as outputs. */
async function engine ({ folder, card, threads, rows, length }) {
  const { loadModel } = await source('plugins/chat/engine/load.ts')
  const { fullBatch } = await source('plugins/chat/engine/cache.ts')
  const env = { progress () {}, work: async (_label, _units, call) => await call(), log () {} }
  const { decoder } = await loadModel({ card, directory: folder, backend: 'cpu', threads, options: {} }, env)
  const state = fullBatch(Array(rows).fill(length), length, slots.map(() => stateOf(rows * kvHeads, length)))
  let batch = decoder.pack(state.lengths.map((_, row) => ({ batch: state, row, length })))
  return async () => {
    const made = await decoder.forward(batch, Array(rows).fill([ID]), true)
    batch = made.batch
    return made.logits[0]
  }
}

const MOST_STEPS = 64

/** The C API: states stay where they are, GroupQueryAttention writes into the one it reads. */
async function native ({ folder, threads, layout, rows, length }) {
  const session = openNative(join(folder, 'onnx/model.onnx'), threads)
  const shared = layout === 'genai'
  const room = shared ? length + MOST_STEPS : length
  const memory = slots.map(() => stateOf(rows * kvHeads, length, room))
  let state = memory.map((values) => session.tensor('float32', values, [rows, kvHeads, room, head]))
  return async () => {
    const small = around(rows, length, layout)
    const inputs = Object.fromEntries(small.map(([name, data, dims]) =>
      [name, session.tensor('int64', data, dims)]))
    slots.forEach(({ input }, i) => { inputs[input] = state[i] })
    const made = await session.run(inputs, ['logits', ...slots.map(({ output }) => output)],
      [null, ...shared ? state : state.map(() => null)])
    for (const [name] of small) session.release(inputs[name])
    if (!shared) {
      for (const value of state) session.release(value)
      state = made.slice(1)
    }
    length++
    const logits = session.floats(made[0], rows * vocabulary).subarray(0, vocabulary)
    session.release(made[0])
    return logits
  }
}

/** options: { how, folder, card, threads, layout, rows, length } */
await serveWorker(async ({ how, ...options }) => {
  const step = await { official, engine, native }[how](options)
  return {
    handle: async ({ steps }) => {
      const times = []
      const before = process.cpuUsage()
      let logits
      for (let i = 0; i < steps; i++) {
        const startedAt = performance.now()
        logits = await step()
        times.push(performance.now() - startedAt)
      }
      const { user, system } = process.cpuUsage(before)
      return {
        times, cpuMs: (user + system) / 1000 / steps, logits: Array.from(logits.slice(0, 64)),
        residentMb: process.memoryUsage.rss() / 1e6
      }
    }
  }
})
