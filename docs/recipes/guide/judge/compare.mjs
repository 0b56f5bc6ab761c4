// Compares the answers of guide.gguf with those of the ONNX file, greedily, on one thread:
// node --import ./test/tools/typescript.mjs docs/recipes/guide/judge/compare.mjs FOLDER [GGUF]
// FOLDER has node-llama-cpp in its node_modules.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Template } from '@huggingface/jinja'
import { Tokenizer } from '@huggingface/tokenizers'
import { sheets } from '../declarations.mjs'
import { asker } from './ask.mjs'

const shipped = fileURLToPath(new URL('../../../../plugins/chat/guide/model', import.meta.url))
const [folder, file = join(shipped, 'guide.gguf')] = process.argv.slice(2)
const LONGEST_ANSWER = 160
const QUESTIONS = 200
const CONVERSATIONS = 40

function questions () {
  const read = (path) => readFileSync(new URL(path, import.meta.url), 'utf8').trim().split('\n')
    .map((line) => line.split('\t')[0])
  return [...read('questions.tsv'), ...read('../../../../plugins/chat/test/fixtures/newcomers.tsv')]
    .slice(0, QUESTIONS)
}

/** A function that answers a conversation, and the model. */
async function ggufAsker (path) {
  const library = join(folder, 'node_modules/node-llama-cpp/dist/index.js')
  const { getLlama } = await import(pathToFileURL(library).href)
  const llama = await getLlama({ build: 'never', gpu: false, maxThreads: 1, logLevel: 'warn' })
  const from = performance.now()
  const model = await llama.loadModel({ modelPath: path, gpuLayers: 0 })
  const context = await model.createContext({ contextSize: model.trainContextSize, threads: 1 })
  const sequence = context.getSequence()
  const loaded = performance.now() - from
  const template = new Template(model.fileInfo.metadata.tokenizer.chat_template)
  const ask = async (messages) => {
    const prompt = model.tokenize(template.render({ messages, add_generation_prompt: true }), true)
    await sequence.clearHistory()
    const ids = []
    for await (const id of sequence.evaluate(prompt, { temperature: 0 })) {
      if (model.isEogToken(id) || ids.push(id) === LONGEST_ANSWER) break
    }
    return model.detokenize(ids)
  }
  return { ask, model, loaded, close: async () => { await llama.dispose() } }
}

const user = (content) => ({ role: 'user', content })

/** Questions alone, then each with the question and the answer before it; some after a system message. */
async function conversations (ask) {
  const all = questions()
  const turns = []
  for (let i = 1; i <= CONVERSATIONS; i++) {
    const before = [user(all[i * 4]), { role: 'assistant', content: await ask([user(all[i * 4])]) }]
    const system = i % 4 === 0 ? [{ role: 'system', content: 'You answer questions about svc.' }] : []
    turns.push([...system, ...before, user(all[i * 4 + 1])])
  }
  return { questions: all.map((question) => [user(question)]), conversations: turns }
}

async function timed (ask, rows) {
  const texts = []
  const from = performance.now()
  for (const messages of rows) texts.push(await ask(messages))
  return { texts, seconds: (performance.now() - from) / 1000 }
}

/** Compares the tokens of lines and whole texts with those of tokenizer.json, and the text they give back. */
function compareTokens (model) {
  const read = (name) => JSON.parse(readFileSync(join(shipped, name), 'utf8'))
  const tokenizer = new Tokenizer(read('tokenizer.json'), read('tokenizer_config.json'))
  const files = ['../README.md', '../gen.py', '../../../../plugins/chat/guide/words.yaml', '../../../api.md']
    .map((path) => readFileSync(new URL(path, import.meta.url), 'utf8'))
  const texts = [...questions(), ...sheets.map(({ answer }) => answer), ...files,
    ...files.flatMap((text) => text.split('\n')).filter((line) => line !== ''),
    'naïve  日本語\r\n\t🙂 1²Ⅷ …', '<|user|>a<|end|>  <|end']
  const same = texts.filter((text) => {
    const ids = model.tokenize(text, true)
    const { ids: expected } = tokenizer.encode(text, { add_special_tokens: false })
    return ids.join() === expected.join() && model.detokenize(ids, true) === text
  })
  console.log(`tokens: ${same.length} of ${texts.length} texts equal, and restored`)
}

const start = performance.now()
const present = await asker(shipped)
const onnxLoaded = performance.now() - start
const gguf = await ggufAsker(file)
console.log(`load: ONNX ${onnxLoaded.toFixed(0)} ms, GGUF ${gguf.loaded.toFixed(0)} ms`)
compareTokens(gguf.model)
for (const [what, rows] of Object.entries(await conversations(present))) {
  const onnx = await timed(present, rows)
  const other = await timed(gguf.ask, rows)
  const differ = rows.flatMap((_, i) => onnx.texts[i] === other.texts[i] ? [] : [i])
  console.log(`${what}: ${rows.length - differ.length} of ${rows.length} equal`)
  for (const i of differ) {
    console.log(`- ${rows[i].at(-1).content}\n  ONNX: ${onnx.texts[i]}\n  GGUF: ${other.texts[i]}`)
  }
  const speed = ({ texts, seconds }) =>
    (texts.reduce((sum, text) => sum + gguf.model.tokenize(text).length + 1, 0) / seconds).toFixed(0)
  console.log(`tokens per second, prompts included: ONNX ${speed(onnx)}, GGUF ${speed(other)}`)
}
await gguf.close()
