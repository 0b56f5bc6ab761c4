import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { KvBatch } from '../engine/cache.js'
import { continued, fullBatch, hasRoom, packRows, viewOf } from '../engine/cache.js'
import type { CacheTensor } from '../engine/bind.js'
import { bind, firstPositionOf, namesOf } from '../engine/bind.js'
import { giveNewEntries, sliceBeforeHead } from '../engine/graph-changes.js'
import type { OnnxDecoder } from '../engine/model.js'
import { correlationOf, deviationOf } from '../engine/probe.js'
import { floatsOfHalves, hideFloat16Array } from '../engine/tensors.js'
import { decodeModel, encodeMessage, type OnnxModel } from '../../onnx/engine.js'
import { NotingJob } from './engine-fake.js'
import { GUIDE, SHARED, changing, openGraph, recomputed, refusal, withoutShared } from './engine-kit.js'
import { makeDecoder, type DecoderShape } from './engine-onnx.js'

const LENGTHS = [3, 17, 9, 1, 26, 5, 12, 2]
const TOKENS = 12
/** More than the spare room of a state. */
const LONG = 90

const SIZES = { kvHeads: 0, headSize: 0 }

/** The file with another version of the standard operators. */
function withOpset (file: Uint8Array, version: number): OnnxModel {
  const model = decodeModel(file)
  model.opsetImport = [encodeMessage('OperatorSetIdProto', { domain: '', version })]
  return model
}

const promptOf = (length: number, seed: number): number[] =>
  Array.from({ length }, (_, i) => (i * 13 + seed * 29) % 50 + 3)

/** Eight sequences of different lengths, alone without cache and in a batch that keeps changing. */
async function sameAlone (
  t: Test, decoder: OnnxDecoder, alone: OnnxDecoder = decoder, tokens = TOKENS
): Promise<void> {
  const jobs = LENGTHS.map((length, i) => new NotingJob(promptOf(length, i), tokens + i))
  await changing(decoder, jobs)
  for (const job of jobs) {
    if (job.error !== undefined) throw job.error
    t.same(job.written, await recomputed(alone, job.prompt, job.maxTokens))
  }
}

t.test('half precision is Uint16Array on every version of Node', async (t) => {
  t.notOk('Float16Array' in globalThis, 'hidden when the engine is loaded')
  const scope = {}
  Object.defineProperty(scope, 'Float16Array', { configurable: true, writable: true, value: class {} })
  hideFloat16Array(scope)
  t.notOk('Float16Array' in scope)
  hideFloat16Array(scope)
})

const SHAPES: Array<[string, DecoderShape, string]> = [
  ['plain', {}, 'left'],
  ['half precision', { half: true }, 'left'],
  ['GroupQueryAttention', { attention: 'gqa' }, 'right'],
  ['keys and values in one', { combined: true }, 'left'],
  ['num_logits_to_keep', { keep: true }, 'left'],
  ['hybrid state', { state: true }, 'left']
]

for (const [name, shape, padding] of SHAPES) {
  t.test(`${name}: a changing batch of 8 gives what each gives alone`, async (t) => {
    const { decoder, probed } = await openGraph(makeDecoder(shape))
    t.match(probed.batching, { padding, ragged: true, chunked: true })
    await sameAlone(t, decoder)
    const fresh = await openGraph(makeDecoder(shape), { fresh: true })
    t.match(fresh.probed.batching, { padding, ragged: true, chunked: true })
    await sameAlone(t, fresh.decoder, decoder, LONG)
    if (shape.keep === true) return
    const cut = await openGraph(makeDecoder(shape), { cut: true })
    await sameAlone(t, cut.decoder, decoder)
    const both = await openGraph(makeDecoder(shape), { cut: true, fresh: true })
    await sameAlone(t, both.decoder, decoder)
  })
}

t.test('only the last row of logits comes out of a cut graph', async (t) => {
  const ids = promptOf(20, 1)
  const [whole, cut] = [await openGraph(makeDecoder()), await openGraph(makeDecoder(), { cut: true })]
  const [a, b] = [whole, cut].map(async ({ decoder }) => await decoder.forward(decoder.empty(), [ids], true))
  t.ok(deviationOf((await a)!.logits[0]!, (await b)!.logits[0]!) < 1e-5)
  t.equal((await b)!.logits[0]!.buffer.byteLength, 64 * 4)
  t.equal((await a)!.logits[0]!.buffer.byteLength, 20 * 64 * 4)
})

