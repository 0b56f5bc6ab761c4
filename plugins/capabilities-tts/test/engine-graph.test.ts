import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { loadFamily } from '../engine/load.js'
import { decodeLocal, findLocalTail } from '../engine/local-tail.js'
import { closureOf, decodeModel, encodeModel, extractModel, indexGraph } from '../../runners/onnx/engine.js'
import { seedNoise, gaussian, NOISE_INPUT, NOISE_LENGTH, NOISE_START } from '../engine/seeded-noise.js'
import { float32, floats, int64, Sessions, type Feeds } from '../engine/sessions.js'
import { PieceLengths, type SpeechRequest } from '../engine/family.js'
import { makePiper, TINY, type VitsShape } from './fixtures/make-graphs.js'
import { difference, embeddedSpec, gather, IPA, piperSpec, quietEnv, VOICE_DIR } from './engine-kit.js'

const never = new AbortController().signal
const request = (voice: string, fields: Partial<SpeechRequest> = {}): SpeechRequest => ({
  text: IPA,
  voice,
  language: 'ipa',
  speed: 1,
  temperature: 1,
  seed: 7,
  maxSymbols: Infinity,
  pace: new PieceLengths(0.02, 4),
  ...fields
})

t.test('a decoded file is written back without loss', async (t) => {
  const bytes = await readFile(join(VOICE_DIR, 'en_US-flite-16k.onnx'))
  const again = encodeModel(decodeModel(bytes))
  const [a, b] = [indexGraph(decodeModel(bytes)), indexGraph(decodeModel(again))]
  t.equal(again.length, bytes.length)
  t.same([...b.initializers.keys()], [...a.initializers.keys()])
  t.same(b.model.graph.node, a.model.graph.node)
})

t.test('the local tail of a VITS graph is its decoder, with its true reach', async (t) => {
  const check = (name: string, shape: VitsShape, hop: number, overlap: number, extra: string[]): void => {
    const index = indexGraph(decodeModel(makePiper(shape).bytes))
    const tail = findLocalTail(index, 'output', ['sid'])
    const conv = index.model.graph.node.find((n) => n.name === '/dec/conv_pre/Conv')
    t.match(tail, { hop, overlap, extra, tensor: conv?.input[0] }, name)
  }
  // Overlap: 3 (conv_pre) + 1.4 + 5.6 (kernel 7, dilation 12, 8 samples/frame) + later stages = 11.1 frames.
  check('medium: hop 256', { ...TINY, upsample: [8, 8, 4] }, 256, 11, [])
  check('two strides of 4', TINY, 16, 18, [])
  check('the speaker id goes along', { ...TINY, speakers: 3 }, 16, 18, ['sid'])
})

t.test('a graph without a local tail, or with unknown names, is not cut', async (t) => {
  const index = indexGraph(decodeModel(makePiper({ ...TINY, speakers: 2 }).bytes))
  t.equal(findLocalTail(index, 'output', []), undefined, 'sid is needed and not allowed')
  t.throws(() => extractModel(index, ['nowhere'], ['output']), { message: /no tensor "nowhere"/ })
})

t.test('a closure follows what bodies of If and Loop use', async (t) => {
  const { node } = decodeModel(makePiper(TINY).bytes).graph
  const index = indexGraph(decodeModel(makePiper(TINY).bytes))
  t.equal(
    closureOf(index, ['output'], new Set()).nodes.size, node.length, 'every node of the fixture is used'
  )
  const { If } = await import('./fixtures/if-graph.js')
  t.same([...closureOf(indexGraph(If), ['y'], new Set()).inputs].sort(), ['a', 'condition'])
})

t.test('noise nodes become a table lookup; other graphs stay as they are', async (t) => {
  const index = indexGraph(decodeModel(makePiper(TINY).bytes))
  const { model, seeded, fed } = seedNoise(index)
  t.match({ seeded, fed }, { seeded: true, fed: true })
  t.notOk(model.graph.node.some((n) => n.opType === 'RandomNormalLike'))
  const voice = indexGraph(decodeModel(await readFile(join(VOICE_DIR, 'en_US-flite-16k.onnx'))))
  t.equal(seedNoise(voice).model, voice.model, 'the embedded voice draws nothing')
})

