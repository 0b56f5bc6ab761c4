import { createHash, timingSafeEqual } from 'node:crypto'
import {
  wellFormed, type Arrival, type CallerScheme, type Clock, type Proof, type Section, type SvcError,
  type TokenRecord, type Tokens
} from '../../../kernel/index.js'
import type { Key } from './declarations.js'

/** Milliseconds without contact with the cluster after which a node refuses keys. */
export const UNHEARD_MS = 60_000

interface Parts {
  section: Section<Key>
  /** The day of each key's last use, as reported by each node since its start. */
  use: Section<string>
  /** Ids of revoked tokens and keys. */
  revocations: Pick<Section<string>, 'get'>
  tokens: Pick<Tokens, 'stands'>
  clock: Clock
  isMember: (installId: string) => boolean
  /** Whether this node has contact with its cluster. */
  hears: () => boolean
  unconfirmed: () => SvcError
}

/** Keys of the cluster as credentials, read from this node's copy of the control document. */
export class SharedKeys implements CallerScheme {
  // Keys are bearers; no client uses this word.
  readonly word = 'SVCKEY'
  readonly bearer = 'svc_app_'
  readonly #parts: Parts
  #hashes = new Map<string, Buffer>()
  #heardMs = -Infinity

  constructor (parts: Parts) { this.#parts = parts }

  check ({ device }: Arrival, token: string): Proof | undefined {
    if (device !== null || !wellFormed(token)) return undefined
    const hash = createHash('sha256').update(token).digest()
    const [id] = [...this.#hashes].find(([, known]) => timingSafeEqual(known, hash)) ?? []
    const key = id === undefined ? undefined : this.valid(id)
    if (id === undefined || key === undefined) return undefined
    if (!this.#isConfirmed()) throw this.#parts.unconfirmed()
    const { clock, tokens, use } = this.#parts
    if (!tokens.stands(id)) return undefined
    const day = new Date(clock.now()).toISOString().slice(0, 10)
    if (use.get(id) !== day) use.put(id, day)
    const { authorities, models } = key
    return { caller: { id, mode: 'direct', authorities: new Set(authorities), models: models ?? undefined } }
  }

  stands (callerId: string): boolean | undefined {
    if (!callerId.startsWith('key_')) return undefined
    return this.valid(callerId) !== undefined && this.#isConfirmed()
  }

  makerOf (callerId: string): string | undefined { return this.get(callerId)?.makers[0] }

  get (id: string): Key | undefined { return this.#parts.section.get(id) }

  /** The key, unless it has ended. */
  valid (id: string): Key | undefined {
    const key = this.get(id)
    if (key === undefined || this.#isRevoked(id, key)) return undefined
    return key.expires !== null && Date.parse(key.expires) <= this.#parts.clock.now() ? undefined : key
  }

  /** Reads the hashes of the document, after each change. */
  read (): void {
    this.#hashes = new Map([...this.#parts.section.entries()]
      .map(({ key, value }) => [key, Buffer.from(value.hash, 'base64url')]))
  }

  records (): TokenRecord[] {
    const { section, tokens, use } = this.#parts
    // Without contact a node does not know whether a device is valid.
    const hears = this.#isConfirmed()
    const isDeviceGone = (maker: string): boolean => !/^(app|key)_/.test(maker) && !tokens.stands(maker)
    const days = [...use.entries()].sort((a, b) => a.value < b.value ? -1 : 1)
    return [...section.entries()].map(({ key: id, value }) => ({
      ...recordOf(id, value), lastUsedDay: days.findLast(({ key }) => key === id)?.value ?? null,
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
  #isRevoked (id: string, { makers, node }: Key): boolean {
    const { isMember, revocations } = this.#parts
    return !isMember(node) || [id, ...makers].some((one) => revocations.get(one) !== undefined)
  }
}

export const recordOf = (
  id: string, { authorities, created, expires, label, makers, models }: Key
): TokenRecord => ({
  id, label, authorities, models, created, expires, lastUsedDay: null, revoked: false, by: makers[0]!
})
