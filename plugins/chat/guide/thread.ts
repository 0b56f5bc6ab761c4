/** The thread that looks questions up for a node, see tools/help.ts. */
import { parentPort, workerData } from 'node:worker_threads'
import { searchIn } from './index.js'
import type { Found } from './search.js'
import type { Sheet } from './sheets.js'

const search = searchIn(workerData as Sheet[])

/** A question, and its answer under the same number. */
export interface Asked { readonly id: number, readonly question: string }
export interface Answered { readonly id: number, readonly found: Found }

parentPort?.on('message', ({ id, question }: Asked) => {
  parentPort?.postMessage({ id, found: search(question) } satisfies Answered)
})
