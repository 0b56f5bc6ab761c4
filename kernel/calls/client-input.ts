/**
 * Chunks from a client on their way to a handler: a bounded queue with one reader. `full` asks the
 * transport to stop reading; what is under way by then is still taken.
 */
export class ClientInput implements AsyncIterable<unknown> {
  readonly #limits: { chunks: number, bytes: number }
  readonly #onChange: () => void
  readonly #items: { value: unknown, bytes: number }[] = []
  #bytes = 0
  #ended = false
  #wake = (): void => {}

  /** `onChange` is called whenever `full` may have changed. */
  constructor (limits: { chunks: number, bytes: number }, onChange: () => void) {
    this.#limits = limits
    this.#onChange = onChange
  }

  get full (): boolean {
    return !this.#ended && (this.#items.length >= this.#limits.chunks || this.#bytes >= this.#limits.bytes)
  }

  get bytes (): number { return this.#bytes }
  get ended (): boolean { return this.#ended }

  push (value: unknown, bytes: number): void {
    if (this.#ended) return
    this.#items.push({ value, bytes })
    this.#bytes += bytes
    this.#wake()
    this.#onChange()
  }

  /** The client sends no more; what waits is still handed out. */
  end (): void {
    this.#ended = true
    this.#wake()
    this.#onChange()
  }

  /** The call is over: what waits is forgotten. */
  close (): void {
    this.#items.length = 0
    this.#bytes = 0
    this.end()
  }

  async * [Symbol.asyncIterator] (): AsyncGenerator {
    for (;;) {
      const item = this.#items.shift()
      if (item !== undefined) {
        this.#bytes -= item.bytes
        this.#onChange()
        yield item.value
      } else if (this.#ended) {
        return
      } else {
        await new Promise<void>((resolve) => { this.#wake = resolve })
      }
    }
  }
}
