/** Language models in ONNX that cannot be run, or not wholly: found while the card is made. */
import t from 'tap'
import { cacheOf } from '../../../kernel/index.js'
import { deriveCard } from '../cards/derive.js'
import { config, decoder, field, filesOf, message, onnx, put } from './cards-kit.js'
import type { ModelCard } from '../../../kernel/index.js'
import type { OnnxParts } from './cards-kit.js'

type Files = Record<string, string | Uint8Array | object>

const root = t.testdir()
let folders = 0
/** The card of files that are made for it. */
async function made (files: Files): Promise<ModelCard> {
  const folder = `${root}/${folders++}`
  put(folder, files)
  return await deriveCard(folder, { modelId: 'acme/model', revision: 'abc', files: filesOf(folder) })
}
const refused = (message: RegExp): { name: string, message: RegExp } => ({ name: 'CardError', message })

const language: Files = {
  'config.json': config, 'onnx/model.onnx': onnx(decoder), 'tokenizer.json': '{}',
  'tokenizer_config.json': { chat_template: '{{ messages }}' }
}

/** The language model with other things in its graph. */
const graphed = (parts: OnnxParts): Files =>
  ({ ...language, 'onnx/model.onnx': onnx({ ...decoder, ...parts }) })

t.test('operators of the file itself, and weights among its inputs', async (t) => {
  const nodes = [message(field(4, 'Frob'), field(7, 'my.domain')),
    message(field(4, 'GroupQueryAttention'), field(7, 'com.microsoft'))]
  t.match(await made(graphed({ nodes, functions: [['Frob', 'my.domain']] })), { engine: 'onnx-lm' })
  const inputs: OnnxParts['inputs'] & object = [...decoder.inputs!, ['w', 1, [12]]]
  t.match(await made(graphed({ ir: 3, inputs })), { kvHeads: 2 }, 'as old files list them')
  await t.rejects(made(graphed({ inputs })), refused(/wants an input "w"/))
})

t.test('what a sequence takes is what the graph keeps', async (t) => {
  const [ids, mask, key, value] = decoder.inputs!
  const state = (name: string): OnnxParts['inputs'] & object => [[name, 1, ['batch', 64, 3]]]
  const hybrid = await made(graphed({
    inputs: [ids!, mask!, key!, value!, ...state('past_conv.1')],
    outputs: [...decoder.outputs!.slice(0, 3), ...state('present_conv.1')]
  }))
  t.match(hybrid, { nLayers: 2, cacheTokenBytes: 2 * 2 * 16 * 4, stateBytes: 64 * 3 * 4 })
  t.equal(cacheOf(hybrid, 100).contextBytes, 100 * 256 + 768)
  const alike = await made(language)
  t.notOk('cacheTokenBytes' in alike || 'stateBytes' in alike, 'layers that are alike need no more words')
  t.equal(cacheOf(alike, 100).contextBytes, 100 * 512)
})

t.test('a template that fails is found before it is used', async (t) => {
  const failing = (chat_template: string): Files =>
    ({ ...language, 'tokenizer_config.json': { chat_template } })
  const card = await made(failing("{{ raise_exception('no, thanks') }}"))
  t.match(card, {
    tasks: ['completions'], description: /its chat template fails/,
    support: { chat: /^not served: .*no, thanks/ }
  })
  t.match(await made(failing('{% for %}')), { tasks: ['completions'], support: { chat: /cannot be read/ } })
  const system = "{% if messages[0].role != 'system' %}{{ raise_exception('system first') }}{% endif %}ok"
  t.match(await made(failing(system)), { tasks: ['chat', 'completions'] }, 'one that wants a system message')
  const template = { chat_template: '{{ raise_exception("no") }}' }
  const beside = { ...language, 'tokenizer_config.json': {}, 'chat_template.json': template }
  t.match(await made(beside), { tasks: ['completions'], support: { chat: /not served/ } })
})

t.test('graphs that nobody here can run', async (t) => {
  const bad: Array<[Files, RegExp]> = [
    [graphed({ nodes: [message(field(4, 'Frob'), field(7, 'my.domain'))] }),
      /onnx\/model.onnx cannot be run here: .* do not run here: my.domain.Frob$/],
    [graphed({ nodes: [message(field(4, 'PagedAttention'), field(7, 'com.microsoft'))] }), /PagedAttention/],
    [graphed({ ir: 99 }), /ONNX IR version 99: up to 13/],
    [graphed({ opset: 99 }), /opset 99: up to 26/],
    [graphed({ inputs: [...decoder.inputs!, ['use_cache_branch', 9, [1]]] }),
      /cannot be run here: the graph wants an input "use_cache_branch"/],
    [graphed({ outputs: decoder.outputs!.slice(0, 3) }), /no output carries it on/],
    [graphed({ inputs: [['input_ids', 1, ['b', 's']], ...decoder.inputs!.slice(1)] }), /type float32: int64/]
  ]
  for (const [content, expected] of bad) await t.rejects(made(content), refused(expected))
})
