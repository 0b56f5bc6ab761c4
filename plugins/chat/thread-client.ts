import { once } from 'node:events'
import type { Worker } from 'node:worker_threads'

/** Sends requests to a worker thread, one at a time. The first request starts the thread. */
export class ThreadClient<Request, Reply> {
  readonly #start: () => Worker
  #worker: Worker | undefined
  /** The newest request; the next one waits for it. */
  #last: Promise<unknown> = Promise.resolve()

  constructor (start: () => Worker) { this.#start = start }

  /**
   * Resolves to the thread's next message. Rejects if the thread fails, and with an AbortError if it takes
   * longer than `limitMs`; the next request then starts another thread. Skips a request whose signal has
   * aborted before its turn.
   */
  async ask (request: Request, limitMs?: number, signal?: AbortSignal): Promise<Reply> {
    const turn = this.#last.then(async () => {
      signal?.throwIfAborted()
      return await this.#send(request, limitMs === undefined ? undefined : AbortSignal.timeout(limitMs))
    })
    this.#last = turn.catch(() => {})
    return await turn
  }

  /** Ends the thread; a later request starts another one. */
  async close (): Promise<void> {
    const worker = this.#worker
    this.#worker = undefined
    await worker?.terminate()
  }

  async #send (request: Request, signal: AbortSignal | undefined): Promise<Reply> {
    const worker = this.#worker ??= this.#start().on('error', () => {})
    worker.ref()
    worker.postMessage(request)
    try {
      const [reply] = await once(worker, 'message', { signal }) as [Reply]
      worker.unref()
      return reply
    } catch (error) {
      void this.close()
      throw error
    }
  }
}
