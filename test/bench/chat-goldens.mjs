// node test/bench/chat-goldens.mjs: greedy answers of @huggingface/transformers, token for token with log
// probabilities, for plugins/chat/test/golden.test.ts. Needs `npm --prefix test/bench install`; the models of
// ../shared are left out where they are absent. Run it again when a model changes.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import {
  AutoModelForCausalLM, LogitsProcessor, LogitsProcessorList, Tensor, env
} from '@huggingface/transformers'
import { root } from './lib/paths.mjs'
import '../tools/typescript.mjs'

const { makeDecoder } = await import('../../plugins/chat/test/engine-onnx.ts')
const { GOLDENS, SHARED, TINY } = await import('../../plugins/chat/test/golden-kit.ts')
const peer = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'))

env.allowRemoteModels = false

/** Writes down the log probabilities of every step. */
class Noting extends LogitsProcessor {
  steps = []
  _call (_ids, logits) {
    const values = logits.data
    let best = -Infinity
    for (const value of values) best = Math.max(best, value)
    let sum = 0
    for (const value of values) sum += Math.exp(value - best)
    const norm = best + Math.log(sum)
    this.steps.push(Float64Array.from(values, (value) => value - norm))
    return logits
  }
}

async function write (model, { prompt, tokens }) {
  const noting = new Noting()
  const processors = new LogitsProcessorList()
  processors.push(noting)
  const tensor = (values) => new Tensor('int64', BigInt64Array.from(values, BigInt), [1, prompt.length])
  const made = await model.generate({
    input_ids: tensor(prompt), attention_mask: tensor(prompt.map(() => 1)), max_new_tokens: tokens,
    do_sample: false, logits_processor: processors
  })
  const ids = Array.from(made.data, Number).slice(prompt.length)
  const logprobs = ids.map((id, i) => Number(noting.steps[i][id].toFixed(6)))
  return { prompt, ids, logprobs }
}

/** A model of the tests' own, in a folder that transformers.js reads. */
function writeTiny (folder, shape) {
  const directory = join(folder, 'tiny')
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory)
  writeFileSync(join(directory, 'model.onnx'), makeDecoder(shape))
  writeFileSync(join(directory, 'config.json'), JSON.stringify(TINY))
  return directory
}

async function goldenOf ({ name, file, shape, prompts }, folder) {
  const graph = shape === undefined ? file : join(writeTiny(folder, shape), 'model.onnx')
  const inside = basename(dirname(graph)) === 'onnx'
  const directory = inside ? dirname(dirname(graph)) : dirname(graph)
  env.localModelPath = `${dirname(directory)}/`
  const model = await AutoModelForCausalLM.from_pretrained(basename(directory), {
    dtype: 'fp32', device: 'cpu', local_files_only: true, subfolder: inside ? 'onnx' : '',
    model_file_name: basename(graph, '.onnx'), session_options: { logSeverityLevel: 3, intraOpNumThreads: 1 }
  })
  const answers = []
  for (const each of prompts) answers.push(await write(model, each))
  await model.dispose()
  return {
    name, by: `@huggingface/transformers ${peer.dependencies['@huggingface/transformers']}`,
    sha256: createHash('sha256').update(readFileSync(graph)).digest('hex'), answers
  }
}

const folder = mkdtempSync(join(tmpdir(), 'svc-goldens-'))
try {
  for (const each of GOLDENS) {
    if (each.file !== undefined && !existsSync(each.file)) {
      process.stdout.write(`${each.name} was left out: there is no ${each.file} (${SHARED})\n`)
      continue
    }
    const golden = await goldenOf(each, folder)
    const lines = golden.answers.map((answer) => `    ${JSON.stringify(answer)}`)
    const { answers: _, ...head } = golden
    const begin = JSON.stringify(head, null, 2).slice(0, -2)
    const text = `${begin},\n  "answers": [\n${lines.join(',\n')}\n  ]\n}\n`
    writeFileSync(join(root, 'plugins/chat/test/fixtures/goldens', `${each.name}.json`), text)
    process.stdout.write(`${each.name}: ${golden.answers.length} answers\n`)
  }
} finally {
  rmSync(folder, { recursive: true })
}
