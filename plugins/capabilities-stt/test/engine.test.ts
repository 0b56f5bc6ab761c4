// fixtures/tiny-whisper has random weights: `python test/real/whisper_onnx.py FOLDER` writes it.
import { fileURLToPath } from 'node:url'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import t from 'tap'
import { EngineError, type EngineEnv, type EngineTask, type ModelSpec } from '../../../kernel/api/engine.js'
import { card } from '../../runners/test/samples.js'
import { decode, loops } from '../engine/decoder.js'
import engine from '../engine/index.js'
import type { SttEvent } from '../service.js'
import { melGraph, padded } from '../engine/mel.js'
import { float32, loadWhisper } from '../engine/model.js'
import { pick, probability } from '../engine/decoder.js'
import { compressionOf, piecesOf } from '../engine/text.js'
import { Sound } from '../engine/windows.js'
import { path, wordTimes } from '../engine/text.js'

const directory = fileURLToPath(new URL('fixtures/tiny-whisper/', import.meta.url))
const NAMES = ['config.json', 'generation_config.json', 'tokenizer.json', 'onnx/encoder_model_quantized.onnx',
  'onnx/decoder_model_merged_quantized.onnx']
const DECODER = NAMES[4]!
const files = NAMES.map((path) => ({ path, role: path.endsWith('x') ? 'weights' : 'config', bytes: 1 }))
const spec = (over = {}): ModelSpec => ({
  card: card('acme/whisper', { family: 'whisper', backends: ['cpu'], files, ...over }),
  directory, backend: 'cpu', threads: 1, options: {}
})
const env: EngineEnv = { progress () {}, log () {}, work: async (_label, _units, call) => await call() }
const NEVER = new AbortController().signal

/** 16-bit sound: vowels of a pulsing voice for `seconds`, or silence. */
function pcm (...parts: [seconds: number, isVoice: boolean][]): Buffer {
  const all = parts.flatMap(([seconds, isVoice]) => Array.from({ length: seconds * 16_000 }, (_, i) => {
    if (!isVoice) return 0
    const at = i / 16_000
    const pitch = 120 + 15 * Math.sin(2 * Math.PI * 3 * at)
    const shift = 300 * Math.sin(2 * Math.PI * 2 * at)
    const formant = (hertz: number, middle: number): number => Math.exp(-(((hertz - middle) / 150) ** 2))
    let value = 0
    for (let k = 1; k < 30; k++) {
      const hertz = k * pitch
      const high = 0.6 * formant(hertz, 1400 - shift) + 0.3 * formant(hertz, 2600)
      const gain = formant(hertz, 600 + shift) + high
      value += gain * Math.sin(2 * Math.PI * k * 120 * at + k * 5 * Math.sin(2 * Math.PI * 3 * at) / 3)
    }
    return value * 6000 * (0.55 + 0.45 * Math.sin(2 * Math.PI * 4 * at))
  }))
  return Buffer.from(Int16Array.from(all).buffer)
}

async function * sent (bytes: Buffer, size = 6400): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const opened = Promise.resolve().then(async () => await engine.load(spec(), env))

async function heard (payload: object, bytes: Buffer, signal = NEVER): Promise<SttEvent[]> {
  const events = []
  const task: EngineTask = { kind: 'stt', payload: { format: 'pcm', ...payload }, input: sent(bytes) }
  for await (const { payload: event } of (await opened).run(task, signal)) events.push(event as SttEvent)
  return events
}

t.teardown(async () => { await (await opened).close?.() })

