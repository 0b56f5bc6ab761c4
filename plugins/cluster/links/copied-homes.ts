import type { Clock, Logger } from '../../../kernel/cluster.js'
import type { CloseReason } from './frames.js'
import type { Link } from './link.js'

/** Time in which a process must answer a ping, or another start of its node takes its place, ms. */
const ANSWER_MS = 1000
/** A copy is reported for this long after its last call, ms; it calls every `backoffMaxMs` at the latest. */
const SHOWN_MS = 60_000

/** Finds processes that run with the key of a linked node: those of a copied home. */
export class CopiedHomes {
  readonly #options: { clock: Clock, log: Logger }
  /** Process starts that called while a link was open, by member. */
  readonly #doubts = new Map<string, { nodeId: string, sinceMs: number }>()
  readonly #found = new Map<string, { text: string, untilMs: number }>()

  constructor (options: { clock: Clock, log: Logger }) { this.#options = options }

  /**
   * Why a link is refused beside the open one to the same member. That may be dead without a word, so it is
   * pinged first; if it answers, the other process start is a copy.
   */
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

  /** Those found lately, a sentence each. */
  list (): string[] {
    const now = this.#options.clock.mono()
    return [...this.#found.values()].filter(({ untilMs }) => untilMs > now).map(({ text }) => text)
  }
}
