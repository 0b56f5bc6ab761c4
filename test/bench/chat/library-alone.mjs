// node-llama-cpp without svc, asked over an IPC channel: node library-alone.mjs PACKAGE MODEL
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [folder, file] = process.argv.slice(2)
const THREADS = 1
const SLOTS = 8

const { getLlama } = await import(pathToFileURL(join(folder, 'dist', 'index.js')).href)
const llama = await getLlama({ gpu: false, build: 'never', skipDownload: true, maxThreads: THREADS,
  logLevel: 'error' })
const model = await llama.loadModel({ modelPath: file })
const context = await model.createContext({ sequences: SLOTS, contextSize: 512, threads: THREADS })
const sequences = Array.from({ length: SLOTS }, () => context.getSequence())

/** Generates up to `count` tokens after a prompt; returns the number of generated tokens. */
async function written (sequence, { prompt, count }) {
  await sequence.clearHistory()
  let tokens = 0
  for await (const token of sequence.evaluate(prompt, { temperature: 0 })) {
    void token
    if (++tokens === count) break
  }
  return tokens
}

process.on('message', async (asked) => {
  const counts = await Promise.all(asked.map((one, i) => written(sequences[i], one)))
  process.send(counts.reduce((a, b) => a + b, 0))
})
process.send('ready')