t.test('a graph with one scale for all of a call is batched, padded and fed in pieces', async (t) => {
  for (const attention of ['plain', 'gqa'] as const) {
    const file = makeDecoder({ attention, dynamic: true })
    const padding = attention === 'plain' ? 'left' : 'right'
    const { decoder, probed } = await openGraph(file, { cut: true, fresh: true })
    t.match(probed.batching, { padding, ragged: true, chunked: true, maxRows: Infinity })
    // The head's input is quantised before it is sliced: the scale is that of all tokens, as in the file.
    const { decoder: whole, probed: unchanged } = await openGraph(file)
    t.match(unchanged.batching, { ragged: false, chunked: true, maxRows: Infinity }, 'without room')
    const ids = promptOf(20, 1)
    const [a, b] = [decoder, whole].map(async (each) => await each.forward(each.empty(), [ids], true))
    t.equal(deviationOf((await a)!.logits[0]!, (await b)!.logits[0]!), 0)
    // Two of one kind have the scale of each alone; different ones differ by quantisation.
    const start = (await a)!.batch
    const row = { batch: start, row: 0, length: 20 }
    const [one, two] = [await decoder.forward(start, [[3]], true),
      await decoder.forward(decoder.pack([row, { ...row, length: 7 }]), [[3], [9]], true)]
    const off = deviationOf(one.logits[0]!, two.logits[0]!)
    t.ok(off > 0 && off < 0.2, `${off}`)
    t.ok(correlationOf(one.logits[0]!, two.logits[0]!) > 0.9)
  }
  t.ok(correlationOf(Float32Array.of(1, 2, 3), Float32Array.of(3, 1, 2)) < 0)
  t.not(correlationOf(Float32Array.of(1, 2), Float32Array.of(1)) >= 0, true, 'of different sizes')
})

t.test('damaged files are no reason to crash', async (t) => {
  const file = makeDecoder()
  t.throws(() => decodeModel(file.subarray(0, 5000)), { name: 'RangeError', message: /no ONNX file/ })
  t.throws(() => decodeModel(Buffer.from('version https://git-lfs.github.com/spec/v1')), RangeError)
  t.throws(() => decodeModel(Buffer.alloc(20, 0xff)), RangeError)
  t.equal(sliceBeforeHead(decodeModel(Buffer.alloc(0)), 'logits'), false)
  t.equal(sliceBeforeHead(decodeModel(file), 'vectors'), false, 'no such output')
  t.equal(giveNewEntries(decodeModel(Buffer.alloc(0)), SIZES), undefined)
  t.throws(() => giveNewEntries(decodeModel(makeDecoder({ odd: true })), SIZES), /pixel_values/)
  t.equal(giveNewEntries(withOpset(file, 10), SIZES), undefined, 'no GatherElements there')
  t.match(await refusal(openGraph(file.subarray(0, 90_000))), { reason: 'model_invalid' })
})

t.test('graphs that cannot be fed are refused by name', async (t) => {
  const table: Array<[DecoderShape, RegExp]> = [
    [{ odd: true }, /"pixel_values" \(float32 \[1\]\) that this engine does not know/],
    [{ lost: true }, /"past_key_values\.0\.key".*no output carries it on/],
    [{ ids: 'float32' }, /"input_ids" of the graph has type float32: int64 and int32/],
    [{ layers: 0 }, /no past key values/]
  ]
  for (const [shape, message] of table) {
    t.match(await refusal(openGraph(makeDecoder(shape))), { reason: 'model_invalid', message })
  }
})

