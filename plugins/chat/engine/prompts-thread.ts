/** The thread that reads long prompts, see prompts.ts. */
import { parentPort, workerData } from 'node:worker_threads'
import { EngineError } from '../../../kernel/api/engine.js'
import { loadText } from '../text/index.js'
import type { LoadedText } from '../text/types.js'
import { readHere, type Answer, type Reading, type TextSource } from './prompts.js'

const { folder, vocabularySize } = workerData as TextSource
const loaded = loadText(folder, vocabularySize === undefined ? {} : { vocabularySize })

function answerTo (written: string, text: LoadedText): Answer {
  try {
    return { ids: readHere(JSON.parse(written) as Reading, text) }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    const { reason, message, details } = error
    return { reason, message, details }
  }
}

parentPort?.on('message', (written: string) => {
  void loaded.then((text) => { parentPort?.postMessage(answerTo(written, text)) })
})
