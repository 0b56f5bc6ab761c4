import t from 'tap'
import { matcherOf, selectFiles } from '../hub/select.js'
import { HubError, type Wanted } from '../hub/types.js'

const GIB = 1024 ** 3

/** Files written as `path` or `path=bytes`. */
const files = (...list: string[]): { path: string, size: number }[] => list.map((entry) => {
  const [path, size = '1000'] = entry.split('=')
  return { path: path!, size: Number(size) }
})
const chosen = (list: string[], wanted?: Wanted): string[] =>
  selectFiles(files(...list), wanted).map(({ path }) => path)

const patterns: [string, string, boolean][] = [
  ['config.json', 'config.json', true], ['config.json', 'Config.json', false],
  ['*.json', 'config.json', true], ['*.json', 'a/config.json', false], ['*', 'a', true], ['*', 'a/b', false],
  ['**', 'a/b/c', true], ['**/x.json', 'x.json', true], ['**/x.json', 'a/b/x.json', true],
  ['**/x.json', 'ax.json', false], ['a/**/x', 'a/x', true], ['a/**/x', 'a/b/c/x', true], ['a/**', 'a/b/c',
    true],
  ['a/**', 'b/a/c', false], ['m?del', 'model', true], ['m?del', 'm/del', false], ['a.b', 'axb', false],
  ['en/*/amy*', 'en/en_US/amy.onnx', true], ['[ab].json', 'a.json', false], ['(a+)+$', '(a+)+$', true],
  ['a**b', 'a/x/b', true], ['', '', true], ['', 'a', false], ['*.onnx*', 'm.onnx.json', true],
  ['**/*', 'a', true], ['**/*', 'a/b', true]
]
for (const [pattern, path, is] of patterns) t.equal(matcherOf([pattern])(path), is, `${pattern} on ${path}`)

t.test('a pattern made to be slow is not', async (t) => {
  t.notOk(matcherOf([`${'*a'.repeat(250)}b`])('a'.repeat(1000)))
  t.notOk(matcherOf([`${'**/'.repeat(160)}b`])('a/'.repeat(500)))
  const allow = Array.from({ length: 64 }, () => `${'*a'.repeat(250)}b`)
  const files = Array.from({ length: 1000 }, (_, i) => ({ path: `${'a'.repeat(900)}${i}.onnx`, size: 1 }))
  t.throws(() => selectFiles(files, { allow }), { reason: 'bad_request', message: /use fewer wildcards/ })
  t.equal(selectFiles(files, { allow: ['*.onnx'] }).length, 1000)
})

const plain = ['config.json', 'tokenizer.json', 'LICENSE', 'README.md', '.gitattributes', 'model.safetensors',
  'pytorch_model.bin', 'images/a.png']
const onnx = [...plain, 'onnx/model.onnx=4000', 'onnx/model_fp16.onnx=2000', 'onnx/model_quantized.onnx=1000',
  'onnx/model_q4.onnx=1500', 'onnx/model_q4f16.onnx=900', 'onnx/model_int8.onnx=1000',
  'onnx/model_O2.onnx=4000']
