import { mkdtempSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { stringify } from 'yaml'
import { supportOf } from '../../capabilities-tts/card-reader.js'
import { cacheOf } from '../../runners/cards/memory-forecast.js'
import {
  config, decoder, derive, external, filesOf, gguf, llama, onnx, put, sharedData, tensor, type OnnxParts
} from './cards-kit.js'
import type { ModelCard } from '../../../kernel/index.js'
import type { DeriveOptions } from '../cards/found.js'

type Files = Record<string, string | Uint8Array | object>

const root = mkdtempSync(join(tmpdir(), 'svc-cards-'))
t.teardown(() => { rmSync(root, { recursive: true, force: true }) })
const about = { modelId: 'acme/model', revision: 'abc' }

const cardOf = async (folder: string, more: Partial<DeriveOptions> = {}): Promise<ModelCard> =>
  await derive(folder, { ...about, files: filesOf(folder), ...more })

let folders = 0
async function made (files: Files, more: Partial<DeriveOptions> = {}): Promise<ModelCard> {
  const folder = join(root, String(folders++))
  put(folder, { 'README.md': 'a model', ...files })
  return await cardOf(folder, more)
}

const rolesOf = (card: ModelCard): Record<string, string> =>
  Object.fromEntries(card.files.map(({ path, role }) => [path, role]))
const refused = (message: RegExp): { name: string, message: RegExp } => ({ name: 'CardError', message })

const tokenizer = { 'tokenizer.json': '{}', 'tokenizer_config.json': {} }
const VECTORS: OnnxParts['outputs'] & object = [['last_hidden_state', 1, ['b', 's', 64]]]
const encoder: OnnxParts = { ...decoder, inputs: decoder.inputs!.slice(0, 2), outputs: VECTORS }
const bert: Files =
  { 'config.json': { ...config, model_type: 'bert' }, 'onnx/model.onnx': onnx(encoder), ...tokenizer }
const piperParts = {
  inputs: [['input', 7, ['b', 'p']], ['input_lengths', 7, ['b']], ['scales', 1, [3]]],
  outputs: [['output', 1, ['b', 1, 't']]],
  initializers: [tensor('w', 5)]
} satisfies OnnxParts
const piperGraph = onnx(piperParts)
const manyGraph = onnx({ ...piperParts, inputs: [...piperParts.inputs, ['sid', 7, ['b']]] })
const symbols = ['_', '^', '$', ...' abdefhijklmnoprstuvwzæðŋɑɔəɛɡɪɹʃʊʌʒθ']
const piper = {
  audio: { sample_rate: 22050 },
  phoneme_id_map: Object.fromEntries(symbols.map((symbol, id) => [symbol, [id]])), espeak: { voice: 'en-gb' },
  language: { code: 'en_GB', family: 'en' }, dataset: 'alan', num_speakers: 1
}
const kokoroGraph = onnx({
  inputs: [['input_ids', 7, [1, 'n']], ['style', 1, [1, 256]], ['speed', 1, [1]]],
  outputs: [['waveform', 1, ['s']]]
})
const kokoro: Files = {
  'config.json': { n_token: 178, istftnet: {}, vocab: { a: 1 } },
  'onnx/model_quantized.onnx': kokoroGraph,
  'voices/af_heart.bin': Buffer.alloc(2048),
  'voices/bm_lewis.bin': Buffer.alloc(1024),
  'voices/af_sky.bin': Buffer.alloc(1024)
}

t.test('a model of vectors in ONNX', async (t) => {
  const card = await made({ ...bert, LICENSE: 'MIT', 'generation_config.json': {}, 'vocab.json': {} })
  t.match(card, {
    ...about, title: 'model', tasks: ['embeddings'], family: 'bert', engine: 'onnx-lm', nLayers: 2,
    hiddenSize: 64, heads: 4, kvHeads: 0, headSize: 16, contextLength: 512, supportsTensor: false,
    licence: 'see LICENSE', quantization: 'fp32', support: {}
  })
  t.equal(cacheOf(card).bytes, 0, 'it keeps no keys and values')
  t.same(rolesOf(card), {
    LICENSE: 'licence', 'README.md': 'other', 'config.json': 'config', 'generation_config.json': 'config',
    'onnx/model.onnx': 'weights', 'tokenizer.json': 'tokenizer', 'tokenizer_config.json': 'tokenizer',
    'vocab.json': 'vocab'
  })
  t.equal(card.totalBytes, card.files.reduce((sum, { bytes }) => sum + bytes, 0))
  const options = { licence: 'mit', languages: ['en', 'de'] }
  t.match(await made(bert, options), options, 'the hub knows better')
  const limited = await made({ ...bert, 'sentence_bert_config.json': { max_seq_length: 256 } })
  t.match(limited, { contextLength: 256 }, 'the limit at which sentence-transformers truncates')
  const past = onnx({ ...decoder, outputs: VECTORS })
  const qwen = await made({ ...bert, 'config.json': config, 'onnx/model.onnx': past })
  t.match(qwen, { tasks: ['embeddings'], kvHeads: 0, headSize: 16 }, 'a decoder without logits')
  const classifier = { ...encoder, outputs: [['logits', 1, ['b', 2]]] as typeof decoder.outputs & object }
  await t.rejects(made({ ...bert, 'onnx/model.onnx': onnx(classifier) }),
    refused(/is not an embedding model/))
})

t.test('a language model in ONNX is refused with the way to get it as GGUF', async (t) => {
  const how = 'language models run in GGUF only: `svc search model gguf` finds it as GGUF, ' +
    '`svc pull ORG/model-GGUF` downloads it'
  const is = (family: string): { name: string, message: string } =>
    ({ name: 'CardError', message: `acme/model is a language model (${family}) in ONNX, and ${how}` })
  const optimum: Files = { ...bert, 'config.json': config, 'onnx/model.onnx': onnx(decoder) }
  await t.rejects(made(optimum), is('llama'))
  const genai = { 'cpu/genai_config.json': { model: { type: 'phi3' } }, 'cpu/model.onnx': onnx(decoder) }
  await t.rejects(made(genai), is('phi3'))
  await t.rejects(made({ 'genai_config.json': {} }), is('onnxruntime-genai'))
  const own = await made(bert)
  const card = (more: object): Files => ({ ...bert, 'card.yaml': stringify({ ...own, ...more }) })
  for (const tasks of [['chat', 'completions'], ['completions'], ['embeddings', 'chat']]) {
    await t.rejects(made(card({ tasks, family: 'qwen3' })), is('qwen3'), 'its own card')
  }
  t.match(await made(card({})), { engine: 'onnx-lm' })
  await t.rejects(made(optimum, { modelId: 'onnx-community/Qwen3-0.6B-ONNX' }),
    { message: /`svc pull ORG\/Qwen3-0\.6B-GGUF`/ })
})

t.test('several graphs', async (t) => {
  const beyond = external({ location: 'model_q4.onnx_data', length: '64' })
  const graph = onnx({ ...encoder, initializers: [beyond] })
  const card = await made({
    ...bert, 'onnx/model_q4.onnx': graph, 'onnx/model_q4.onnx_data': Buffer.alloc(64),
    'onnx/model_fp16.onnx': onnx(encoder)
  })
  t.match(rolesOf(card), { 'onnx/model.onnx': 'weights', 'onnx/model_q4.onnx': 'other' }, 'the plain one')
  const folder = join(root, 'large')
  put(folder, { ...bert, 'onnx/model_q4.onnx': graph, 'onnx/model_q4.onnx_data': Buffer.alloc(64) })
  put(folder, { 'onnx/model.onnx_data': '' })
  truncateSync(join(folder, 'onnx/model.onnx_data'), 4 * 2 ** 30)
  const large = await cardOf(folder)
  t.equal(large.quantization, 'q4', 'q4 where the plain one is over 4 GiB')
  t.match(rolesOf(large), { 'onnx/model_q4.onnx': 'weights', 'onnx/model_q4.onnx_data': 'external-data' })
  const { 'onnx/model.onnx': _, ...rest } = bert
  const small = await made({
    ...rest, 'onnx/model_fp16.onnx': onnx({ ...encoder, metadata: { long: 'er' } }),
    'onnx/model_int8.onnx': onnx(encoder)
  })
  t.equal(small.quantization, 'int8', 'else the smallest')
  const beside = { ...rest, 'onnx/model_q4.onnx': graph }
  await t.rejects(made(beside), refused(/weights in onnx\/model_q4.onnx_data, which is not among/))
  const short = { ...beside, 'onnx/model_q4.onnx_data': 'x' }
  await t.rejects(made(short), refused(/needs 64 bytes .* which has 1/))
})

t.test('sizes', async (t) => {
  const sizes = async (json: object, settings: object = {}): Promise<ModelCard> => await made({
    ...tokenizer, 'config.json': { model_type: 'x', ...json },
    'model.onnx': onnx(encoder), 'tokenizer_config.json': settings
  })
  const gpt = await sizes({ n_layer: 12, n_embd: 768, n_head: 12, n_positions: 1024 })
  t.match(gpt, { nLayers: 12, hiddenSize: 768, heads: 12, kvHeads: 0, headSize: 64, contextLength: 1024 })
  const wide = await sizes({ text_config: config })
  t.match(wide, { nLayers: 2, hiddenSize: 64, contextLength: 512 }, 'nested text_config')
  t.match(await sizes(config, { model_max_length: 128 }), { contextLength: 128 })
  t.match(await sizes(config, { model_max_length: 1e30 }), { contextLength: 512 })
  const odd = {
    hidden_size: '64', num_hidden_layers: -3, n_layer: 2, num_attention_heads: 1e300, n_positions: 512
  }
  t.match(await sizes(odd), { nLayers: 2, hiddenSize: 0, heads: 0 }, 'nonsense counts as not there')
  await t.rejects(sizes({ ...config, max_position_embeddings: null }), refused(/has no context length/))
})

t.test('Piper', async (t) => {
  const card = await made({ 'en/alan.onnx': piperGraph, 'en/alan.onnx.json': piper, 'config.json': {} })
  t.match(card, {
    family: 'piper', engine: 'onnx-tts', tasks: ['tts'], backends: ['cpu'], languages: ['en-gb', 'en'],
    voices: [{ id: 'default', name: 'alan', language: 'en-gb' }], defaults: { voice: 'default' },
    quantization: 'fp32', support: supportOf('piper')
  })
  t.match(rolesOf(card), { 'en/alan.onnx': 'weights', 'en/alan.onnx.json': 'config' })
  const many = { ...piper, num_speakers: 2, speaker_id_map: { anna: 0, ben: 1 } }
  const voice = (json: unknown, graph = piperGraph): Files =>
    ({ 'a.onnx': graph, 'a.onnx.json': json as object })
  t.same((await made(voice(many, manyGraph))).voices.map(({ id }) => id), ['anna', 'ben'])
  const numbered = await made(voice({ ...many, speaker_id_map: {} }, manyGraph))
  t.same(numbered.voices.map(({ id }) => id), ['0', '1'])
  const bad: Array<[Files, RegExp]> = [
    [voice('{'), /a.onnx.json is not JSON/],
    [voice(piper, kokoroGraph), /no input input, input_lengths, scales: it has input_ids/],
    [voice({ ...piper, num_speakers: 1e9 }, manyGraph), /1000000000 speakers/],
    [voice(many), /a.onnx and a.onnx.json do not match: .* one speaker .* says 2/],
    [voice(piper, manyGraph), /several speakers .* says 1/],
    [{ ...voice(piper), 'b.onnx': piperGraph, 'b.onnx.json': piper }, /2 voices \(a.onnx, b.onnx\)/],
    [voice({ ...piper, phoneme_id_map: 3 }), /unknown model format/],
    [{ 'a.onnx': piperGraph }, /unknown model format.*found 2 files: README.md, a.onnx/]
  ]
  for (const [content, expected] of bad) await t.rejects(made(content), refused(expected))
})

t.test('Kokoro', async (t) => {
  const card = await made(kokoro)
  t.match(card, {
    family: 'kokoro', engine: 'onnx-tts', tasks: ['tts'], contextLength: 510, quantization: 'q8',
    languages: ['en-us', 'en-gb'], defaults: { voice: 'af_heart' },
    voices: [
      { id: 'af_heart', name: 'Heart (female)', language: 'en-us' }, { id: 'af_sky' },
      { id: 'bm_lewis', name: 'Lewis (male)', language: 'en-gb' }
    ]
  })
  t.match(rolesOf(card), {
    'config.json': 'config', 'onnx/model_quantized.onnx': 'weights', 'voices/af_heart.bin': 'voice'
  })
  const bad: Array<[Files, RegExp]> = [
    [{ ...kokoro, 'voices/af_heart.bin': 'pickle' }, /style pack voices\/af_heart.bin has 6 bytes/],
    [{ ...kokoro, 'onnx/model_quantized.onnx': piperGraph }, /no input input_ids, style, speed/]
  ]
  for (const [content, expected] of bad) await t.rejects(made(content), refused(expected))
  t.same((await made(kokoro)).support, supportOf('kokoro'), 'the words are those of the engine')
  t.ok(Object.keys(supportOf('kokoro')).length > 0)
})

t.test('GGUF', async (t) => {
  const card = await made({ 'm.gguf': gguf(llama), 'mmproj-m.gguf': gguf(llama) })
  t.match(card, {
    family: 'llama', engine: 'llama-server', tasks: ['chat', 'completions'], nLayers: 4, hiddenSize: 64,
    heads: 8, kvHeads: 4, headSize: 8, contextLength: 512, quantization: 'Q4_K_M', licence: 'mit',
    parameters: Number,
    support: { tools: /^passed to/, images: /vision weights/ }
  })
  t.same(rolesOf(card), { 'README.md': 'other', 'm.gguf': 'weights', 'mmproj-m.gguf': 'vision_weights' })
  const drafted = await made({ 'm.gguf': gguf({ ...llama, data: 4096 }), 'draft-m.gguf': gguf(llama) })
  t.match(rolesOf(drafted), { 'm.gguf': 'weights', 'draft-m.gguf': 'assistant' })
  t.notOk('images' in drafted.support)
  t.equal(drafted.memory!.tokenBytes, 2 * card.memory!.tokenBytes, 'its keys and values count')
  const some = await made({ 'm-Q8_0.gguf': gguf(llama), 'm-Q4_K_M.gguf': gguf({ ...llama, data: 4096 }) })
  t.match(rolesOf(some), { 'm-Q8_0.gguf': 'other', 'm-Q4_K_M.gguf': 'weights' })
  const small = await made({ 'm-Q8_0.gguf': gguf({ ...llama, data: 4096 }), 'm-Q2_K.gguf': gguf(llama) })
  t.match(rolesOf(small), { 'm-Q8_0.gguf': 'other', 'm-Q2_K.gguf': 'weights' })
  const part = gguf({ ...llama, metadata: { ...llama.metadata, 'split.count': 2 } })
  const parts = { 'm-00001-of-00002.gguf': part, 'm-00002-of-00002.gguf': gguf({}) }
  const roles = rolesOf(await made(parts))
  t.match(roles, { 'm-00001-of-00002.gguf': 'weights', 'm-00002-of-00002.gguf': 'weights' })
  const pooled = gguf({ ...llama, metadata: { ...llama.metadata, 'llama.pooling_type': 1 } })
  t.same((await made({ 'm.gguf': pooled })).tasks, ['embeddings'])
  const without = (key: string): Buffer => {
    const { [key]: _, ...metadata } = llama.metadata!
    return gguf({ ...llama, metadata })
  }
  const plainFile = without('tokenizer.chat_template')
  const untold = await made({ 'm.gguf': plainFile })
  t.match(untold.support, { chat_template: /ChatML.*--chat-template FILE/ })
  t.same(untold.tasks, ['chat', 'completions'])
  const beside = await made({ 'm.gguf': plainFile, 'chat_template.jinja': '{{ tools }}' })
  t.match(beside.support, { tools: /^passed to/ })
  t.notOk('chat_template' in beside.support)
  t.match(rolesOf(beside), { 'chat_template.jinja': 'template' })
  const toolsOf = async (template: string): Promise<string | undefined> => (await made({
    'm.gguf': gguf({ ...llama, metadata: { ...llama.metadata, 'tokenizer.chat_template': template } })
  })).support['tools']
  t.match(await toolsOf('{{ messages }}{{ tools }}'), /^passed to/,
    'llama.cpp finds calls of its own formats')
  t.match(await toolsOf('{# tools #}{{ messages[0].content }}'), /^no effect/)
  const sampled = gguf({ ...llama, metadata: { ...llama.metadata, 'general.sampling.top_k': 20 } })
  t.match(await made({ 'm.gguf': sampled, 'generation_config.json': { temperature: 0.6 } }),
    { defaults: { temperature: 0.6, top_k: 20 } })
  const bare = await made({ 'm.gguf': without('general.file_type') })
  t.equal(bare.quantization, 'fp32', 'what most bytes are')
  const ranker = gguf({ ...llama, metadata: { ...llama.metadata, 'llama.pooling_type': 4 } })
  t.match(await made({ 'm.gguf': ranker }), { tasks: ['rerank'], description: /^Reranking model \(llama/ })
  const bad: Array<[Files, RegExp]> = [
    [{ 'm-00001-of-00002.gguf': part }, /one of 2 parts, but there are 1/],
    [{ ...parts, 'm-00002-of-00002.gguf': 'cut' }, /00002-of-00002.gguf is broken/],
    [{ 'm.gguf': part }, /one of 2 parts/],
    [{ 'm.gguf': without('general.architecture') }, /general.architecture/],
    [{ 'm.gguf': without('llama.block_count') }, /llama.block_count/],
    [{ 'mmproj-m.gguf': gguf(llama) }, /unknown model format/]
  ]
  for (const [content, expected] of bad) await t.rejects(made(content), refused(expected))
})

t.test('a card of its own', async (t) => {
  const own = await made(bert)
  const file = own.files.map((f) => ({ ...f, sha256: 'a'.repeat(64) }))
  const yaml = (card: object): Files => ({ ...bert, 'card.yaml': stringify(card) })
  const kept = await made(yaml({ ...own, modelId: 'other/name', title: 'Own title', files: file }))
  t.match(kept, { ...about, title: 'Own title', files: file, totalBytes: own.totalBytes })
  const stale = { ...own, totalBytes: 5, files: [{ path: 'config.json', role: 'other', bytes: 5 }] }
  const told = await made(yaml(stale))
  t.equal(told.totalBytes, own.totalBytes, 'sizes are what is there')
  t.equal(rolesOf(told)['config.json'], 'other', 'roles are the card\'s')
  t.notOk('card.yaml' in rolesOf(told))
  const bad: Array<[Files, RegExp]> = [
    [{ 'card.yaml': 'tasks: [' }, /card.yaml/],
    [yaml({ ...own, nLayers: 'many' }), /card.yaml: nLayers must be integer/],
    [yaml({ ...own, files: [{ path: 'gone', role: 'weights', bytes: 1 }] }), /lists gone as weights/],
    [yaml({ ...own, files: [{ path: '.last_used', role: 'other', bytes: 1 }] }),
      /last_used" is not a valid file path/],
    [{ 'card.yaml': 'x'.repeat(32_769) }, /32769 bytes, more than 32768: list only the files/],
    [{ 'card.yaml': '['.repeat(20_000) }, /card.yaml/],
    [{ 'card.yaml': 'a: &a [x]\nb: [*a, *a]' }, /card.yaml/]
  ]
  for (const [content, expected] of bad) await t.rejects(made(content), refused(expected))
})

t.test('what does not run here', async (t) => {
  const bad: Array<[Files, RegExp]> = [
    [{}, /unknown model format: expected card.yaml, a Piper voice .* found 1 files: README.md$/],
    [{ 'config.json': config, 'a.safetensors': '' }, /no tokenizer: none of tokenizer.json/],
    [{ 'config.json': config, 'pytorch_model.bin': '\x80\x02.' }, /pytorch_model.bin are not supported/],
    [{ ...bert, 'config.json': { ...config, is_encoder_decoder: true } }, /an encoder and a decoder/],
    [{ 'config.json': config, 'onnx/vision.onnx': '', 'onnx/embed.onnx': '' }, /none of its 2 graphs/],
    [{ ...bert, 'config.json': '[]' }, /config.json is not a JSON object/],
    [{ ...bert, 'config.json': '{'.repeat(100_000) }, /config.json is not JSON/],
    [{ ...bert, 'config.json': 'x'.repeat(2 ** 22 + 1) }, /more than 4194304/],
    [{ ...bert, 'onnx/model.onnx': '\x80\x02}q\x00.' }, /model.onnx is broken/]
  ]
  for (const [content, expected] of bad) await t.rejects(made(content), refused(expected))
  for (const path of ['../x', '/etc/passwd', '.svc-record.json', 'a//b']) {
    await t.rejects(derive(root, { ...about, files: [{ path, size: 1 }] }), refused(/not a valid file/), path)
  }
  const gone = { ...about, files: [{ path: 'a.gguf', size: 1 }] }
  await t.rejects(derive(root, gone), refused(/a.gguf cannot be opened/))
  await t.rejects(made(bert, { modelId: 'no id' }), refused(/modelId/))
})

t.test('the voice that ships', async (t) => {
  const folder = fileURLToPath(new URL('../../capabilities-tts/voice', import.meta.url))
  const files = filesOf(folder).filter(({ path }) => /^(en_US.*|CMU-LICENCE\.txt)$/.test(path))
  const card = await cardOf(folder, { files })
  t.match(card, {
    family: 'flite', voices: [{ id: 'rms' }, { id: 'slt' }], totalBytes: 3673836, languages: ['en-us', 'en']
  })
  const own = await cardOf(folder, { files: [...files, { path: 'card.yaml', size: 1 }] })
  t.match(own, { title: 'English voice that ships with svc', hiddenSize: 160, files: { length: 4 } })
  t.same(rolesOf(own), rolesOf(card), 'the same roles as by hand')
})

const data = sharedData()
t.test('real models', { skip: data === undefined && 'no folder of shared models' }, async (t) => {
  const at = (name: string): string => join(data!, name)
  const expected: Record<string, object> = {
    'piper-test-voice': { family: 'piper', tasks: ['tts'], languages: ['en-us'] },
    stories260K: {
      tasks: ['chat', 'completions'], family: 'llama', engine: 'llama-server', nLayers: 5, hiddenSize: 64,
      heads: 8, kvHeads: 4, headSize: 8, contextLength: 512, quantization: 'fp32'
    }
  }
  for (const [name, card] of Object.entries(expected)) t.match(await cardOf(at(name)), card, name)
  for (const name of ['stories260K/optimum', 'stories260K/genai-gqa', 'ort-genai-tiny-random-llama-fp16']) {
    await t.rejects(cardOf(at(name)), refused(/in ONNX, and language models run in GGUF only/))
  }
  const packs = ['af_heart', 'am_adam'].map((id) =>
    [`voices/${id}.bin`, readFileSync(at(`kokoro/${id}.bin`))])
  const real = { 'config.json': readFileSync(at('kokoro/config.json')), 'kokoro.onnx': kokoroGraph }
  t.match(await made({ ...real, ...Object.fromEntries(packs) }), { family: 'kokoro', voices: { length: 2 } })
  for (const name of ['hifigan-lj-v2', 'tinytts-parts', 'kokoro']) {
    await t.rejects(cardOf(at(name)), refused(/unknown model format/), name)
  }
})
