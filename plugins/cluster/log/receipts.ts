import type { CommandReceipt } from '../election/protocol.js'

/** The receipt of the command `id`; `result` is absent once it has been dropped to save space. */
export type KeptReceipt = CommandReceipt & { readonly id: string }

/** Maximum number of receipts; the oldest are dropped. */
export const MAX_RECEIPTS = 1000
export const MAX_RESULT_BYTES = 64 * 1024
/** Maximum bytes of all results as JSON; older results are dropped, their receipts stay. */
const MAX_RESULTS_BYTES = 128 * 1024

export class ReceiptCache {
  readonly #kept = new Map<string, { receipt: KeptReceipt, bytes: number }>()
  #bytes = 0

  constructor (receipts: Iterable<KeptReceipt> = []) {
    for (const receipt of receipts) this.add(receipt)
  }

  get (id: string): KeptReceipt | undefined { return this.#kept.get(id)?.receipt }

  add (receipt: KeptReceipt): void {
    this.#delete(receipt.id)
    const bytes = receipt.result === undefined ? 0 : Buffer.byteLength(JSON.stringify(receipt.result))
    this.#kept.set(receipt.id, { receipt, bytes })
    this.#bytes += bytes
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > MAX_RECEIPTS && oldest !== undefined) this.#delete(oldest)
    if (this.#bytes > MAX_RESULTS_BYTES) this.#shrink(receipt.id)
  }

  * list (): Iterable<KeptReceipt> { for (const { receipt } of this.#kept.values()) yield receipt }

  #delete (id: string): void {
    this.#bytes -= this.#kept.get(id)?.bytes ?? 0
    this.#kept.delete(id)
  }

  #shrink (newest: string): void {
    for (const [id, { receipt, bytes }] of this.#kept) {
      if (this.#bytes <= MAX_RESULTS_BYTES || id === newest) return
      if (bytes === 0) continue
      const { sid, term, seq } = receipt
      this.#kept.set(id, { receipt: { id, sid, term, seq }, bytes: 0 })
      this.#bytes -= bytes
    }
  }
}

export function toReceipt ({ sid, term, seq, result }: KeptReceipt): CommandReceipt {
  return { sid, term, seq, ...(result === undefined ? {} : { result }) }
}