const small = ['config.json', 'tokenizer.json', 'LICENSE']
const cases: [string, string[], Wanted | undefined, string[]][] = [
  ['the plain precision', onnx, undefined, [...small, 'onnx/model.onnx']],
  ['q4', onnx, { variant: 'q4' }, [...small, 'onnx/model_q4.onnx']],
  ['q8 is what ends in _quantized', onnx, { variant: 'q8' }, [...small, 'onnx/model_quantized.onnx']],
  ['fp32 is what ends in nothing', onnx, { variant: 'fp32' }, [...small, 'onnx/model.onnx']],
  ['case does not count', onnx, { variant: 'FP16' }, [...small, 'onnx/model_fp16.onnx']],
  ['plain over 4 GiB with its data: q4',
    [`model.onnx=${GIB}`, `model.onnx_data=${2 * GIB}`, `model.onnx_data_1=${2 * GIB}`, 'model_q4.onnx',
      'model_q8.onnx=1'],
    undefined, ['model_q4.onnx']],
  ['plain of 4 GiB', [`model.onnx=${4 * GIB}`, 'model_q4.onnx'], undefined, ['model.onnx']],
  ['no plain and no q4: the smallest', ['model_fp16.onnx=9', 'model_int8.onnx=5'], undefined,
    ['model_int8.onnx']],
  ['external data in all its spellings',
    ['m.onnx', 'm.onnx_data', 'm.onnx_data_1', 'm.onnx_data_12', 'm.onnx.data', 'm_q4.onnx', 'm_q4.onnx_data',
      'm.onnx.json'], undefined,
    ['m.onnx', 'm.onnx_data', 'm.onnx_data_1', 'm.onnx_data_12', 'm.onnx.data', 'm.onnx.json']],
  ['a Piper voice', ['en-amy.onnx', 'en-amy.onnx.json', 'MODEL_CARD', 'samples/x.wav'], undefined,
    ['en-amy.onnx', 'en-amy.onnx.json', 'MODEL_CARD']],
  ['one voice of a collection', ['en/amy.onnx', 'en/amy.onnx.json', 'de/eva.onnx', 'de/eva.onnx.json'],
    { allow: ['en/amy.onnx*'] }, ['en/amy.onnx', 'en/amy.onnx.json']],
  ['Kokoro',
    ['config.json', 'onnx/model.onnx', 'onnx/model_q8f16.onnx', 'voices/af.bin', 'voices/bm.bin', 'a.pth'],
    undefined, ['config.json', 'onnx/model.onnx', 'voices/af.bin', 'voices/bm.bin']],
  ['Kokoro with one archive of packs',
    ['kokoro-v1.0.onnx=9', 'voices-v1.0.bin', 'pytorch_model.bin'], undefined,
    ['kokoro-v1.0.onnx', 'voices-v1.0.bin']],
  ['Kokoro in several precisions, named with a dot',
    ['kokoro-v1.0.onnx=9', 'kokoro-v1.0.fp16.onnx=5', 'kokoro-v1.0.int8.onnx=2',
      'voices-v1.0.bin'], undefined, ['kokoro-v1.0.onnx', 'voices-v1.0.bin']],
  ['each graph, in the precision there is',
    ['onnx/encoder_model.onnx=10', 'onnx/encoder_model_q4.onnx', 'onnx/decoder_model_merged.onnx=10'],
    { variant: 'q4' }, ['onnx/encoder_model_q4.onnx', 'onnx/decoder_model_merged.onnx']],
  ['Whisper: the merged decoder in 8 bits',
    ['onnx/encoder_model.onnx=10', 'onnx/encoder_model_quantized.onnx', 'onnx/decoder_model.onnx=10',
      'onnx/decoder_model_merged.onnx=10', 'onnx/decoder_model_merged_quantized.onnx',
      'onnx/decoder_with_past_model.onnx'], undefined,
    ['onnx/encoder_model.onnx', 'onnx/decoder_model_merged_quantized.onnx']],
  ['Whisper: a large encoder in 8 bits too',
    ['onnx/encoder_model.onnx=9', `onnx/encoder_model.onnx_data=${500e6}`,
      'onnx/encoder_model_quantized.onnx',
      'onnx/decoder_model_merged.onnx'], undefined,
    ['onnx/encoder_model_quantized.onnx', 'onnx/decoder_model_merged.onnx']],
  ['the onnx folder before the top', ['model.onnx', 'onnx/model.onnx', 'config.json'], undefined,
    ['onnx/model.onnx', 'config.json']],
  ['folders of whole models',
    ['LICENSE', 'cpu/int4/genai_config.json', 'cpu/int4/model.onnx', 'cpu/int4/model.onnx.data',
      'cuda/fp16/genai_config.json', 'cuda/fp16/model.onnx', 'cuda/fp16/model.onnx.data'], undefined,
    ['LICENSE', 'cpu/int4/genai_config.json', 'cpu/int4/model.onnx', 'cpu/int4/model.onnx.data']],
  ['the folder a variant names',
    ['cpu/genai_config.json', 'cpu/model.onnx', 'cuda/genai_config.json', 'cuda/model.onnx'],
    { variant: 'cuda' }, ['cuda/genai_config.json', 'cuda/model.onnx']],
  ['GGUF: Q4_K_M', ['a.Q2_K.gguf=1', 'a.Q4_K_M.gguf=5', 'a.Q8_0.gguf=9', 'config.json', 'README.md'],
    undefined, ['a.Q4_K_M.gguf', 'config.json']],
  ['GGUF: the smallest, with its vision weights',
    ['a-Q8_0.gguf=9', 'a-Q5_K_M.gguf=5', 'mmproj-a-f16.gguf=2', 'mmproj-a-f32.gguf=4', 'mmproj-a-q8.gguf=1'],
    undefined, ['a-Q5_K_M.gguf', 'mmproj-a-f16.gguf']],
  ['GGUF: with its drafter', ['a-Q8_0.gguf=9', 'a-Q8_0-draft.gguf=2', 'draft-a-Q4_0.gguf=1'], undefined,
    ['a-Q8_0.gguf', 'draft-a-Q4_0.gguf']],
  ['GGUF: a drafter alone is a model', ['draft-a-Q4_0.gguf=1', 'draft-a-Q8_0.gguf=2'], undefined,
    ['draft-a-Q4_0.gguf']],
  ['GGUF: the variant', ['a-Q8_0.gguf=9', 'a-q4_k_m.gguf=5'], { variant: 'q8_0' }, ['a-Q8_0.gguf']],
  ['GGUF: all parts, and none of an incomplete one',
    ['q/a-Q4_K_M-00001-of-00002.gguf', 'q/a-Q4_K_M-00002-of-00002.gguf', 'q/a-Q8_0-00001-of-00002.gguf=1'],
    undefined, ['q/a-Q4_K_M-00001-of-00002.gguf', 'q/a-Q4_K_M-00002-of-00002.gguf']],
  ['ONNX before GGUF', ['a.gguf', 'model.onnx'], undefined, ['model.onnx']],
  ['allow decides alone', onnx, { allow: ['README.md', 'onnx/model.onnx', '*.json'] },
    ['config.json', 'tokenizer.json', 'README.md', 'onnx/model.onnx']],
  ['allow without the pickles', [...plain, 'm.gguf'], { allow: ['*'] },
    ['config.json', 'tokenizer.json', 'LICENSE', 'README.md', '.gitattributes', 'model.safetensors',
      'm.gguf']],
  ['safetensors by allow with a card', ['card.yaml', 'm.safetensors'], { allow: ['*'] },
    ['card.yaml', 'm.safetensors']],
  ['allow and variant', onnx, { allow: ['onnx/*', 'README.md'], variant: 'fp16' },
    ['README.md', 'onnx/model_fp16.onnx']],
  ['an empty allow is none', onnx, { allow: [] }, [...small, 'onnx/model.onnx']],
  ['no weights at all', ['config.json', 'vocab.txt', 'x.py'], undefined, ['config.json', 'vocab.txt']]
]
for (const [name, list, wanted, expected] of cases) t.same(chosen(list, wanted), expected, name)

