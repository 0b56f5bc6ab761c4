import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { CardError } from '../../runners/cards/reader.js'
import { readGguf } from '../../llama-cpp/cards/gguf.js'
import { readOnnxHeader, type OnnxHeader } from '../../runners/onnx/facts.js'
import { filePathProblem } from '../files/names.js'
import {
  decoder, external, field, gguf, graph, hostileArray, llama, message, node, onnx, repository, sharedData,
  tensor, u64, varint, type GgufParts
} from './cards-kit.js'

const dir = mkdtempSync(join(tmpdir(), 'svc-cards-'))
t.teardown(() => { rmSync(dir, { recursive: true, force: true }) })
const path = join(dir, 'file')
const from = <T>(read: (path: string) => Promise<T>) => async (bytes: Uint8Array): Promise<T> => {
  writeFileSync(path, bytes)
  return await read(path)
}
const readHeader = async (path: string): Promise<OnnxHeader> => await readOnnxHeader(path, filePathProblem)
const readO = from(readHeader)
const readG = from(readGguf)

const refused = (message: RegExp): { name: string, message: RegExp } => ({ name: 'CardError', message })

/** The value that `read` returns; undefined if it throws a CardError. */
async function outcome<T> (
  read: (bytes: Uint8Array) => Promise<T>, bytes: Uint8Array
): Promise<T | undefined> {
  try {
    return await read(bytes)
  } catch (error) {
    if (error instanceof CardError) return undefined
    throw error
  }
}

t.test('an ONNX header', async (t) => {
  const header = await readO(onnx({
    ...decoder,
    nodes: [
      message(
        field(4, 'MatMulNBits'), field(7, 'com.microsoft'),
        field(5, message(field(1, 'K'), field(3, 64))), field(5, message(field(1, 'bits'), field(3, 4)))
      ),
      node('If', message(field(1, 'then_branch'), field(6, graph({
        nodes: [node('Constant', message(field(1, 'value'), field(5, tensor('c', 3))))]
      }))))
    ],
    initializers: [
      tensor('w', 12), tensor('q', 7, 3),
      external({ location: 'model.onnx.data', offset: '64', length: '32' }),
      external({ location: './other.bin' })
    ],
    metadata: { comment: 'test' }
  }))
  t.match(header, {
    inputs: { length: 6 },
    outputs: [{ name: 'logits', elemType: 1, dims: ['batch', 'sequence', 100] }],
    externalFiles: ['model.onnx.data', 'other.bin'],
    weightBits: 4
  })
  t.same(header.inputs[2], { name: 'past_key_values.0.key', elemType: 1, dims: ['batch', 2, 'past', 16] })
  t.same([...header.bytesByType], [[1, 48 + 12 + 32 + 32], [3, 7]])
  t.same([...header.externalBytes], [['model.onnx.data', 96], ['other.bin', 32]])
  t.same([...header.opTypes], ['com.microsoft.MatMulNBits', 'Constant', 'If'])
  t.same([...header.opsets], [['', 17]])
  const bits = onnx({
    ...decoder, nodes: [node('MatMulNBits', message(field(1, 'bits'), field(3, 8)))]
  })
  t.equal((await readO(bits)).weightBits, 8)
})

t.test('raw weights are skipped: a graph of 5 GB is read at once', async (t) => {
  const giga = 5 * 2 ** 30
  const weights = message(field(1, giga / 4), field(2, 1), varint(9 * 8 + 2), varint(giga))
  const initializer = message(varint(5 * 8 + 2), varint(weights.length + giga), weights)
  const rest = graph({ inputs: decoder.inputs!, outputs: decoder.outputs! })
  const head = message(varint(7 * 8 + 2), varint(initializer.length + giga + rest.length), initializer)
  const big = join(dir, 'big.onnx')
  writeFileSync(big, head)
  truncateSync(big, head.length + giga)
  writeFileSync(big, rest, { flag: 'a' })
  const before = process.memoryUsage().rss
  const header = await readHeader(big)
  t.equal(header.bytesByType.get(1), giga)
  t.equal(header.inputs.length, 6)
  t.ok(process.memoryUsage().rss - before < 256 * 2 ** 20, 'in little memory')
  truncateSync(big, head.length + giga - 1)
  await t.rejects(readHeader(big), CardError)
})

