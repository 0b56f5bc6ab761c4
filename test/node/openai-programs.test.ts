/** A program that only svc.yaml describes, on a whole node: placed, asked, chosen and refused. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ask } from './http.js'
import { startNode, svc } from './kit.js'

const SCRIPT = fileURLToPath(new URL('../../plugins/openai-programs/test/fixtures/stand-in.mjs',
  import.meta.url))
const config = {
  architectures: ['LlamaForCausalLM'], model_type: 'llama', num_hidden_layers: 1, hidden_size: 8,
  num_attention_heads: 1, max_position_embeddings: 2048, torch_dtype: 'bfloat16'
}

t.test('an engine of the operator', async (t) => {
  const own = { command: process.execPath, args: [SCRIPT, '--uds', '{socket}', '--journal', 'journal'] }
  const node = await startNode(t, {
    config: {
      cluster: { discovery: false },
      plugins: {
        'placement': { autoplace: [] },
        'openai-programs': { engine_order: ['own'], engines: { own, wrong: { command: '/no/such/program' } } }
      },
      model_store: { hub: { enabled: false } }
    }
  })
  const folder = join(t.testdir(), 'model')
  mkdirSync(folder)
  const files = { 'config.json': config, 'tokenizer.json': {},
    'tokenizer_config.json': { chat_template: 'x' } }
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name),
    JSON.stringify(content))
  writeFileSync(join(folder, 'model.safetensors'), 'x')
  const run = async (...args: string[]) => await svc(args, { env: { SVC_HOME: node.home } })
  const listed = await run('engine', 'ls')
  t.match(listed.stdout, /own +\S+ +yes/)
  t.match(listed.stdout, /wrong +\/no\/such\/program +\/no\/such\/program does not exist/)
  t.match(await run('pull', folder, '--as', 'test/own'), { status: 0 })
  t.match(await run('place', 'test/own', '--engine', 'wrong'),
    { status: 2, stderr: /"wrong" cannot be used on any node; usable: own/ })
  t.match(await run('place', 'test/own', '--engine', 'own', '--wait=60'), { status: 0 })
  const chat = async (content: string, more: object = {}) => await ask(node, '/v1/chat/completions',
    { body: { model: 'test/own', messages: [{ role: 'user', content }], ...more } })
  t.match(await chat('go', { unheard_of: 1 }), { status: 200, text: /Mercury, Venus, Earth\./ })
  t.match(await chat('go', { adapters: 'x' }), { status: 400, text: /adapters/ })
  t.match(await chat('refuse'), { status: 400, text: /context_length_exceeded/ })
})
