import {
  copyFileSync, readFileSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { Folder } from '../../staging/cards/folder.js'
import reader from '../card-reader.js'

const fixture = fileURLToPath(new URL('fixtures/tiny-whisper/', import.meta.url))
const ENCODER = 'onnx/encoder_model_quantized.onnx'
const DECODER = 'onnx/decoder_model_merged_quantized.onnx'

const namesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('.'))

/** The card of a copy of the fixture after a change. */
async function facts (t: Test, change: (folder: string) => void): ReturnType<typeof find> {
  const folder = t.testdir({ onnx: {} })
  for (const name of namesIn(fixture)) copyFileSync(join(fixture, name), join(folder, name))
  change(folder)
  return await find(folder)
}

const find = async (root: string) => {
  return await reader.formats[0]!.find(new Folder(root, namesIn(root).map((path) =>
    ({ path, size: statSync(join(root, path)).size }))))
}

/** Writes a file of the folder again, with other text in it. */
const replace = (name: string, from: string, to: string) => (folder: string): void => {
  const text = readFileSync(join(folder, name), 'latin1')
  writeFileSync(join(folder, name), text.replaceAll(from, to), 'latin1')
}
const remove = (name: string) => (folder: string): void => { rmSync(join(folder, name)) }
const rename = (from: string, to: string) => (folder: string): void => {
  copyFileSync(join(folder, from), join(folder, to))
  rmSync(join(folder, from))
}

t.test('a Whisper export', async (t) => {
  const found = await facts(t, () => {})
  t.match(found, {
    tasks: ['stt'], engine: 'onnx-stt', family: 'whisper', nLayers: 1, hiddenSize: 16, contextLength: 64,
    quantization: 'q8', languages: ['en', 'de'], memory: { tokenBytes: 0 }
  })
  t.same([...found!.roles], [[ENCODER, 'weights'], [DECODER, 'weights']])
  const bytes = [ENCODER, DECODER].reduce((sum, name) => sum + statSync(join(fixture, name)).size, 0)
  t.equal(found!.memory!.weightBytes, bytes)
})

t.test('variants, and other folders', async (t) => {
  const both = await facts(t, (folder) => {
    copyFileSync(join(folder, ENCODER), join(folder, 'onnx/encoder_model.onnx'))
    copyFileSync(join(folder, DECODER), join(folder, 'onnx/decoder_model_merged.onnx'))
    writeFileSync(join(folder, 'onnx/encoder_model_int8.onnx'), 'broken')
  })
  t.same([...both!.roles.keys()], ['onnx/encoder_model.onnx', DECODER], 'only the decoder in 8 bits')
  const large = await facts(t, (folder) => {
    copyFileSync(join(folder, ENCODER), join(folder, 'onnx/encoder_model.onnx'))
    truncateSync(join(folder, 'onnx/encoder_model.onnx'), 500e6)
  })
  t.ok(large!.roles.has(ENCODER), 'a large encoder in 8 bits')
  const damaged = await facts(t, (folder) => {
    rename(ENCODER, 'onnx/encoder_model.onnx')(folder)
    writeFileSync(join(folder, ENCODER), 'broken')
  })
  t.ok(damaged!.roles.has('onnx/encoder_model.onnx'), 'one that can be used')
  const flat = await facts(t, (folder) => {
    rename(ENCODER, 'encoder_model.onnx')(folder)
    rename(DECODER, 'decoder_model_merged_uint8.onnx')(folder)
  })
  t.same([...flat!.roles.keys()], ['encoder_model.onnx', 'decoder_model_merged_uint8.onnx'])
  const english = await facts(t,
    replace('generation_config.json', 'multilingual": true', 'multilingual": false'))
  t.same(english!.languages, ['en'])
  t.equal(await facts(t, replace('config.json', 'whisper', 'bert')), undefined)
  t.equal(await facts(t, remove('config.json')), undefined)
})

t.test('what is missing or unfit is named', async (t) => {
  const rows: [string, (folder: string) => void, RegExp][] = [
    ['tokenizer', remove('tokenizer.json'), /without tokenizer\.json/],
    ['generation config', remove('generation_config.json'), /without generation_config\.json/],
    ['encoder', remove(ENCODER), /without onnx\/encoder_model/],
    ['decoder', remove(DECODER), /without a decoder: it needs onnx\/decoder_model_merged/],
    ['one of two', rename(DECODER, 'onnx/decoder_model.onnx'), /without a decoder/],
    ['sizes', replace('config.json', 'd_model', 'd_other'), /config\.json lacks/],
    ['bands', replace('config.json', 'bins": 80', 'bins": 128'), /80 mel bands, but config\.json says 128/],
    ['no input', replace(ENCODER, 'input_features', 'input_featurez'), /no input input_features/],
    ['no cache', replace(DECODER, '.0.decoder.key', '.0.decoder.kez'), /no input past/],
    ['broken', (folder) => { writeFileSync(join(folder, DECODER), 'x') }, /none of its graphs can be used/]
  ]
  for (const [name, change, message] of rows) {
    await t.rejects(facts(t, change), message, name)
  }
})