t.test('the spectrogram is that of faster-whisper 1.2.1', async (t) => {
  const sound = Float32Array.from({ length: 3200 }, (_, i) =>
    0.5 * Math.sin(2 * Math.PI * 440 * i / 16_000) + 0.1 * Math.sin(2 * Math.PI * 3000 * i / 16_000))
  const at = [[0, 0], [10, 0], [10, 10], [11, 15], [40, 5], [79, 19], [0, 28]] as const
  const wanted = {
    80: [0.9887, 1.3372, 1.3487, 1.4382, -0.5618, -0.5394, -0.5618],
    128: [0.9130, 0.9897, -0.5146, -0.5146, -0.5146, -0.3349, -0.5146]
  }
  for (const [bands, values] of Object.entries(wanted)) {
    const session = await InferenceSession.create(melGraph(Number(bands)))
    const samples = padded(sound, 30)
    const { mel } = await session.run({ samples: float32(samples, [1, 1, samples.length]) })
    t.same(mel!.dims, [1, Number(bands), 30])
    at.forEach(([band, frame], i) => {
      const found = (mel!.data as Float32Array)[band * 30 + frame]!
      t.ok(Math.abs(found - values[i]!) < 2e-4, `${bands} bands, ${band} at ${frame}: ${found}`)
    })
  }
})

t.test('steps with kept keys and values give the logits of the whole graph', async (t) => {
  const model = await loadWhisper(spec(), env)
  const sounds = [new Float32Array(16_000).fill(0.1), new Float32Array(100_000)]
  const [first, second] = await model.encode(sounds, NEVER)
  t.equal(first!.length, 350 * 16)
  const prefix = model.vocabulary.prefix('de', 'translate', 'a name', 224)
  const whole = await InferenceSession.create(directory + DECODER)
  const none = float32(new Float32Array(), [1, 2, 0, 8])
  const feeds = Object.fromEntries(whole.inputNames.map((name) => [name, none]))
  const out = await whole.run({
    ...feeds, input_ids: new Tensor('int64', BigInt64Array.from(prefix, BigInt), [1, prefix.length]),
    encoder_hidden_states: float32(second!, [1, 350, 16]), use_cache_branch: new Tensor('bool', [false], [1])
  })
  const logits = (out['logits']!.data as Float32Array).slice((prefix.length - 1) * 1766)
  const decoding = { prefix, temperature: 0, random: Math.random, hasAttention: true, isDraft: false }
  const alone = (await decode(model, [second!], decoding, NEVER))[0]!
  const together = (await decode(model, [first!, second!, first!], decoding, NEVER))[1]!
  const { token, logprob } = pick(logits, [], model.vocabulary, { temperature: 0, random: Math.random })
  t.equal(alone.tokens[0], token)
  t.ok(Math.abs(alone.logprobs[0]! - logprob) < 0.05, `${alone.logprobs[0]} ${logprob}`)
  t.same(together.tokens.slice(0, 3), alone.tokens.slice(0, 3))
  t.equal(alone.attention[0]![0]!.length, 350)
  await model.close()
})

t.test('a draft that repeats itself ends', async (t) => {
  const rows: [tokens: number[], expected: boolean][] = [
    [[], false], [[1, 1], false], [[1, 1, 1], true], [[9, 1, 2, 1, 2, 1, 2], true],
    [[1, 2, 1, 2, 1, 3], false],
    [[5, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], true], [[1, 2, 3, 4, 1, 2, 3, 4, 5], false]
  ]
  for (const [tokens, expected] of rows) t.equal(loops(tokens, 3), expected, tokens.join())
})