t.test('hostile ONNX files', async (t) => {
  const nested = (depth: number): Buffer => depth === 0
    ? graph({ nodes: [node('Add')] })
    : graph({ nodes: [node('If', message(field(1, 'b'), field(6, nested(depth - 1))))] })
  const deep = (depth: number): Buffer =>
    message(field(7, Buffer.concat([nested(depth), graph({ outputs: decoder.outputs! })])))
  t.equal((await readO(deep(20))).outputs.length, decoder.outputs!.length)
  const hostile: Array<[string, Buffer, RegExp]> = [
    ['nothing', Buffer.alloc(0), /0 graphs/],
    ['zeros', Buffer.alloc(100), /field number/],
    ['text', Buffer.from('version https://git-lfs.github.com/spec/v1\noid sha256:00'), /broken/],
    ['a pickle', Buffer.from('\x80\x02}q\x00.', 'latin1'), /broken/],
    ['a zip archive', Buffer.from('PK\x03\x04\x00\x00\x08\x08'), /broken/],
    ['a graph longer than the file', Buffer.concat([varint(58), varint(2 ** 60)]), /longer than its message/],
    ['an endless number', Buffer.alloc(50, 0xff), /ten bytes/],
    ['two graphs', Buffer.concat([onnx(decoder), onnx(decoder)]), /2 graphs/],
    ['a node longer than its graph', field(7, Buffer.concat([varint(10), varint(1000)])), /longer than/],
    ['graphs in graphs', deep(2000), /messages are nested deeper than 96/],
    ['groups', Buffer.from([7 * 8 + 3, 7 * 8 + 4]), /wire type 3/],
    ['a graph that is a number', field(7, 1), /should be a message/],
    ['a name that is a number', field(7, field(11, field(1, 3))), /should be text/],
    ['a long name', onnx({ outputs: [['x'.repeat(5000), 1, []]] }), /longer than 4096/],
    ['many outputs', onnx({ outputs: Array.from({ length: 5000 }, (_, i) => [`${i}`, 1, []]) }), /4096/],
    ['many dimensions', onnx({ outputs: [['x', 1, new Array<number>(1000).fill(2)]] }), /64 dimensions/],
    ['many operators', onnx({
      ...decoder, nodes: Array.from({ length: 5000 }, (_, i) => node(`Op${i}`))
    }), /4096 operators/]
  ]
  for (const [what, bytes, expected] of hostile) {
    await t.rejects(readO(bytes), refused(expected), what)
  }
  for (const location of [
    '../../etc/passwd', '/etc/passwd', 'a/../../b', '..', '', 'C:\\x', '\\\\host\\x', 'a\0b', './../x',
    '.svc-record.json'
  ]) {
    const weights = external({ location })
    const places = [
      { ...decoder, initializers: [weights] },
      { ...decoder, nodes: [node('Constant', message(field(1, 'value'), field(5, weights)))] },
      { ...decoder, nodes: [node('If', message(field(6, graph({ initializers: [weights] }))))] }
    ]
    for (const parts of places) {
      await t.rejects(readO(onnx(parts)), /the path of its weights is invalid/, JSON.stringify(location))
    }
  }
  const bad = [['-1', '4'], ['0', '-4'], ['9007199254740991', '4'], ['x', '4'], ['0', '1e400'], ['0.5', '1']]
  for (const [offset, length] of bad) {
    const place = external({ location: 'w', offset: offset!, length: length! })
    await t.rejects(readO(onnx({ ...decoder, initializers: [place] })), /impossible/, `${offset} ${length}`)
  }
})

t.test('a file of nothing but tiny fields is given up', async (t) => {
  await t.rejects(readO(Buffer.alloc(18_000_000, Buffer.from([8, 1]))), refused(/more than 8000000 fields/))
})

t.test('cut anywhere, an ONNX file is an error or still right', async (t) => {
  const whole = onnx({
    ...decoder, nodes: [node('If', message(field(6, graph(decoder))))], metadata: { a: 'b' },
    initializers: [tensor('w', 30), external({ location: 'w.data', length: '4' })]
  })
  const full = await readO(whole)
  let right = 0
  for (let n = 0; n < whole.length; n++) {
    const header = await outcome(readO, whole.subarray(0, n))
    if (header === undefined) continue
    if (header.inputs.length !== full.inputs.length) t.fail(`${n} bytes`)
    right++
  }
  t.ok(right > 0 && right < 20, `${right} of ${whole.length} cuts are whole graphs`)
})

t.test('flipped anywhere, headers never break the reader', async (t) => {
  // A generator with a fixed seed, so that every run has the same files.
  let state = 12_345
  const next = (below: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return (state >>> 8) % below
  }
  const files: Array<[Buffer, (bytes: Uint8Array) => Promise<unknown>]> = [
    [onnx({ ...decoder, initializers: [tensor('w', 30), external({ location: 'w', length: '4' })] }), readO],
    [gguf(llama), readG]
  ]
  let [errors, answers] = [0, 0]
  for (const [whole, read] of files) {
    for (let i = 0; i < 250; i++) {
      const bytes = Buffer.from(whole)
      for (let flips = next(4); flips >= 0; flips--) bytes[next(bytes.length)] = next(256)
      if (await outcome(read, bytes) === undefined) errors++
      else answers++
    }
  }
  t.ok(errors > 30 && answers > 30, `${errors} errors, ${answers} answers`)
})

