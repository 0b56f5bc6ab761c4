/** ONNX embedding models that cannot run: the card reader must reject them. */
import t from 'tap'
import { config, decoder, derive, field, filesOf, message, onnx, put, type OnnxParts } from './cards-kit.js'
import type { ModelCard } from '../../../kernel/index.js'

type Files = Record<string, string | Uint8Array | object>

const root = t.testdir()
let folders = 0
async function made (files: Files): Promise<ModelCard> {
  const folder = `${root}/${folders++}`
  put(folder, files)
  return await derive(folder, { modelId: 'acme/model', revision: 'abc', files: filesOf(folder) })
}
const refused = (message: RegExp): { name: string, message: RegExp } => ({ name: 'CardError', message })

const inputs = decoder.inputs!.slice(0, 2)
const outputs: OnnxParts['outputs'] & object = [['last_hidden_state', 1, ['b', 's', 64]]]

const graphed = (parts: OnnxParts): Files => ({
  'config.json': config, 'onnx/model.onnx': onnx({ ...decoder, inputs, outputs, ...parts }),
  'tokenizer.json': '{}'
})

t.test('operators of the file itself, and weights among its inputs', async (t) => {
  const nodes = [message(field(4, 'Frob'), field(7, 'my.domain')),
    message(field(4, 'GroupQueryAttention'), field(7, 'com.microsoft'))]
  t.match(await made(graphed({ nodes, functions: [['Frob', 'my.domain']] })), { engine: 'onnx-lm' })
  const listed: OnnxParts['inputs'] & object = [...inputs, ['w', 1, [12]]]
  t.match(await made(graphed({ ir: 3, inputs: listed })), { kvHeads: 0 }, 'as old files list them')
  await t.rejects(made(graphed({ inputs: listed })), refused(/has an unsupported input "w"/))
})

t.test('graphs that nobody here can run', async (t) => {
  const bad: Array<[Files, RegExp]> = [
    [graphed({ nodes: [message(field(4, 'Frob'), field(7, 'my.domain'))] }),
      /onnx\/model.onnx cannot be run here: .* unsupported operators: my.domain.Frob$/],
    [graphed({ nodes: [message(field(4, 'PagedAttention'), field(7, 'com.microsoft'))] }), /PagedAttention/],
    [graphed({ ir: 99 }), /ONNX IR version is 99; up to 13/],
    [graphed({ opset: 99 }), /opset 99; up to 26/],
    [graphed({ inputs: [...inputs, ['use_cache_branch', 9, [1]]] }),
      /cannot run here: the graph has an unsupported input "use_cache_branch"/],
    [graphed({ inputs: [['input_ids', 1, ['b', 's']], inputs[1]!] }), /type float32: int64/]
  ]
  for (const [content, expected] of bad) await t.rejects(made(content), refused(expected))
})
