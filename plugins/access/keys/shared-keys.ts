import { createHash, timingSafeEqual } from 'node:crypto'
import {
  wellFormed, type Arrival, type CallerScheme, type Clock, type Logger, type Proof, type Section,
  type SvcError, type TokenRecord, type Tokens
} from '../../../kernel/index.js'
import { hasEnded } from './commands.js'
import type { Key } from './declarations.js'
import type { KeyNotes } from './notes.js'

/** Milliseconds without contact with the cluster after which a node refuses keys. */
export const UNHEARD_MS = 60_000

interface Parts {
  section: Section<Key>
  /** The day of each key's last use, as reported by each node. */
  use: Section<string>
  /** Ids of revoked tokens of single nodes. */
  revocations: Pick<Section<string>, 'get'>
  notes: KeyNotes
  tokens: Pick<Tokens, 'stands'>
  clock: Clock
  log: Logger
  /** Whether this node has contact with its cluster. */
  hears: () => boolean
  isMember: (installId: string) => boolean
  end: (id: string) => Promise<unknown>
  unconfirmed: () => SvcError
}

/** Keys of the cluster as credentials, read from this node's copy of the control document. */
export class SharedKeys implements CallerScheme {
  // A key is only accepted as a bearer; this word is valid too, but no client uses it.
  readonly word = 'SVCKEY'
  readonly bearer = 'svc_app_'
  readonly #parts: Parts
  #hashes = new Map<string, Buffer>()
  #heardMs = -Infinity

  constructor (parts: Parts) {
    this.#parts = parts
    for (const [id, day] of parts.notes.used) parts.use.put(id, day)
  }

  check ({ device }: Arrival, token: string): Proof | undefined {
    if (device !== null || !wellFormed(token)) return undefined
    const hash = createHash('sha256').update(token).digest()
    const [id] = [...this.#hashes].find(([, known]) => timingSafeEqual(known, hash)) ?? []
    const key = id === undefined ? undefined : this.#valid(id)
    if (id === undefined || key === undefined) return undefined
    if (!this.#isConfirmed()) throw this.#parts.unconfirmed()
    if (!this.#parts.tokens.stands(id)) return undefined
    const { clock, notes, use } = this.#parts
    const day = new Date(clock.now()).toISOString().slice(0, 10)
    if (notes.use(id, day)) use.put(id, day)
    const { authorities, models } = key
    return { caller: { id, mode: 'direct', authorities: new Set(authorities), models: models ?? undefined } }
  }

  stands (callerId: string): boolean | undefined {
    if (!callerId.startsWith('key_')) return undefined
    return this.#valid(callerId) !== undefined && this.#isConfirmed()
  }

  makerOf (callerId: string): string | undefined { return this.get(callerId)?.makers[0] }

  get (id: string): Key | undefined { return this.#parts.section.get(id) }

  /** Reads the document, and sends the master revocations that the document lacks. */
  hear (): void {
    const { end, log, notes, section } = this.#parts
    const all = [...section.entries()]
    this.#hashes = new Map(all.map(({ key, value }) => [key, Buffer.from(value.hash, 'base64url')]))
    notes.revoke(all.filter(({ value }) => value.revoked).map(({ key }) => key))
    if (!this.#isConfirmed()) return
    for (const { key, value } of all) {
      if (value.revoked || !notes.isRevoked(key)) continue
      end(key).catch((err: unknown) => { log.debug({ err, key }, 'a revocation could not be stored yet') })
    }
  }

  records (): TokenRecord[] {
    const { section, tokens, use } = this.#parts
    // Devices that this node has not heard of for long may be valid, so they count only with contact.
    const isDeviceGone = (maker: string): boolean => !/^(app|key)_/.test(maker) && !tokens.stands(maker)
    const hears = this.#isConfirmed()
    const days = new Map([...use.entries()].map(({ key, value }) => [key, value])
      .sort(([, a], [, b]) => a! < b! ? -1 : 1) as [string, string][])
    return [...section.entries()].map(({ key: id, value }) => ({
      ...recordOf(id, value), lastUsedDay: days.get(id) ?? null,
      revoked: this.#isRevoked(id, value) || (hears && value.makers.some(isDeviceGone))
    }))
  }

  look (): void { if (this.#parts.hears()) this.#heardMs = this.#parts.clock.mono() }

  #isConfirmed (): boolean {
    const isLate = (): boolean => this.#parts.clock.mono() - this.#heardMs > UNHEARD_MS
    if (isLate()) this.look()
    return !isLate()
  }

  /** A key also ends with the credential that created it, and with its node. */
  #isRevoked (id: string, { makers, node, revoked }: Key): boolean {
    const { isMember, notes, revocations } = this.#parts
    return revoked || !isMember(node) || [id, ...makers].some((one) =>
      notes.isRevoked(one) || revocations.get(one) !== undefined)
  }

  #valid (id: string): Key | undefined {
    const key = this.get(id)
    return key === undefined || hasEnded(key, this.#parts.clock.now()) || this.#isRevoked(id, key)
      ? undefined : key
  }
}

export const recordOf = (
  id: string, { authorities, created, expires, label, makers, models, revoked }: Key
): TokenRecord => ({
  id, label, authorities, models, created, expires, lastUsedDay: null, revoked, by: makers[0]!
})