t.test('a GGUF header', async (t) => {
  for (const version of [2, 3]) {
    const header = await readG(gguf({ ...llama, version }))
    t.ok(header.metadata.has('general.architecture'), String(version))
    t.equal(header.metadata.get('llama.block_count'), 4)
    t.equal(header.metadata.get('general.architecture'), 'llama')
    t.same(header.metadata.get('tokenizer.ggml.tokens'), { length: 3, values: null })
    t.same(header.metadata.get('llama.attention.head_count_kv'), { length: 4, values: [2, 4, 4, 2] })
    t.same(header.tensors.map(({ type, bytes }) => [type, bytes]), [['fp32', 512], ['Q4_K', 144]])
  }
  const typed = async (type: number, bytes: Buffer): Promise<unknown> => {
    const value = Buffer.concat([Buffer.from([type, 0, 0, 0]), bytes])
    return (await readG(gguf({ metadata: { x: value } }))).metadata.get('x')
  }
  const f32 = Buffer.alloc(4)
  f32.writeFloatLE(-1.5)
  const f64 = Buffer.alloc(8)
  f64.writeDoubleLE(0.1)
  const cases: Array<[number, Buffer, unknown]> = [
    [0, Buffer.from([200]), 200], [1, Buffer.from([200]), -56], [2, Buffer.from([1, 128]), 32769],
    [3, Buffer.from([1, 128]), -32767], [5, Buffer.from([255, 255, 255, 255]), -1], [6, f32, -1.5],
    [7, Buffer.from([1]), true], [10, u64(5), 5], [11, u64(2n ** 64n - 3n), -3], [12, f64, 0.1]
  ]
  for (const [type, bytes, expected] of cases) t.equal(await typed(type, bytes), expected, `type ${type}`)
  const long = await readG(gguf({ metadata: { x: 'y'.repeat(2 ** 20 + 1), z: 7 } }))
  t.same([long.metadata.get('x'), long.metadata.get('z')], [null, 7], 'a text over 1 MiB is passed by')
  const many = Array.from({ length: 200_000 }, (_, i) => `token ${i}`)
  const vocabulary = await readG(gguf({ metadata: { t: many, z: 7 } }))
  t.same(vocabulary.metadata.get('t'), { length: 200_000, values: null })
})

t.test('hostile GGUF files', async (t) => {
  const one = (dims: Array<number | bigint>, offset: number | bigint, type = 0): GgufParts =>
    ({ metadata: {}, tensors: [{ name: 'w', dims, type, offset }], data: 64 })
  const nested = (depth: number): Buffer => depth === 0
    ? Buffer.concat([Buffer.from([4, 0, 0, 0]), u64(0)])
    : Buffer.concat([Buffer.from([9, 0, 0, 0]), u64(1), nested(depth - 1)])
  const arrays = (depth: number): Buffer => Buffer.concat([Buffer.from([9, 0, 0, 0]), nested(depth)])
  t.equal((await readG(gguf({ metadata: { a: arrays(5) } }))).metadata.size, 1)
  const text = (length: bigint): Buffer => gguf({
    metadata: { x: Buffer.concat([Buffer.from([8, 0, 0, 0]), u64(length)]) }
  })
  const hostile: Array<[string, Buffer, RegExp]> = [
    ['nothing', Buffer.alloc(0), /it is not a GGUF file/],
    ['another format', Buffer.from('GGML' + '\0'.repeat(60)), /it is not a GGUF file/],
    ['version 1', gguf({ version: 1 }), /version 1/],
    ['big-endian', gguf({ version: 0x03000000 }), /version 50331648/],
    ['2^60 entries', gguf({ pairs: 2n ** 60n, data: 100 }), /1152921504606846976 metadata entries/],
    ['2^64-1 tensors', gguf({ count: 2n ** 64n - 1n, data: 100 }), /tensors, more than the file can hold/],
    ['more tensors than anyone has', gguf({ count: 70_000n, data: 2_000_000 }), /more than 65536/],
    ['a long key', gguf({ pairs: 1n, data: 0 }).fill(0xff, 24), /too large|broken/],
    ['a key of 100 KiB', gguf({ metadata: { ['k'.repeat(100_000)]: 1 } }), /longer than 65535/],
    ['a text longer than the file', text(2n ** 40n), /ends before/],
    ['a text of 2^63', text(2n ** 63n), /too large/],
    ['an array of 2^60 numbers', gguf({ metadata: { x: hostileArray(4, 2n ** 60n) } }), /array items/],
    ['an array of 2^60 texts', gguf({ metadata: { x: hostileArray(8, 2n ** 60n) } }), /array items/],
    ['a text of 2^60', gguf({ metadata: { x: hostileArray(8, 1n, u64(2n ** 60n)) } }), /exceeds the file/],
    ['an array of unknown type', gguf({ metadata: { x: hostileArray(77, 0n) } }), /type 77/],
    ['a value of unknown type', gguf({ metadata: { x: Buffer.from([13, 0, 0, 0]) }, data: 64 }), /type 13/],
    ['arrays in arrays', gguf({ metadata: { x: arrays(50) } }), /more than 8 levels/],
    ['an alignment of 0', gguf({ metadata: { 'general.alignment': 0 } }), /alignment/],
    ['an alignment of 33', gguf({ metadata: { 'general.alignment': 33 } }), /alignment/],
    ['a tensor behind the end', gguf(one([4], 60)), /ends at byte/],
    ['a tensor of 2^60', gguf(one([2n ** 60n], 0)), /ends at byte/],
    ['a tensor of 2^240', gguf(one([2n ** 60n, 2n ** 60n, 2n ** 60n, 2n ** 60n], 0)), /ends at byte/],
    ['an offset of 2^64-1', gguf(one([1], 2n ** 64n - 1n)), /ends at byte/],
    ['an unknown type behind the end', gguf(one([1], 4096, 999)), /ends at byte/],
    ['a tensor of 9 dimensions', gguf(one(new Array<number>(9).fill(1), 0)), /9 dimensions/]
  ]
  for (const [what, bytes, expected] of hostile) {
    await t.rejects(readG(bytes), refused(expected), what)
  }
  const huge = join(dir, 'huge.gguf')
  writeFileSync(huge, gguf({ metadata: { x: Buffer.concat([Buffer.from([8, 0, 0, 0]), u64(2 ** 27)]) } }))
  truncateSync(huge, 2 ** 28)
  await t.rejects(readGguf(huge), /header is longer than 67108864/, 'a header of 128 MiB')
})