const refusals: [string, string[], Wanted | undefined, string, RegExp][] = [
  ['pickles by allow', plain, { allow: ['*.bin'] }, 'refused_format', /pickle/],
  ['a pickle in a voices folder', ['voices/a.pt'], { allow: ['**'] }, 'refused_format', /pickle/],
  ['pickled weights only', plain.filter((path) => !path.endsWith('.safetensors')), undefined,
    'refused_format', /weights only as \.bin.*GGUF, ONNX and safetensors/],
  ['safetensors by allow', plain, { allow: ['*.safetensors'] }, 'refused_format',
    /allow selects safetensors without config\.json and a tokenizer/],
  ['a pattern for nothing', plain, { allow: ['*.onnx'] }, 'not_found', /none of the 8 files/],
  ['an unknown variant', onnx, { variant: 'q3' }, 'not_found', /fp16, fp32, int8, o2, q4, q4f16, quantized/],
  ['an unknown GGUF variant', ['a-Q8_0.gguf'], { variant: 'Q4_0' }, 'not_found', /a-Q8_0/],
  ['a GGUF with a part missing', ['a-00001-of-00002.gguf'], undefined, 'not_found', /lacks a part/],
  ['a collection of voices', ['a.onnx', 'a.onnx.json', 'b.onnx', 'b.onnx.json'], undefined, 'ambiguous',
    /2 voices.*allow/],
  ['nothing', ['README.md'], undefined, 'not_found', /no usable files/],
  ['too many patterns', plain, { allow: Array<string>(65).fill('*') }, 'bad_request', /64 patterns/],
  ['a long pattern', plain, { allow: ['x'.repeat(513)] }, 'bad_request', /512/]
]
for (const [name, list, wanted, reason, message] of refusals) {
  t.throws(() => chosen(list, wanted), { constructor: HubError, reason, message }, name)
}