t.test('what a graph may look like', (t) => {
  const ids = { name: 'input_ids', type: 'int64', shape: ['b', 's'] }
  const logits = { name: 'logits', type: 'float32', shape: ['b', 's', 'v'] }
  const sizes = { kvHeads: 4, headSize: 8 }
  const one = (input: object, output: object) => () => bind(
    [ids, { name: 'past_key_values.0.key', type: 'float32', shape: ['b', 4, 'past', 8], ...input }],
    [logits, { name: 'present.0.key', type: 'float32', shape: ['b', 4, 'all', 8], ...output }], sizes)
  t.match(one({}, {})().tensors, [{ lead: 1, heads: 4, width: 8, grows: true }])
  const { tensors } = one({ shape: ['b', 'h', 'past', 'w'] }, {})()
  t.match(tensors, [{ heads: 4, width: 8 }], 'sizes of the card')
  t.match(one({ shape: [1, 4, 'past', 8] }, {})(), { single: true })
  t.throws(one({ type: 'int8' }, {}), /type int8: float32 and float16/)
  t.throws(one({ type: 'float16' }, {}), /float16, but comes back as float32/)
  t.throws(one({ shape: ['b*h', 8, 'past'] }, {}), /has shape \[b\*h, 8, past\]/)
  t.throws(one({ shape: ['b', 4, 128, 8] }, {}), /served are/)
  t.throws(one({ name: 'use_cache_branch' }, {}), /"use_cache_branch"/)
  t.equal(firstPositionOf({ model_type: 'gemma3_text' }), 1)
  t.equal(firstPositionOf({ model_type: 'llama' }), 0)
  t.throws(() => bind([], [logits], sizes), /no input "input_ids": it has/)
  t.throws(() => bind([ids], [], sizes), /no output "logits"/)
  t.throws(() => bind([ids, { name: 'position_ids', type: 'int64', shape: [3, 'b', 's'] }], [logits], sizes),
    /at most 2 dimensions/)
  const named = namesOf({ model: { decoder: {
    inputs: { input_ids: 'tokens', past_names: 'kv_in.%d' },
    outputs: { logits: 'scores', present_names: 'kv_out.%d' }
  } } })
  const renamed = bind(
    [{ ...ids, name: 'tokens' }, { name: 'kv_in.0', type: 'float16', shape: [2, 'b', 4, 'p', 8] }],
    [{ ...logits, name: 'scores' }, { name: 'kv_out.0', type: 'float16', shape: [2, 'b', 4, 'p', 8] }], sizes,
    named)
  t.match(renamed, { ids: { name: 'tokens' }, logits: { name: 'scores' },
    tensors: [{ output: 'kv_out.0', lead: 2 }] })
  t.end()
})

t.test('rows are moved with their padding', (t) => {
  const tensors: CacheTensor[] = [
    { input: '', output: '', type: 'float32', lead: 2, heads: 2, width: 1, grows: true, rest: [] },
    { input: '', output: '', type: 'float16', lead: 1, heads: 1, width: 3, grows: false, rest: [3] }
  ]
  const one = (length: number, from: number): KvBatch => fullBatch([length], length,
    [Float32Array.from({ length: 4 * length }, (_, i) => from + i), Uint16Array.of(from, from, from)])
  for (const padding of ['left', 'right'] as const) {
    const sources = [one(3, 10), one(1, 50)].map((batch) => ({ batch, row: 0, length: batch.span }))
    const packed = packRows(tensors, sources, padding)
    const short = padding === 'left' ? [0, 0, 50] : [50, 0, 0]
    t.same([...packed.parts[0]!.slice(6, 9)], short)
    t.same([...packed.parts[1]!], [10, 10, 10, 50, 50, 50])
    for (const [row, source] of sources.entries()) {
      const back = packRows(tensors, [{ batch: packed, row, length: source.length }], padding)
      t.same(back.parts, source.batch.parts)
    }
    const begin = packRows(tensors, [{ batch: packed, row: 0, length: 2 }], padding)
    t.same([...begin.parts[0]!], [10, 11, 13, 14, 16, 17, 19, 20], 'the first two tokens of each head')
  }
  t.end()
})