t.test('cut anywhere, a GGUF file is an error', async (t) => {
  const whole = gguf(llama)
  await readG(whole)
  for (let n = 0; n < whole.length; n++) {
    if (await outcome(readG, whole.subarray(0, n)) !== undefined) t.fail(`${n} bytes`)
  }
})

t.test('only regular files are opened', async (t) => {
  execFileSync('mkfifo', [join(dir, 'fifo')])
  symlinkSync('/etc/hostname', join(dir, 'link'))
  const cases: Array<[string, RegExp]> = [
    ['fifo', /not a regular file/], ['link', /cannot be opened/], ['.', /not a regular file/],
    ['gone', /ENOENT/]
  ]
  for (const [name, expected] of cases) {
    await t.rejects(readGguf(join(dir, name)), expected, name)
    await t.rejects(readHeader(join(dir, name)), CardError, name)
  }
})

t.test('the files that ship', async (t) => {
  const guide = await readGguf(join(repository, 'plugins/chat/guide/model/guide.gguf'))
  t.equal(guide.metadata.get('general.architecture'), 'llama')
  const folder = join(repository, 'plugins/capabilities-tts/voice')
  const voices = readdirSync(folder).filter((name) => name.endsWith('.onnx'))
  t.ok(voices.length > 0)
  for (const name of voices) t.ok((await readHeader(join(folder, name))).opTypes.size > 0, name)
})

const data = sharedData()
t.test('real files', { skip: data === undefined && 'no folder of shared models' }, async (t) => {
  const at = (name: string): string => join(data!, name)
  const header = await readGguf(at('stories260K/s260k.gguf'))
  t.ok(header.metadata.has('general.architecture'))
  t.same(header.metadata.get('tokenizer.ggml.tokens'), { length: 512, values: null })
  t.equal(header.metadata.get('llama.context_length'), 512)
  const fp16 = await readHeader(at('ort-genai-tiny-random-llama-fp16/model.onnx'))
  t.same(fp16.externalFiles, ['model.onnx.data'])
  t.equal(fp16.externalBytes.get('model.onnx.data'), 2_130_080)
  const vocoder = await readHeader(at('hifigan-lj-v2/hifigan_v2.onnx'))
  t.match(vocoder, {
    inputs: [{ name: 'mel', elemType: 1, dims: ['batch', 80, 'frames'] }], outputs: [{ name: 'audio' }]
  })
  t.ok(vocoder.opTypes.has('ConvTranspose') && vocoder.bytesByType.get(1)! > 3_600_000)
  for (const name of ['tinytts-parts/text_encoder.onnx', 'ort-genai-tiny-random-lfm2-fp32/decoder.onnx']) {
    t.ok((await readHeader(at(name))).opTypes.size > 0, name)
  }
})
