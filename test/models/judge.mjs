// Runs transformers.js on the files that svc's engine reads: a JSON job on stdin, the JSON result on stdout.
// { root, model, dtype, texts, encode: { texts, pooling, length } }, where `length` is the maximum number of
// tokens of a text, including its end mark.
// It needs a separate process, because two copies of onnxruntime in one process crash.
import { AutoModel, AutoTokenizer, Tensor, env } from '@huggingface/transformers'
import { text } from 'node:stream/consumers'

const job = JSON.parse(await text(process.stdin))
const { root, model, dtype, texts, encode } = job
env.localModelPath = `${root}/`
env.allowRemoteModels = false
const from = { dtype, device: 'cpu', local_files_only: true }

const tokenizer = await AutoTokenizer.from_pretrained(model, { local_files_only: true })
const found = { texts: texts.map((each) => tokenizer.encode(each)), vectors: [] }
const encoder = await AutoModel.from_pretrained(model, from)

/** Inputs of the model; a text that is too long keeps its end mark, which transformers.js would cut off. */
function inputsOf (each) {
  const whole = tokenizer(each)
  const [, size] = whole.input_ids.dims
  const { length = size } = encode
  if (size <= length) return whole
  return Object.fromEntries(Object.entries(whole).map(([name, { type, data }]) => {
    const kept = data.slice(0, length)
    kept[length - 1] = data.at(-1)
    return [name, new Tensor(type, kept, [1, length])]
  }))
}

for (const each of encode.texts) {
  const { last_hidden_state: { data, dims } } = await encoder(inputsOf(each))
  const [, length, size] = dims
  const row = (at) => Array.from(data.slice(at * size, (at + 1) * size))
  const rows = Array.from({ length: encode.pooling === 'cls' ? 1 : length }, (_, at) => row(at))
  found.vectors.push(rows[0].map((_, i) => rows.reduce((sum, each) => sum + each[i], 0) / rows.length))
}

process.stdout.write(JSON.stringify(found))