t.test('the noise table is standard normal and follows its seed', async (t) => {
  const table = gaussian(5, NOISE_LENGTH)
  const mean = table.reduce((a, b) => a + b, 0) / table.length
  const variance = table.reduce((a, b) => a + b * b, 0) / table.length
  t.ok(Math.abs(mean) < 0.01 && Math.abs(variance - 1) < 0.02, `mean ${mean}, variance ${variance}`)
  t.same(gaussian(5, 100), table.slice(0, 100))
  t.notSame(gaussian(6, 100), table.slice(0, 100))
})

t.test('piper: pieces equal the whole run', async (t) => {
  const check = async (name: string, shape: VitsShape, voice: string, sid: number): Promise<void> => {
    const spec = await piperSpec(t.testdir(), { shape })
    const family = await loadFamily(spec, quietEnv())
    const asked = request(voice)
    const [unit] = [...family.prepare(IPA, asked)]
    if (unit === undefined) throw new Error('no unit')
    const cut = await gather(family.synth(unit, asked, never))
    const whole = await wholePiper(shape, unit.ids, sid)
    t.ok(difference(cut.samples, whole) < 1e-5, `${name}: differs by ${difference(cut.samples, whole)}`)
    t.ok(cut.pieces > 3, `${name}: ${cut.pieces} pieces`)
    t.ok(whole.some((v) => Math.abs(v) > 0.01), `${name} is not silent`)
    await family.close()
  }
  await check('one speaker', TINY, 'default', 0)
  await check('three speakers', { ...TINY, speakers: 3 }, 's2', 2)
  await check('hop 256', { ...TINY, upsample: [8, 8, 4] }, 'default', 0)
})

/** The uncut graph's samples, with the noise that seed 7 gives the first unit. */
async function wholePiper (shape: VitsShape, ids: number[], sid: number): Promise<Float32Array> {
  const sessions = new Sessions({ backend: 'cpu', threads: 1 }, quietEnv())
  const { model } = seedNoise(indexGraph(decodeModel(makePiper(shape).bytes)))
  const session = await sessions.open(encodeModel(model), 'the whole voice')
  const feeds: Feeds = {
    input: int64(ids, [1, ids.length]),
    input_lengths: int64([ids.length], [1]),
    scales: float32([0.667, 1, 0.8], [3]),
    [NOISE_INPUT]: float32(gaussian(7, NOISE_LENGTH), [NOISE_LENGTH]),
    [NOISE_START]: int64([0], [])
  }
  if (shape.speakers > 1) feeds['sid'] = int64([sid], [1])
  const samples = floats((await session.run(feeds))['output'], 'output')
  await sessions.close()
  return samples
}

t.test('embedded voice: pieces equal the whole run', async (t) => {
  const spec = await embeddedSpec()
  const family = await loadFamily(spec, quietEnv())
  const sessions = new Sessions(spec, quietEnv())
  const whole = await sessions.open(join(VOICE_DIR, 'en_US-flite-16k.onnx'), 'the whole voice')
  for (const [voice, sid] of [['rms', 0], ['slt', 1]] as const) {
    const asked = request(voice)
    const [unit] = [...family.prepare(IPA, asked)]
    if (unit === undefined) throw new Error('no unit')
    const cut = await gather(family.synth(unit, asked, never))
    const { output } = await whole.run({
      input: int64(unit.ids, [1, unit.ids.length]),
      input_lengths: int64([unit.ids.length], [1]),
      scales: float32([0.667, 1, 0.007], [3]),
      sid: int64([sid], [1])
    })
    const apart = difference(cut.samples, floats(output, 'output'))
    t.ok(apart < 1e-6, `${voice}: differs by ${apart}`)
    t.ok(
      cut.pieces > 3 && cut.samples.some((v) => Math.abs(v) > 0.1), `${voice}: ${cut.pieces} pieces, audible`
    )
  }
  await sessions.close()
  await family.close()
})

t.test('pieces cover all frames once, whatever their length', async (t) => {
  for (const first of [0.001, 0.01, 1, 100]) {
    const run = async (from: number, to: number): Promise<Float32Array> =>
      Float32Array.from({ length: (to - from) * 2 }, (_, i) => from * 2 + i)
    const tail = { frames: 101, hop: 2, overlap: 7, sampleRate: 200, run }
    const { samples } = await gather(decodeLocal(tail, new PieceLengths(first, 100), never))
    t.same([...samples], Array.from({ length: 202 }, (_, i) => i), `first piece ${first} s`)
  }
})
