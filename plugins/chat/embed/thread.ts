/** Worker thread that tokenizes long texts for reader.ts. */
import { parentPort, workerData } from 'node:worker_threads'
import type { TokenizerFiles } from './files.js'
import { idsIn, readTokenizer, type Texts } from './tokenizer.js'

const loaded = readTokenizer(workerData as TokenizerFiles)

parentPort?.on('message', (texts: Texts) => {
  void loaded.then((tokenizer) => { parentPort?.postMessage(idsIn(tokenizer, texts)) })
})
