/** Tokenizes texts; a thread handles long ones, so that they do not block the event loop. */
import { Worker } from 'node:worker_threads'
import type { Tokenizer } from '@huggingface/tokenizers'
import { invalid } from '../../runners/language/refusals.js'
import { ThreadClient } from '../thread-client.js'
import type { TokenizerFiles } from './files.js'
import { idsIn, type Texts } from './tokenizer.js'

/** Longer texts go to the thread; tokenizing takes up to about 20 µs per character. */
const SMALL = 8192
/** Milliseconds that the thread may take for one request. */
const LONGEST_MS = 10_000

/** Overridden by tests. */
export interface ReaderParts { entry?: URL, longestMs?: number }

/** Tokenizes texts. The first long one starts the thread. */
export class TextReader {
  readonly tokenizer: Tokenizer
  readonly vocabularySize: number
  private readonly longestMs: number
  private readonly thread: ThreadClient<Texts, number[][]>

  constructor (
    tokenizer: Tokenizer, files: TokenizerFiles, { entry, longestMs = LONGEST_MS }: ReaderParts = {}
  ) {
    this.tokenizer = tokenizer
    this.vocabularySize = tokenizer.get_vocab().size
    this.longestMs = longestMs
    // The worker must not inherit execArgv, which holds the loaders of the test runner.
    this.thread = new ThreadClient(() => new Worker(entry ?? new URL('./thread.js', import.meta.url),
      { workerData: files, execArgv: [] }))
  }

  /** @throws EngineError invalid_request after a timeout; the signal's reason if it aborts */
  async read (what: Texts, signal: AbortSignal): Promise<number[][]> {
    const characters = what.texts.reduce((sum, { length }) => sum + length, 0)
    if (characters <= SMALL) return idsIn(this.tokenizer, what)
    signal.throwIfAborted()
    const gone = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => { reject(signal.reason as Error) }, { once: true })
    })
    try {
      return await Promise.race([this.thread.ask(what, this.longestMs, signal), gone])
    } catch (error) {
      if (signal.aborted || (error as Error).name !== 'AbortError') throw error
      throw invalid(`the input takes longer than ${this.longestMs / 1000} s to tokenize; send shorter texts`,
        'input')
    }
  }

  async close (): Promise<void> { await this.thread.close() }
}
