/** Hands pieces of text from the scheduler, which does not wait, to a reader, who may be slow. */

/** A token as it is reported with log probabilities. */
export interface TokenReport {
  id: number, text: string, logprob: number | null, top: Array<{ id: number, text: string, logprob: number }>
}

/** New text of one of a task's sequences; `tokens` only where log probabilities were asked for. */
export interface Delta { kind: 'delta', index: number, text: string, tokens?: TokenReport[] }

/** Bounds of one joined piece, so that it fits into a frame. */
const MAX_CHARS = 16_384
const MAX_TOKENS = 128

/** Joins the second piece into the first where the reader is behind. False where they stay apart. */
function joined (first: Delta | undefined, second: Delta): boolean {
  const tokens = (first?.tokens?.length ?? 0) + (second.tokens?.length ?? 0)
  if (first?.index !== second.index || tokens > MAX_TOKENS) return false
  if (first.text.length + second.text.length > MAX_CHARS) return false
  first.text += second.text
  if (second.tokens !== undefined) first.tokens = [...first.tokens ?? [], ...second.tokens]
  return true
}

/** A queue with one reader. What is not read yet is joined per sequence. */
export class Mailbox<Done extends { kind: 'done' }> {
  private readonly pending: Array<Delta | Done> = []
  private ended = false
  private error: unknown
  private wake = (): void => {}

  delta (delta: Delta): void {
    const last = this.pending.at(-1)
    if (last?.kind !== 'delta' || !joined(last, delta)) this.pending.push(delta)
    this.wake()
  }

  done (done: Done): void {
    this.pending.push(done)
    this.wake()
  }

  /** No more will come. */
  close (): void {
    this.ended = true
    this.wake()
  }

  /** Nothing more will come; the reader gets the error after what it has not read. */
  fail (error: unknown): void {
    this.error ??= error
    this.close()
  }

  async * read (): AsyncGenerator<Delta | Done, void> {
    for (;;) {
      const next = this.pending.shift()
      if (next !== undefined) yield next
      else if (this.error !== undefined) throw this.error
      else if (this.ended) return
      else await new Promise<void>((resolve) => { this.wake = resolve })
    }
  }
}