t.test('rules of timestamps', async (t) => {
  const { vocabulary } = await loadWhisper(spec(), env)
  const { end, timestamps: at } = vocabulary
  const size = at + 1501
  const rows: [string, number[], Record<number, number>, number][] = [
    ['a timestamp up to 1 s comes first', [], { 5: 9, [at + 60]: 8, [at + 50]: 7 }, at + 50],
    ['no end at once', [], { [end]: 9, [at]: 1 }, at],
    ['text follows the first timestamp', [at], { [at + 9]: 9, 65: 1 }, 65],
    ['a closing timestamp is after the last one', [at + 20, 65], { [at + 20]: 9, [at + 21]: 8 }, at + 21],
    ['a closing timestamp is followed by one', [at, 65, at + 9], { 66: 9, [at + 9]: 1 }, at + 9],
    ['or by the end', [at, 65, at + 9], { 66: 9, [end]: 8, [at + 9]: 1 }, end],
    ['timestamps count together', [at, 65], { 66: 3, [at + 9]: 2.8, [at + 10]: 2.9 }, at + 10],
    ['special tokens never', [at, 65], { [end + 1]: 9, [at - 1]: 9, 66: 1 }, 66]
  ]
  for (const [name, seen, high, wanted] of rows) {
    const logits = new Float32Array(size).fill(-30)
    for (const [id, value] of Object.entries(high)) logits[Number(id)] = value
    t.equal(pick(logits, seen, vocabulary, { temperature: 0, random: Math.random }).token, wanted, name)
  }
  const logits = new Float32Array(size).fill(-30)
  logits[65] = logits[66] = 1
  t.ok(Math.abs(probability(logits, 65) - 0.5) < 1e-6)
  const drawn = (random: number): number => pick(logits.slice(), [at], vocabulary,
    { temperature: 1, random: () => random }).token
  t.same([drawn(0.2), drawn(0.8)], [65, 66])
})

t.test('segments, words and their times', async (t) => {
  const { vocabulary } = await loadWhisper(spec(), env)
  const at = vocabulary.timestamps
  const rows: [number[], [number, number, number, number][]][] = [
    [[], []],
    [[at, 65, at + 50], [[0, 3, 0, 1]]],
    [[at, 65, at + 50, at + 60, 66, at + 99], [[0, 3, 0, 1], [3, 6, 1.2, 1.98]]],
    [[at + 10, 65, 66], [[0, 3, 0.2, 5]]],
    [[at, 65, at + 500], [[0, 3, 0, 5]]]
  ]
  for (const [tokens, wanted] of rows) {
    t.same(piecesOf(tokens, vocabulary, 5).map((one) => Object.values(one)), wanted, JSON.stringify(tokens))
  }
  const tokens = [...Buffer.from(' a né, b')]
  t.same(vocabulary.words(tokens, 'en'), [
    { text: ' a', tokens: 2 }, { text: ' né,', tokens: 5 }, { text: ' b', tokens: 2 }])
  const decoded = { tokens, logprobs: [], avg_logprob: 0, no_speech_prob: 0, attention: [] }
  const spread = wordTimes(vocabulary, decoded, [...tokens.keys()], { start: 10, end: 15 }, 10, 'en')
  t.same(spread, [{ word: 'a', start: 10, end: 11 }, { word: 'né,', start: 11, end: 14 },
    { word: 'b', start: 14, end: 15 }])
  const peaks = [0, 3, 6].map((peak) =>
    [Float32Array.from({ length: 9 }, (_, x) => Math.abs(x - peak - 1) < 2 ? 1 : 0)])
  t.same(path(peaks), [0, 3, 6])
  t.ok(compressionOf('na '.repeat(100)) > 2.4)
  t.equal(compressionOf(''), 0)
})

t.test('sound is cut in its pauses', async (t) => {
  const filled = (quiet: number[]): Sound => {
    const sound = new Sound(100)
    for (let i = 0; i < 100; i++) {
      sound.add(new Float32Array(512), quiet.includes(i) ? 0.1 : i === 80 ? 0.4 : 0.9)
    }
    return sound
  }
  t.equal(filled([10, 11, 12, 70, 71, 72, 90]).cut(), 72)
  t.equal(filled([]).cut(), 81)
  const sound = filled([])
  t.equal(sound.take(50).samples.length, 50 * 512)
  t.equal(sound.start, 1.6)
})

