import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { Tokenizer } from '@huggingface/tokenizers'
import { loadText } from '../text/index.js'
import type { LoadedText } from '../text/index.js'
import { StopFinder } from '../text/stream.js'
import { GUIDE, SHARED } from './engine-kit.js'
import { byteLevelTokenizer, dice, modelFolder, pieceTokenizer, randomText } from './text-kit.js'

/** The model that ships, and public ones where they are at hand. */
const REAL = [GUIDE, ...['stories260K/optimum', 'ort-genai-tiny-random-gpt2-fp32',
  'ort-genai-tiny-random-llama-fp16'].map((name) => join(SHARED, 'data', name))]

function streamed (model: LoadedText, ids: readonly number[], stop: readonly string[] = []): { text: string,
  stopped: boolean } {
  const stream = model.stream(stop)
  let text = ''
  for (const id of ids) {
    const piece = stream.push(id)
    text += piece.text
    if (piece.stopped) return { text, stopped: true }
  }
  return { text: text + stream.end().text, stopped: false }
}

async function checkModel (t: Test, directory: string): Promise<void> {
  const model = await loadText(directory)
  const read = async (name: string): Promise<object> =>
    JSON.parse(await readFile(join(directory, name), 'utf8')) as object
  const library = new Tokenizer(await read('tokenizer.json'), await read('tokenizer_config.json'))
  for (let seed = 0; seed < 150; seed++) {
    const d = dice(seed)
    const text = randomText(d)
    const ids = model.encode(text)
    if (ids.length === 0) continue
    // Also cuts through the middle of letters: any order of tokens is a possible output.
    const random = Array.from({ length: 12 }, () => d.below(model.vocabularySize))
    for (const list of [ids, ids.slice(0, -1), random]) {
      const whole = model.decode(list)
      if (streamed(model, list).text !== whole) {
        t.fail('stream and decode differ', { seed, text, list, whole, got: streamed(model, list).text })
      }
    }
    // The library drops byte order marks and shows unknown ids; neither is in what was encoded otherwise.
    const wanted = library.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false })
    if (!text.includes('\ufeff') && model.decode(ids) !== wanted) {
      t.fail('other than the library', { seed, text, got: model.decode(ids), wanted })
    }
  }
  t.pass(`${directory} streams as it decodes`)
}

t.test('what a stream hands out is what decoding gives', async (t) => {
  const root = t.testdir()
  await checkModel(t, await modelFolder(`${root}/bytes`,
    { 'tokenizer.json': byteLevelTokenizer(), 'tokenizer_config.json': {} }))
  await checkModel(t, await modelFolder(`${root}/pieces`,
    { 'tokenizer.json': pieceTokenizer(), 'tokenizer_config.json': {} }))
  for (const directory of REAL) if (existsSync(directory)) await checkModel(t, directory)
})

t.test('text comes at once where nothing can change', async (t) => {
  const root = t.testdir()
  const model = await loadText(await modelFolder(root,
    { 'tokenizer.json': byteLevelTokenizer(0), 'tokenizer_config.json': {} }))
  const stream = model.stream([])
  t.strictSame([...Buffer.from('a😀e\u0301')].map((b) => stream.push(b + 4).text),
    ['a', '', '', '', '😀', 'e', '', '\u0301'])
  t.strictSame(model.stream([]).push(0xff + 4).text, '\ufffd')
  const broken = model.stream([])
  t.equal(broken.push(0xe2 + 4).text, '')
  t.equal(broken.end().text, '\ufffd')
})

t.test('leading space and special tokens', async (t) => {
  const root = t.testdir()
  const model = await loadText(await modelFolder(`${root}/p`,
    { 'tokenizer.json': pieceTokenizer(), 'tokenizer_config.json': {} }))
  const ids = model.encode(' x y')
  t.equal(model.decode(ids), ' x y')
  t.equal(streamed(model, ids).text, ' x y')
  const on = model.stream([], { continues: true })
  t.equal(model.encode('x').map((id) => on.push(id).text).join(''), ' x',
    'a continuation keeps the space between words')
  t.equal(model.decode([1, ...ids, 2], false), '<s>  x y</s>')
  t.equal(model.decode([]), '')
  const bytes = await loadText(await modelFolder(`${root}/b`,
    { 'tokenizer.json': byteLevelTokenizer(),
      'tokenizer_config.json': { chat_template: 'as [TOOL_CALLS]' } }))
  const push = (markers: string[]): string => {
    const stream = bytes.stream([], { markers })
    return [1, 3, 2, 0].map((id) => stream.push(id).text).join('')
  }
  t.equal(push([]), '<tool_call>', 'only the token that is not special')
  t.equal(push(['[TOOL_CALLS]']), '[TOOL_CALLS]<tool_call>')
  t.equal(push(['<|start|>']), '<tool_call>', 'a marker of another format than the model has is not shown')
})

t.test('stop strings', async (t) => {
  const cases: [string[], string, string, boolean][] = [
    [['stop'], 'go on, stop here', 'go on, ', true],
    [['stop'], 'sto sstop', 'sto s', true],
    [['stop'], 'it may be a sto', 'it may be a sto', false],
    [['aab'], 'aaaab', 'aa', true],
    [['abcd', 'bc'], 'xabcd', 'xa', true],
    [['ab', 'b'], 'xab', 'x', true],
    [['😀'], 'a😁😀', 'a😁', true],
    [['\n\n', '###'], 'a\n#\n##b', 'a\n#\n##b', false],
    [[''], 'abc', 'abc', false]
  ]
  for (const [stops, text, wanted, stopped] of cases) {
    for (let cut = 0; cut <= text.length; cut++) {
      for (const parts of [[text.slice(0, cut), text.slice(cut)], text.split('')]) {
        const finder = new StopFinder(stops)
        const pieces = parts.map((p) => finder.push(p))
        const got = pieces.map((p) => p.text).join('') + finder.end()
        const last = pieces.at(-1)?.stopped
        if (got !== wanted || last !== stopped) {
          t.fail(`${JSON.stringify(text)} cut at ${cut}`, { stops, got, wanted })
        }
      }
    }
  }
  const finder = new StopFinder(['stop'])
  t.strictSame(['s', 't', 'a', 'st'].map((p) => finder.push(p).text), ['', '', 'sta', ''],
    'held back only while it may become one')
  t.equal(finder.end(), 'st')
  t.strictSame([finder.push('stop'), finder.push('more')].map((p) => [p.text, p.stopped]),
    [['', true], ['', true]])
})

t.test('a stop string over the borders of tokens', async (t) => {
  const root = t.testdir()
  const model = await loadText(await modelFolder(root,
    { 'tokenizer.json': byteLevelTokenizer(), 'tokenizer_config.json': {} }))
  const text = 'the quick 日本語 fox END of it'
  t.strictSame(streamed(model, model.encode(text), ['END']), { text: 'the quick 日本語 fox ', stopped: true })
  t.strictSame(streamed(model, model.encode(text), ['本語 f']), { text: 'the quick 日', stopped: true })
})