t.test('states go on in place while there is room', (t) => {
  const tensors: CacheTensor[] = [
    { input: '', output: '', type: 'float32', lead: 2, heads: 2, width: 1, grows: true, rest: [] },
    { input: '', output: '', type: 'float32', lead: 1, heads: 1, width: 2, grows: false, rest: [2] }
  ]
  const rows = [[1, 2, 3], [4]].map((values, row) => ({
    batch: fullBatch([values.length], values.length, [
      Float32Array.from([0, 1, 2, 3].flatMap((block) => values.map((value) => 10 * block + value))),
      Float32Array.of(row, row)
    ]),
    row: 0,
    length: values.length
  }))
  // Lead, row, head of the fast-moving blocks: values tell them apart.
  const fresh = (from: number): Float32Array => Float32Array.from({ length: 8 }, (_, i) => from + i)
  for (const [padding, seen] of [
    ['left', [[1, 2, 3, 100, 200], [0, 0, 4, 102, 202]]],
    ['right', [[1, 2, 3, 100, 200], [4, 102, 202, 0, 0]]]
  ] as const) {
    const first = packRows(tensors, rows, padding, 2)
    const second = continued(tensors, first, [fresh(100), Float32Array.of(7, 8, 9, 9)], 1, padding)
    t.notOk(hasRoom(first, 1), 'an older batch cannot go on in place')
    t.ok(hasRoom(second, 1))
    t.notOk(hasRoom(second, 2))
    const third = continued(tensors, second, [fresh(200), Float32Array.of(1, 2, 3, 4)], 1, padding)
    t.notOk(hasRoom(third, 1))
    t.equal(third.parts[0], first.parts[0], 'nothing was copied')
    t.same(third.parts[1], Float32Array.of(1, 2, 3, 4))
    t.match(third, { lengths: [5, 3], span: 5, room: 5 })
    const view = viewOf(tensors[0]!, third.parts[0]!, third)
    t.equal(view.length, 2 * 2 * 2 * 5)
    t.same([[...view.slice(0, 5)], [...view.slice(10, 15)]], seen, 'the first head of each row')
    for (const [row, { batch }] of rows.entries()) {
      const back = packRows(tensors, [{ batch: first, row, length: batch.span }], padding)
      t.same(back.parts[0], batch.parts[0], 'the older batch is what it was')
    }
  }
  t.end()
})

t.test('half-precision floats', (t) => {
  const halves = [0, 0x8000, 0x3c00, 0xc000, 1, 0x03ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x3555]
  t.same([...floatsOfHalves(Uint16Array.from(halves))],
    [0, -0, 1, -2, 2 ** -24, 1023 * 2 ** -24, 2 ** -14, 65504, Infinity, -Infinity, NaN, 0.333251953125])
  t.end()
})

t.test('real files: the model that ships and, where they are at hand, both public layouts', async (t) => {
  const data = join(SHARED, 'data')
  const table: Array<[string, string, boolean]> = [
    [join(data, 'stories260K/optimum/model.onnx'), 'left', true],
    [join(data, 'stories260K/genai-gqa/model.onnx'), 'right', true],
    [join(data, 'ort-genai-tiny-random-gpt2-fp32/past.onnx'), 'left', true],
    [join(data, 'ort-genai-tiny-random-lfm2-fp32/decoder.onnx'), 'left', true],
    [join(GUIDE, 'onnx/model_quantized.onnx'), 'left', true],
    [join(data, 'ort-genai-tiny-random-llama-fp16/model.onnx'), 'left', true]
  ]
  for (const [path, padding, cut] of table.filter(([path]) => existsSync(path))) {
    const genai = join(path, '../genai_config.json')
    const names = await readFile(genai, 'utf8').then((text) => ({ genai: JSON.parse(text) as unknown }), () =>
      ({}))
    const { decoder, probed } = await openGraph(path, names)
    t.match(probed.batching, { padding, ragged: true }, path)
    await sameAlone(t, decoder, decoder, 5)
    t.equal(sliceBeforeHead(decodeModel(await readFile(path)), 'logits'), cut)
    await sameAlone(t, (await openGraph(path, { ...names, cut, fresh: true })).decoder, decoder, 5)
  }
})

t.test('truncated weights beside the graph', { skip: withoutShared }, async (t) => {
  const from = join(SHARED, 'data/ort-genai-tiny-random-llama-fp16')
  const dir = t.testdir()
  await writeFile(join(dir, 'model.onnx'), await readFile(join(from, 'model.onnx')))
  await writeFile(join(dir, 'model.onnx.data'),
    (await readFile(join(from, 'model.onnx.data'))).subarray(0, 1e6))
  t.match(await refusal(openGraph(join(dir, 'model.onnx'))), { reason: 'model_invalid' })
})