t.test('a recording', async (t) => {
  t.same(await heard({}, pcm([3, false])), [{ event: 'done', language: '', duration: 3 }])
  const sound = pcm([0.5, false], [3, true], [3, false], [2, true])
  const events = await heard({ words: true, logprobs: true, language: 'de', temperature: 0.2 }, sound)
  t.same(events.at(-1), { event: 'done', language: 'de', duration: 8.5 })
  const segments = events.flatMap((event) => event.event === 'segment' ? [event] : [])
  t.same(segments.map(({ id }) => id), [...segments.keys()])
  for (const { start, end, words = [], logprobs = [], tokens } of segments) {
    t.ok(start >= 0.1 && end <= 8.6 && start <= end, `${start} to ${end}`)
    t.ok(words.every((word) => word.start >= start && word.end <= end && word.start <= word.end))
    t.equal(logprobs.length, tokens.filter((id) => id < 256).length)
  }
  const [one, two] = await Promise.all([heard({ language: 'en' }, sound), heard({ language: 'en' }, sound)])
  t.equal(one.at(-1)?.event, 'done')
  t.equal(two.at(-1)?.event, 'done')
})

t.test('live turns', async (t) => {
  const sound = pcm([1, false], [3, true], [2, false], [2, true])
  const events = await heard({ live: true, language: 'en' }, sound)
  const at = (event: string): number[] =>
    events.flatMap((one) => one.event === event && 'at' in one ? [one.at] : [])
  const [starts, stops] = [at('speech_started'), at('speech_stopped')]
  t.equal(starts.length, 2)
  t.equal(stops.length, 2)
  t.ok(Math.abs(starts[0]! - 0.7) < 0.4, `starts at ${starts[0]}`)
  t.ok(Math.abs(stops[0]! - 4.5) < 0.5, `stops at ${stops[0]}`)
  t.ok(events.some(({ event }) => event === 'partial'))
  t.equal(events.filter((event) => event.event === 'segment' && event.final === true).length, 2)
  const quiet = await heard({ live: true, partials: false }, pcm([1, true], [1, false]))
  t.notOk(quiet.some(({ event }) => event === 'partial'))
})

t.test('a task that is cancelled ends', async (t) => {
  const abort = new AbortController()
  const second = pcm([1, true])
  const endless = async function * (): AsyncGenerator<Uint8Array> { for (;;) yield second }
  const task: EngineTask = { kind: 'stt', payload: { format: 'pcm', live: true }, input: endless() }
  setTimeout(() => { abort.abort() }, 300)
  for await (const { payload } of (await opened).run(task, abort.signal)) t.not(payload['event'], 'done')
})

t.test('a language by its code, or by its English name as Whisper writes it', async (t) => {
  for (const language of ['de', 'german']) {
    const events = await heard({ language }, pcm([0.1, false]))
    t.match(events.at(-1), { event: 'done', language: 'de' }, language)
  }
})

t.test('refusals', async (t) => {
  const rows: [object, string, RegExp][] = [
    [{ language: 'xx' }, 'language_unknown', /knows en, de/],
    [{ temperature: 2 }, 'invalid_payload', /temperature must be a number from 0 to 1/],
    [{ sample_rate: 1 }, 'invalid_payload', /sample_rate/],
    [{ task: 'sing' }, 'invalid_payload', /task must be one of transcribe, translate/],
    [{ turn: { threshold: 7 } }, 'invalid_payload', /threshold/]
  ]
  for (const [payload, reason, message] of rows) {
    await t.rejects(heard(payload, pcm([0.1, false])), { reason, message }, reason)
  }
  const run = (task: EngineTask): AsyncIterator<unknown> => engineOf.run(task, NEVER)[Symbol.asyncIterator]()
  const engineOf = await opened
  await t.rejects(run({ kind: 'tts', payload: {} }).next(), EngineError)
  await t.rejects(run({ kind: 'stt', payload: {} }).next(), /no sound/)
  t.match(engineOf.info(), { family: 'whisper', languages: ['en', 'de'], rows: 8 })
  await t.resolves(engineOf.warmup())
  const missing = { files: files.filter(({ path }) => path !== DECODER) }
  await t.rejects(engine.load(spec(missing), env), /no decoder|has no|cannot read/)
  await t.rejects(engine.load({ ...spec(), directory: '/nowhere' }, env), /no decoder|has no|cannot read/)
  const swapped = { files: files.map((file) => file.path === DECODER ? { ...file, role: 'other' } : file) }
  await t.rejects(engine.load(spec(swapped), env), /has no \^decoder_model/)
})
