// Runs transformers.js on the files that svc's engine reads: a JSON job on stdin, the JSON result on stdout.
// { root, model, dtype, texts, encode: { texts, pooling } }
// It needs a separate process, because two copies of onnxruntime in one process crash.
import { AutoModel, AutoTokenizer, env } from '@huggingface/transformers'
import { text } from 'node:stream/consumers'

const job = JSON.parse(await text(process.stdin))
const { root, model, dtype, texts, encode } = job
env.localModelPath = `${root}/`
env.allowRemoteModels = false
const from = { dtype, device: 'cpu', local_files_only: true }

const tokenizer = await AutoTokenizer.from_pretrained(model, { local_files_only: true })
const found = { texts: texts.map((each) => tokenizer.encode(each)), vectors: [] }
const encoder = await AutoModel.from_pretrained(model, from)
for (const each of encode.texts) {
  const { last_hidden_state: { data, dims } } = await encoder(tokenizer(each))
  const [, length, size] = dims
  const row = (at) => Array.from(data.slice(at * size, (at + 1) * size))
  const rows = Array.from({ length: encode.pooling === 'cls' ? 1 : length }, (_, at) => row(at))
  found.vectors.push(rows[0].map((_, i) => rows.reduce((sum, each) => sum + each[i], 0) / rows.length))
}

process.stdout.write(JSON.stringify(found))
