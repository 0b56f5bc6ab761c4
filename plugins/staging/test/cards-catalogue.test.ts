import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { stringify } from 'yaml'
import { readHomeCards } from '../cards/home.js'
import { modelListEntry } from '../cards/model-list.js'
import { put } from './cards-kit.js'
import type { ModelCard } from '../../../kernel/index.js'

const card = (modelId: string, more: Partial<ModelCard> = {}): ModelCard => ({
  modelId, revision: '1', title: modelId, description: 'A model.', tasks: ['chat', 'completions'],
  family: 'llama', engine: 'onnx-lm', backends: ['cpu'], files: [], totalBytes: 2 ** 20 + 1, nLayers: 2,
  hiddenSize: 64, heads: 4,
  kvHeads: 2, headSize: 16, contextLength: 512, supportsTensor: false, companions: [], licence: 'mit',
  languages: ['en'], quantization: 'q4', voices: [], defaults: {}, support: {}, ...more
})

t.test('cards of the operator', async (t) => {
  const folder = t.testdir({})
  t.same(await readHomeCards(join(folder, 'none')), { cards: [], problems: [] }, 'no folder')
  put(folder, {
    'a.yaml': stringify(card('acme/a')),
    'b.yaml': stringify({ ...card('acme/b'), nLayers: -1 }),
    'c.yaml': 'modelId: [',
    'd.yaml': stringify(card('acme/a', { title: 'later' })),
    'e.yaml': stringify(card('acme/con')),
    'f.yaml': 'x'.repeat(2 ** 18 + 1),
    'g.yaml': '',
    'h.yml': 'not looked at',
    'i.yaml': stringify(card('a--b/c')),
    'm.yaml': stringify(card('acme/m', { files: [{ path: '.svc-record.json', role: 'other', bytes: 1 }] }))
  })
  mkdirSync(join(folder, 'j.yaml'))
  execFileSync('mkfifo', [join(folder, 'k.yaml')])
  symlinkSync(join(folder, 'a.yaml'), join(folder, 'l.yaml'))
  const { cards, problems } = await readHomeCards(folder)
  t.same(cards.map(({ modelId }) => modelId), ['acme/a'])
  const named = (name: string): string => problems.filter((p) => p.includes(join(folder, name))).join()
  const expected: Record<string, RegExp> = {
    'b.yaml': /nLayers must be >= 0/, 'c.yaml': /c\.yaml: /, 'd.yaml': /acme\/a is already used/,
    'e.yaml': /modelId: /, 'f.yaml': /more than 262144/, 'g.yaml': /must be object/, 'i.yaml': /modelId: /,
    'j.yaml': /not a regular file/, 'k.yaml': /not a regular file/, 'l.yaml': /earlier file/,
    'm.yaml': /"\.svc-record\.json" is not a valid file path/
  }
  for (const [name, sentence] of Object.entries(expected)) t.match(named(name), sentence, name)
  t.equal(problems.length, Object.keys(expected).length)
  t.ok(problems.every((p) => !p.includes('\n')), 'one line each')
  put(folder, { 'file': '' })
  t.match((await readHomeCards(join(folder, 'file'))).problems, [/cannot be read: ENOTDIR/])
})

t.test('an entry of the model list', (t) => {
  const presence = { installed: true, ready: false, created: 1_700_000_000, virtual: false }
  t.same(modelListEntry(card('acme/x'), presence), {
    id: 'acme/x', root: 'acme/x', object: 'model', created: 1_700_000_000, owned_by: 'svc', name: 'acme/x',
    description: 'A model.', context_length: 512, tags: ['onnx-lm', 'en'], tasks: ['chat', 'completions'],
    storage_size_megabytes: 2,
    supports_tensor: false, family: 'llama', quantization: 'q4', capabilities: ['chat', 'completions'],
    resolved_capabilities: {
      chat: true, completions: true, embeddings: false, rerank: false, tts: false, streaming: true,
      tools: false,
      vision: false
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
