// Runs node-llama-cpp itself on a model: a JSON job on stdin, the answers as JSON on stdout.
// { library, model, context, batch, prompts, tokens } -> [{ text, logprobs }]
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { text } from 'node:stream/consumers'

const { library, model: modelPath, context: contextSize, batch: batchSize, prompts, tokens } =
  JSON.parse(await text(process.stdin))
const main = createRequire(join(library, 'package.json')).resolve('node-llama-cpp')
const { getLlama } = await import(pathToFileURL(main).href)

const llama = await getLlama({ gpu: false, build: 'never', progressLogs: false, maxThreads: 1 })
const model = await llama.loadModel({ modelPath })
const context = await model.createContext({ contextSize, batchSize, threads: 1, sequences: 1 })
const sequence = context.getSequence()

async function answer (prompt) {
  await sequence.clearHistory()
  const ids = model.tokenize(prompt, true)
  const from = model.tokens.shouldPrependBosToken && ids[0] !== model.tokens.bos
    ? [model.tokens.bos, ...ids] : ids
  const chosen = []
  const logprobs = []
  const options = { temperature: 0, yieldEogToken: true }
  for await (const { token, probabilities } of
    sequence.evaluateWithMetadata(from, { probabilities: true }, options)) {
    if (model.isEogToken(token)) break
    chosen.push(token)
    logprobs.push(Math.log(probabilities.get(token)))
    if (chosen.length === tokens) break
  }
  return { text: model.detokenize(chosen, false, from), logprobs }
}

const answers = []
for (const prompt of prompts) answers.push(await answer(prompt))
process.stdout.write(JSON.stringify(answers))
process.exit()
