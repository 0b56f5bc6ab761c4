import t from 'tap'
import { modelListEntry } from '../cards/model-list.js'
import type { ModelCard } from '../../../kernel/index.js'

const card = (modelId: string, more: Partial<ModelCard> = {}): ModelCard => ({
  modelId, revision: '1', title: modelId, description: 'A model.', tasks: ['chat', 'completions'],
  family: 'llama', engine: 'onnx-lm', backends: ['cpu'], files: [], totalBytes: 2 ** 20 + 1, nLayers: 2,
  hiddenSize: 64, heads: 4,
  kvHeads: 2, headSize: 16, contextLength: 512, supportsTensor: false, companions: [], licence: 'mit',
  languages: ['en'], quantization: 'q4', voices: [], defaults: {}, support: {}, ...more
})

t.test('an entry of the model list', (t) => {
  const presence = { installed: true, ready: false, created: 1_700_000_000, virtual: false }
  t.same(modelListEntry(card('acme/x'), presence), {
    id: 'acme/x', root: 'acme/x', object: 'model', created: 1_700_000_000, owned_by: 'svc', name: 'acme/x',
    description: 'A model.', context_length: 512, tags: ['onnx-lm', 'en'], tasks: ['chat', 'completions'],
    storage_size_megabytes: 2,
    supports_tensor: false, family: 'llama', quantization: 'q4', capabilities: ['chat', 'completions'],
    resolved_capabilities: {
      chat: true, completions: true, embeddings: false, rerank: false, tts: false, stt: false,
      streaming: true, tools: false, vision: false
    },
    audio: null, installed: true, ready: false, virtual: false, available: null, broken_link: null,
    remedy: null
  })
  const judgement = { available: false, brokenLink: 'placement', remedy: 'Place it.', wanted: false }
  t.match(modelListEntry(card('acme/x'), { ...presence, judgement }),
    { available: false, broken_link: 'placement', remedy: 'Place it.' })
  const tools = (words: string): unknown =>
    modelListEntry(card('a/b', { support: { tools: words } }), presence).resolved_capabilities.tools
  t.equal(tools('given to the chat template'), true)
  t.equal(tools('no effect: there is no place for them'), false)
  t.match(modelListEntry(card('a/b', { support: { images: 'read' } }), presence),
    { resolved_capabilities: { vision: true } })
  const voices = [{ id: 'v', name: 'V', language: 'en' }, { id: 'w', name: 'W', language: 'en' }]
  const speech = modelListEntry(card('a/v', { tasks: ['tts'], voices }), presence)
  t.same(speech.audio, { voices, default_voice: 'v', languages: ['en'] })
  t.match(speech.resolved_capabilities, { tts: true, streaming: true, chat: false })
  const preset = modelListEntry(card('a/v', { tasks: ['tts'], voices, defaults: { voice: 'w' } }), presence)
  t.equal(preset.audio?.default_voice, 'w')
  const vectors = modelListEntry(card('a/e', { tasks: ['embeddings'] }), presence)
  t.match(vectors, { audio: null, resolved_capabilities: { embeddings: true, streaming: false } })
  t.end()
})
