import t from 'tap'
import { nodeOf, sendError, sendJson } from './cli-kit.js'
import { card, instance, state } from './cli-model-kit.js'

const copies = [
  { modelId: 'acme/chat', nodeId: 'n10', nodeName: 'node10', kind: 'staged', live: true },
  { modelId: 'acme/chat', nodeId: 'n2', nodeName: 'node2', kind: 'staged', live: false },
  { modelId: 'acme/chat', nodeId: 'n1', nodeName: 'n1', kind: 'store', live: true }
]
const available = { model_id: 'acme/chat', available: true, broken_link: null, message: null, remedy: null,
  links: [] }

t.test('svc show', async (t) => {
  const answer = {
    model_id: 'acme/chat', origin: 'store', copies,
    card: card({ support: { tools: 'calls them', vision: false, 'ev\x1bil': 'a\x1bb' } })
  }
  const seen = state({
    instances: {
      i1: instance('acme/chat', { n1: 'r1', n2: 'r2' }), other: instance('acme/other', { n1: 'r3' })
    },
    runners: { r1: { RunnerRunning: {} }, r2: { RunnerReady: {} } },
    policies: { 'acme/chat': { words: '1 to 3 instances' } },
    nodeResources: {
      n1: { engines: { 'onnx-lm': { words: 'the library (cpu)' } } }, n2: { engines: { 'onnx-lm': null } }
    }
  })
  const node = await nodeOf(t, {
    'GET /models/acme/chat/card': (response) => { sendJson(response, answer) },
    'GET /models/acme/chat/availability': (response) => { sendJson(response, available) },
    'GET /state': (response) => { sendJson(response, seen) },
    'GET /models/acme/none/card': (response) => { sendError(response, 404, 'model_not_found') }
  })
  t.strictSame(await node.run(['show', 'acme/chat']), { status: 0, err: '', out: `acme/chat  A talker
Talks well.

Tasks         chat, completions
Family        llama
Engine        onnx-lm (cuda, cpu)
Runs on       attic: the library (cpu)
Size          2.0 KiB in 1 file
Quantization  q4
Layers        2
Hidden size   64
Context       4096 tokens
Languages     en
Licence       MIT
Revision      abc
Card from     store
Where         store@n1, staged@node2 (lost),node10
Policy        1 to 3 instances
Answers       yes

INSTANCE  NODES     STATE  CONTEXT  SLOTS
i1        attic,n2  ready  2048     -

FIELD   SUPPORT
tools   calls them
vision  false
evil    a b

FILE        ROLE     SIZE
model.onnx  weights  2.0 KiB
` })
  const json = JSON.parse((await node.run(['show', 'acme/chat', '--json'])).out) as object
  t.strictSame(json, {
    ...answer, availability: available, drivers: ['attic: the library (cpu)'], policy: '1 to 3 instances',
    instances: [{
      instanceId: 'i1', state: 'ready', error: null, contextTokenLimit: 2048, slots: null, nodes: [
        { nodeId: 'n1', name: 'attic', state: 'ready' }, { nodeId: 'n2', name: 'n2', state: 'ready' }
      ]
    }]
  })
  t.match(await node.run(['show', 'acme/none']), { status: 3, out: '', err: /model_not_found/ })
  t.match(await node.run(['show', 'acme/../x']), { status: 2, err: /is not a model id/ })
})

t.test('svc show: a model that does not answer', async (t) => {
  const voices = Array.from({ length: 14 }, (_, i) => ({ id: `v${i}`, name: 'V', language: 'en' }))
  const nodes = { n1: 'r1', n2: 'r2' }
  const cases: [string, object, object, RegExp][] = [
    ['loads', { i1: instance('acme/chat', nodes) },
      { r1: { RunnerLoading: { layersLoaded: 1, totalLayers: 4 } }, r2: { RunnerReady: {} } },
      /i1 +attic,n2 +loading \(1 of 4\) +2048/],
    ['loads bytes', { i1: instance('acme/chat', { n1: 'r1' }) },
      { r1: { RunnerLoading: { layersLoaded: 32_944_128, totalLayers: 98_362_432 } } },
      /i1 +attic +loading 31 of 94 MiB +2048/],
    ['starts', { i1: instance('acme/chat', nodes) }, { r1: { RunnerWarmingUp: {} } },
      /i1 .* warming up, waiting for its runner +2048/],
    ['failed', { i1: instance('acme/chat', nodes) }, { r1: { RunnerFailed: { errorMessage: 'no\x1blib' } } },
      /i1 +attic,n2 +failed: no lib +2048/],
    ['recorded', { i9: instance('acme/chat', nodes) }, {}, /i9 +attic,n2 +failed: out of memory +2048/],
    ['draining', { i1: instance('acme/chat', nodes, { drainUntil: '2026-01-01T00:00:00Z' }) },
      { r1: { RunnerReady: {} }, r2: { RunnerReady: {} } }, /i1 .* draining +2048/],
    ['no limit', { i1: instance('acme/chat', { n1: 'r1' }, { contextTokenLimit: 0 }) },
      { r1: { RunnerNew: {} } }, /i1 +attic +RunnerNew +-/],
    ['waiting', {}, {}, /w1 +- +waiting: no room +-/]
  ]
  let seen: object = {}
  const node = await nodeOf(t, {
    'GET /models/acme/chat/card': (response) => {
      const spoken = { voices, title: '', description: '', contextLength: 0, quantization: null, nLayers: 0,
        companions: [{ modelId: 'acme/z', role: 'vocoder' }], defaults: { speed: 1 } }
      sendJson(response, { model_id: 'acme/chat', origin: 'hub', card: card(spoken), copies: [] })
    },
    'GET /models/acme/chat/availability': (response) => {
      sendJson(response,
        { ...available, available: false, message: 'it is not placed', remedy: 'svc place acme/chat' })
    },
    'GET /state': (response) => { sendJson(response, seen) }
  })
  for (const [name, instances, runners, expected] of cases) {
    const waiting = { instanceId: 'w1', modelId: 'acme/chat', message: 'no room' }
    seen = state({
      instances, runners, instanceFailures: [{ instanceId: 'i9', errorMessage: 'out of memory' }],
      ...name === 'waiting'
        ? { waitingInstances: { w1: waiting, w2: { ...waiting, instanceId: 'w2', modelId: 'acme/other' } } }
        : {}
    })
    const { out } = await node.run(['show', 'acme/chat'])
    t.match(out, expected, name)
    t.notMatch(out, /w2|Context|Quantization|Layers/)
  }
  seen = state()
  const { out } = await node.run(['show', 'acme/chat'])
  t.match(out, /^acme\/chat\n\nTasks/)
  t.match(out, /Voices +v0, .*v11 and 2 more\nCompanions +acme\/z \(vocoder\)\nDefaults +speed=1\n/)
  t.match(out, /Where +-\nAnswers +no; it is not placed; svc place acme\/chat\n\nFILE/)
})
