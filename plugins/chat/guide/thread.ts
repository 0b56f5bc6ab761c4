/** Worker thread that answers help questions for tools/help.ts. */
import { parentPort, workerData } from 'node:worker_threads'
import { searchIn } from './index.js'
import type { Found } from './search.js'
import type { GuideEntry } from './entries.js'

const search = searchIn(workerData as GuideEntry[])

/** A question to the thread; the answer has the same id. */
export interface ThreadQuestion { readonly id: number, readonly question: string }
export interface ThreadAnswer { readonly id: number, readonly found: Found }

parentPort?.on('message', ({ id, question }: ThreadQuestion) => {
  parentPort?.postMessage({ id, found: search(question) } satisfies ThreadAnswer)
})
