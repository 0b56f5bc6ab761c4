/** Tokenizes texts; a thread handles long ones, so that they do not block the event loop. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Tokenizer } from '@huggingface/tokenizers'
import { invalid } from '../../runners/language/refusals.js'
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
  private readonly files: TokenizerFiles
  private readonly longestMs: number
  private readonly entry: URL
  private worker: Worker | undefined
  /** The newest request; the next one waits for it, since the thread handles one at a time. */
  private last: Promise<unknown> = Promise.resolve()

  constructor (
    tokenizer: Tokenizer, files: TokenizerFiles, { entry, longestMs = LONGEST_MS }: ReaderParts = {}
  ) {
    this.tokenizer = tokenizer
    this.vocabularySize = tokenizer.get_vocab().size
    this.files = files
    this.longestMs = longestMs
    this.entry = entry ?? new URL('./thread.js', import.meta.url)
  }

  /** @throws EngineError invalid_request after a timeout; the signal's reason if it aborts */
  async read (what: Texts, signal: AbortSignal): Promise<number[][]> {
    const characters = what.texts.reduce((sum, { length }) => sum + length, 0)
    if (characters <= SMALL) return idsIn(this.tokenizer, what)
    signal.throwIfAborted()
    const turn = this.last.then(async () => {
      signal.throwIfAborted()
      return await this.inThread(what)
    })
    this.last = turn.catch(() => {})
    const gone = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => { reject(signal.reason as Error) }, { once: true })
    })
    return await Promise.race([turn, gone])
  }

  async close (): Promise<void> { await this.worker?.terminate() }

  private async inThread (what: Texts): Promise<number[][]> {
    const worker = this.worker ??= this.begin()
    const late = AbortSignal.timeout(this.longestMs)
    worker.ref()
    worker.postMessage(what)
    try {
      const [ids] = await once(worker, 'message', { signal: late }) as [number[][]]
      worker.unref()
      return ids
    } catch (error) {
      // A thread that failed or timed out is replaced.
      this.worker = undefined
      worker.on('error', () => {})
      void worker.terminate()
      if (!late.aborted) throw error
      throw invalid(`the input takes longer than ${this.longestMs / 1000} s to tokenize; send shorter texts`,
        'input')
    }
  }

  private begin (): Worker {
    // The worker must not inherit execArgv, which holds the loaders of the test runner.
    return new Worker(this.entry, { workerData: this.files, execArgv: [] })
  }
}
