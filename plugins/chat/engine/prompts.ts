/** Turns requests into token ids. A thread reads long texts, so that they do not block the event loop. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { EngineError } from '../../../kernel/api/engine.js'
import { invalid } from '../text/errors.js'
import type { LoadedText } from '../text/types.js'
import { chatPrompt } from './request.js'

/** Longest text that is read without the thread, UTF-16 units; the slowest texts take some 20 µs for each. */
const SMALL = 8192
/** How long the thread may take for one request. */
const LONGEST_MS = 10_000

/** What is to be read: a conversation, or plain texts. */
export type Reading = { messages: Record<string, unknown> } | { texts: string[], special: boolean }
/** What the thread loads. */
export interface TextSource { folder: string, vocabularySize?: number }
/** Replaced by tests. */
export interface PromptParts { entry?: URL, longestMs?: number }
/** What the thread answers: ids, or a refusal. */
export type Answer = { ids: number[][] } | Pick<EngineError, 'reason' | 'message' | 'details'>

/** The ids of what is to be read. @throws EngineError for messages that the template refuses */
export function readHere (what: Reading, text: LoadedText): number[][] {
  return 'texts' in what
    ? what.texts.map((each) => text.encode(each, what.special))
    : [chatPrompt(what.messages, text)]
}

/** Reads prompts. The thread is started for the first long one. */
export class Prompts {
  private readonly text: LoadedText
  private readonly source: TextSource
  private readonly longestMs: number
  private readonly entry: URL
  private worker: Worker | undefined
  /** The thread reads for one request at a time. */
  private last: Promise<unknown> = Promise.resolve()

  constructor (text: LoadedText, source: TextSource, { entry, longestMs = LONGEST_MS }: PromptParts = {}) {
    this.text = text
    this.source = source
    this.longestMs = longestMs
    this.entry = entry ?? new URL('./prompts-thread.js', import.meta.url)
  }

  /** @throws EngineError invalid_request, also for what takes too long; the signal's reason when it aborts */
  async read (what: Reading, signal: AbortSignal): Promise<number[][]> {
    const written = asJson(what)
    if (written.length <= SMALL) return readHere(what, this.text)
    signal.throwIfAborted()
    const turn = this.last.then(async () => {
      signal.throwIfAborted()
      return await this.inThread(written)
    })
    this.last = turn.catch(() => {})
    const gone = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => { reject(signal.reason as Error) }, { once: true })
    })
    return await Promise.race([turn, gone])
  }

  async close (): Promise<void> { await this.worker?.terminate() }

  private async inThread (written: string): Promise<number[][]> {
    const worker = this.worker ??= this.begin()
    const late = AbortSignal.timeout(this.longestMs)
    let answer: Answer
    worker.ref()
    worker.postMessage(written)
    try {
      [answer] = await once(worker, 'message', { signal: late }) as [Answer]
    } catch (error) {
      // A thread that gave no answer is not asked again.
      this.worker = undefined
      worker.on('error', () => {})
      void worker.terminate()
      if (!late.aborted) throw error
      throw invalid(`the prompt takes longer than ${this.longestMs / 1000} s to read; send a shorter one`,
        'prompt')
    }
    worker.unref()
    if ('ids' in answer) return answer.ids
    throw new EngineError(answer.reason, answer.message, answer.details)
  }

  private begin (): Worker {
    // Not what the process was started with: loaders of tests stay out of it.
    return new Worker(this.entry, { workerData: this.source, execArgv: [] })
  }
}

/** @throws EngineError invalid_request for what is nested too deep */
function asJson (what: Reading): string {
  try {
    return JSON.stringify(what)
  } catch (error) {
    throw invalid(`the messages cannot be read: ${(error as Error).message}`, 'messages')
  }
}
