import type { Clock, Logger } from '../../../kernel/cluster.js'
import type { CloseReason } from './frames.js'
import type { Link } from './link.js'

/** Milliseconds without a ping answer after which a member's new process may replace the open link. */
const ANSWER_MS = 1000
/** Milliseconds for which to report a copy; a running copy redials at least every `backoffMaxMs`. */
const SHOWN_MS = 60_000

/** Detects copied homes: a second process that uses the key of an already linked node. */
export class CopiedHomes {
  readonly #options: { clock: Clock, log: Logger }
  /** By install id: the process that tried to link while another of the member's processes was linked. */
  readonly #doubts = new Map<string, { nodeId: string, sinceMs: number }>()
  readonly #found = new Map<string, { text: string, untilMs: number }>()

  constructor (options: { clock: Clock, log: Logger }) { this.#options = options }

  /** Why to refuse a second link to a member: it is a copy if the open link still answers a ping. */
  refused (link: Link, current: Link): CloseReason | undefined {
    const { installId } = link
    const { nodeId, name } = link.greeting!.hello
    const known = current.greeting!.hello
    if (nodeId === known.nodeId) return undefined
    const now = this.#options.clock.mono()
    const doubt = this.#doubts.get(installId)
    if (doubt?.nodeId !== nodeId) {
      this.#doubts.set(installId, { nodeId, sinceMs: now })
      current.ping()
      return 'too_soon'
    }
    if (current.answeredAt <= doubt.sinceMs) return now - doubt.sinceMs < ANSWER_MS ? 'too_soon' : undefined
    const at = known.address ?? current.listensAt
    this.add(installId, `${name} is linked at ${at}; another process with its key is at ${link.listensAt}.`)
    link.end('copied', at)
    return undefined
  }

  add (installId: string, text: string): void {
    const now = this.#options.clock.mono()
    if ((this.#found.get(installId)?.untilMs ?? 0) < now) this.#options.log.error({ installId }, text)
    this.#found.set(installId, { text, untilMs: now + SHOWN_MS })
  }

  list (): string[] {
    const now = this.#options.clock.mono()
    return [...this.#found.values()].filter(({ untilMs }) => untilMs > now).map(({ text }) => text)
  }
}
