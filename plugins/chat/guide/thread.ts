/** Worker thread that answers help questions for tools/help.ts. */
import { parentPort, workerData } from 'node:worker_threads'
import { searchIn } from './index.js'
import type { GuideEntry } from './entries.js'

const search = searchIn(workerData as GuideEntry[])

parentPort?.on('message', (question: string) => { parentPort?.postMessage(search(question)) })
