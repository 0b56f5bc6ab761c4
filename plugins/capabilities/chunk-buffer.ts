import type { ClientChunk } from '../../kernel/index.js'

/** Counts the buffered bytes of all raw streams against one limit. */
export class BytePool {
  readonly #limit: number
  readonly #waiters = new Set<() => void>()
  #used = 0

  constructor (limitBytes: number) { this.#limit = limitBytes }

  get full (): boolean { return this.#used >= this.#limit }

  /** Adds buffered bytes; a negative number releases bytes. */
  add (bytes: number): void {
    this.#used += bytes
    if (bytes < 0) for (const wake of [...this.#waiters]) wake()
  }

  /** Calls `fn` whenever bytes are released, until the returned function is called. */
  onRoom (fn: () => void): () => void {
    this.#waiters.add(fn)
    return () => { this.#waiters.delete(fn) }
  }
}

export interface BufferLimits { chunks: number, bytes: number, pool?: BytePool }

export type BufferItem<T> = { done: false, value: T } | { done: true, value: unknown }

/**
 * A bounded queue between a handler and its reader, with one producer and one consumer. The producer waits
 * for space before each chunk, so the handler (and its runner) keeps the reader's pace. One chunk may exceed
 * the byte limit and an empty queue always accepts a chunk, so a large chunk cannot block.
 */
export class ChunkBuffer<T> {
  readonly #limits: BufferLimits
  readonly #items: { value: T, bytes: number }[] = []
  #bytes = 0
  #ending: { value: unknown } | { error: unknown } | null = null
  #closed = false
  #wakeProducer = (): void => {}
  #wakeConsumer = (): void => {}

  constructor (limits: BufferLimits) { this.#limits = limits }

  get bytes (): number { return this.#bytes }

  get hasRoom (): boolean {
    if (this.#items.length === 0) return true
    const { chunks, bytes, pool } = this.#limits
    return this.#items.length < chunks && this.#bytes < bytes && pool?.full !== true
  }

  /** Resolves when the next chunk may be produced. Rejects with the signal's reason. */
  async room (signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.hasRoom) return
    await new Promise<void>((resolve, reject) => {
      const settle = (then: () => void): void => {
        this.#wakeProducer = () => {}
        offPool?.()
        signal.removeEventListener('abort', onAbort)
        then()
      }
      const onAbort = (): void => { settle(() => { reject(signal.reason as Error) }) }
      const look = (): void => { if (this.hasRoom) settle(resolve) }
      const offPool = this.#limits.pool?.onRoom(look)
      this.#wakeProducer = look
      signal.addEventListener('abort', onAbort)
    })
  }

  push (value: T, bytes: number): void {
    if (this.#closed) return
    this.#items.push({ value, bytes })
    this.#count(bytes)
    this.#wakeConsumer()
  }

  /** Ends the queue; `value` goes into the terminal frame. */
  end (value: unknown): void { this.#finish({ value }) }

  /** Ends the queue with an error; earlier chunks are still delivered. */
  fail (error: unknown): void { this.#finish({ error }) }

  ready (): BufferItem<T> | undefined {
    const item = this.#items.shift()
    if (item === undefined) return undefined
    this.#count(-item.bytes)
    this.#wakeProducer()
    return { done: false, value: item.value }
  }

  /** The next chunk, or the end. Rejects with the producer's error after all earlier chunks. */
  async take (): Promise<BufferItem<T>> {
    while (this.#items.length === 0 && this.#ending === null) {
      await new Promise<void>((resolve) => { this.#wakeConsumer = resolve })
    }
    const item = this.ready()
    if (item !== undefined) return item
    const ending = this.#ending!
    if ('error' in ending) throw ending.error
    return { done: true, value: ending.value }
  }

  /** Drops queued and future chunks. */
  close (): void {
    this.#closed = true
    this.#items.length = 0
    this.#count(-this.#bytes)
    this.#wakeProducer()
  }

  #finish (ending: { value: unknown } | { error: unknown }): void {
    this.#ending ??= ending
    this.#wakeConsumer()
  }

  #count (bytes: number): void {
    this.#bytes += bytes
    this.#limits.pool?.add(bytes)
  }
}

/**
 * Client chunks for a handler. `full` asks the transport to pause reading; chunks already received are still
 * accepted.
 */
export class ClientInput implements AsyncIterable<ClientChunk> {
  readonly #buffer: ChunkBuffer<ClientChunk>
  readonly #onChange: () => void
  #ended = false

  /** `onChange` is called whenever `full` may have changed. */
  constructor (limits: BufferLimits, onChange: () => void) {
    this.#buffer = new ChunkBuffer(limits)
    this.#onChange = onChange
  }

  get full (): boolean { return !this.#ended && !this.#buffer.hasRoom }
  get bytes (): number { return this.#buffer.bytes }
  get ended (): boolean { return this.#ended }

  push (value: ClientChunk, bytes: number): void {
    if (this.#ended) return
    this.#buffer.push(value, bytes)
    this.#onChange()
  }

  /** Ends the input; queued chunks are still delivered. */
  end (): void {
    this.#ended = true
    this.#buffer.end(undefined)
    this.#onChange()
  }

  /** Ends the input when the call is over; drops queued chunks. */
  close (): void {
    this.#buffer.close()
    this.end()
  }

  async * [Symbol.asyncIterator] (): AsyncGenerator<ClientChunk> {
    for (let taken = await this.#buffer.take(); !taken.done; taken = await this.#buffer.take()) {
      this.#onChange()
      yield taken.value
    }
  }
}
