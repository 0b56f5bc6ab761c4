// transformers.js on the same files: reads one job as JSON from its input, and writes what it found.
//   { root, model, dtype, chats, texts, prompts: [[id]], tokens, encode: { texts, pooling } }
// It is a process of its own, because two copies of onnxruntime in one process crash.
import { AutoModel, AutoModelForCausalLM, AutoTokenizer, Tensor, env } from '@huggingface/transformers'
import { text } from 'node:stream/consumers'

const TOP = 8
const job = JSON.parse(await text(process.stdin))
const { root, model, dtype, chats = [], texts = [], prompts = [], tokens = 0, encode } = job
env.localModelPath = `${root}/`
env.allowRemoteModels = false
const from = { dtype, device: 'cpu', local_files_only: true }

const tokenizer = await AutoTokenizer.from_pretrained(model, { local_files_only: true })
const found = {
  chats: chats.map((messages) => tokenizer.apply_chat_template(messages,
    { add_generation_prompt: true, tokenize: true, return_tensor: false, return_dict: false })),
  texts: texts.map((each) => tokenizer.encode(each)),
  answers: [],
  vectors: []
}

/** Log probabilities of the likeliest tokens: `[id, logprob]`. */
function likeliest (logits) {
  let most = -Infinity
  for (const value of logits) most = Math.max(most, value)
  let sum = 0
  for (const value of logits) sum += Math.exp(value - most)
  const best = []
  for (let id = 0; id < logits.length; id++) {
    const last = best.at(-1)
    if (best.length === TOP && logits[id] <= last[1]) continue
    const at = best.findIndex(([, value]) => value < logits[id])
    best.splice(at === -1 ? best.length : at, 0, [id, logits[id]])
    best.length = Math.min(best.length, TOP)
  }
  return best.map(([id, value]) => [id, value - most - Math.log(sum)])
}

const ids = (values) => new Tensor('int64', BigInt64Array.from(values, BigInt), [1, values.length])

if (prompts.length > 0) {
  const decoder = await AutoModelForCausalLM.from_pretrained(model, from)
  for (const prompt of prompts) {
    const steps = []
    const note = (_input, logits) => {
      steps.push(likeliest(logits.to('float32').data))
      return logits
    }
    const output = await decoder.generate({
      input_ids: ids(prompt), attention_mask: ids(prompt.map(() => 1)), max_new_tokens: tokens,
      do_sample: false, logits_processor: [note]
    })
    found.answers.push({ ids: Array.from(output.data, Number).slice(prompt.length), steps })
  }
}

if (encode !== undefined) {
  const encoder = await AutoModel.from_pretrained(model, from)
  for (const each of encode.texts) {
    const { last_hidden_state: { data, dims } } = await encoder(tokenizer(each))
    const [, length, size] = dims
    const row = (at) => Array.from(data.slice(at * size, (at + 1) * size))
    const rows = Array.from({ length: encode.pooling === 'cls' ? 1 : length }, (_, at) => row(at))
    found.vectors.push(rows[0].map((_, i) => rows.reduce((sum, each) => sum + each[i], 0) / rows.length))
  }
}

process.stdout.write(JSON.stringify(found))
