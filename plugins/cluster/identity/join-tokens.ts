import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import {
  HomeError, identityFile, kernelError, readText, readVersioned, writeVersioned
} from '../../../kernel/cluster.js'
import { applicantSchema, invitationFields } from '../members/member.js'
import {
  fits, flag, invalidField, listOf, matching, orNull, read, record, schemaOf, mapShapeError, ShapeError
} from '../wire.js'
import { isRemote } from './addresses.js'
import type { TLSSocket } from 'node:tls'
import type { JoinTokenRecord, SvcError } from '../../../kernel/cluster.js'
import type { Of } from '../wire.js'

const PREFIX = 'svcjoin1_'
const FORM = /^svcjoin1_([A-Za-z0-9_-]{1,4096})_([0-9a-f]{8})$/
/** A random 128-bit value, base64url. */
const random16 = matching(/^[A-Za-z0-9_-]{22}$/, '22 base64url characters')
/** Largest time value that a Date can hold, in ms since 1970. */
const MAX_INSTANT = 8.64e15

const ticketSchema = record({
  ...invitationFields,
  id: random16,
  secret: random16,
  exp: schemaOf<number>({
    type: 'number', minimum: -MAX_INSTANT, maximum: MAX_INSTANT, says: 'must be a time'
  })
})
export const requestSchema = record({
  token_id: random16,
  proof: matching(/^[A-Za-z0-9_-]{43}$/, '43 base64url characters'),
  member: applicantSchema
})

export type JoinTicket = Of<typeof ticketSchema>
export type JoinRequest = Of<typeof requestSchema>

/** RFC 5705 label of the channel binding, and its length in bytes. */
const BINDING_LABEL = 'EXPORTER-svc-join'
const BINDING_BYTES = 32

/** CRC-32 (IEEE 802.3) of the token's other characters, 8 hex digits; detects typing and copying mistakes. */
const checksum = (body: string): string => (crc32(body) >>> 0).toString(16).padStart(8, '0')

function badToken (what: string): SvcError {
  const message = `the join token ${what}`
  return kernelError('invalid_request', message, { param: 'token', issues: [{ path: 'token', message }] })
}

/** The token's text: svcjoin1_<base64url JSON>_<crc>. */
export function writeJoinToken (ticket: JoinTicket): string {
  const body = PREFIX + Buffer.from(JSON.stringify(ticket)).toString('base64url')
  return `${body}_${checksum(body)}`
}

function readTicket (text: string): JoinTicket {
  let value: unknown
  try { value = JSON.parse(text) } catch { throw new ShapeError('', 'must be JSON') }
  return read(ticketSchema, value)
}

/** Reads a join token; `nowMs`: wall time. Throws `invalid_request`, with a message without the secret. */
export function readJoinToken (token: string, nowMs: number): JoinTicket {
  const text = token.trim()
  const match = FORM.exec(text)
  if (match === null) {
    throw badToken(text.startsWith(PREFIX)
      ? 'is truncated or has invalid characters; copy all of it'
      : `does not begin with ${PREFIX}; \`svc join-token\` on a member creates one`)
  }
  const [, body = '', sum] = match
  if (checksum(PREFIX + body) !== sum) {
    throw badToken('is mistyped (its checksum does not match); copy it again')
  }
  const ticket = mapShapeError(() => readTicket(Buffer.from(body, 'base64url').toString()),
    ({ message }) => badToken(`is invalid: ${message}`))
  if (ticket.exp <= nowMs) {
    const [expired, now] = [ticket.exp, nowMs].map((ms) => new Date(ms).toISOString())
    throw badToken(`expired at ${expired}, this node's clock says ${now}; ` +
      'create a new one with `svc join-token`, or set the clock')
  }
  return ticket
}

/** The key for proofs; the inviter stores it instead of the secret. */
export function proofKeyOf (secret: string): Buffer {
  return createHash('sha256').update(`svc-join-key\0${secret}`).digest()
}

/** The proof for a key from proofKeyOf. All inputs have fixed lengths, so the encoding is unambiguous. */
export function proofWith (
  key: Buffer, binding: Buffer, fingerprints: { inviter: string, joiner: string }
): string {
  if (binding.byteLength !== BINDING_BYTES) {
    throw new RangeError(`a binding has ${BINDING_BYTES} bytes, not ${binding.byteLength}`)
  }
  const { inviter, joiner } = fingerprints
  return createHmac('sha256', key).update('svc-join-proof\0').update(binding)
    .update(`${inviter}\0${joiner}`).digest('base64url')
}

/**
 * A joiner's proof of the secret: HMAC-SHA-256, base64url, over the channel binding of its connection and
 * both keys, so it is worthless on other connections or for other keys.
 */
export function proofOf (
  secret: string, binding: Buffer, fingerprints: { inviter: string, joiner: string }
): string {
  return proofWith(proofKeyOf(secret), binding, fingerprints)
}

/** The channel binding of TLS 1.3 (RFC 8446 7.5, RFC 9266): 32 bytes that only the two ends know. */
export function joinBinding (socket: TLSSocket): Buffer {
  return socket.exportKeyingMaterial(BINDING_BYTES, BINDING_LABEL, Buffer.alloc(0))
}

export function readJoinRequest (body: unknown): JoinRequest {
  return mapShapeError(() => read(requestSchema, body), invalidField)
}

/** A joiner's request; `binding` comes from its socket (joinBinding). */
export interface Redemption { tokenId: string, proof: string, binding: Buffer, joinerFingerprint: string }

const FORMAT = 1
const MAX_TTL_SECONDS = 86_400
const MAX_OPEN = 100
/** Maximum number of used or expired tokens that are kept, so that a refusal can state the reason. */
const MAX_ENDED = 200

const anyText = schemaOf<string>({ type: 'string' })
const storedSchema = record({
  id: anyText,
  /** The result of proofKeyOf, base64url; null once the token is used or expired. */
  key: orNull(anyText),
  fingerprint: anyText,
  exp: schemaOf<number>({ type: 'number' }),
  usedBy: orNull(anyText)
}, {
  by: anyText,
  /** Authorities of the token's creator; absent means all. */
  authorities: listOf(anyText),
  outside: flag
})
type Stored = Omit<Of<typeof storedSchema>, 'authorities'> & Maker & { outside: boolean }
/** The caller that created a join token, and its authorities; absent means all. */
export interface Maker { by: string, authorities?: readonly string[] | undefined }

type Why = 'unknown' | 'expired' | 'used' | 'wrong_proof'

const refusals: Record<Why, string> = {
  unknown: 'This node did not create the join token.',
  expired: 'The join token has expired.',
  used: 'The join token has already been used; each admits one node.',
  wrong_proof: 'The proof does not match the join token and this connection.'
}

function refused (why: Why): SvcError { return kernelError('join_refused', refusals[why], { why }) }

function readStored (path: string): readonly Stored[] {
  // The proof keys admit nodes, so the file must be as private as the node's key.
  readText(path, 'secret')
  const tokens = readVersioned<{ tokens?: unknown }>(path, FORMAT)?.tokens ?? []
  if (fits(listOf(storedSchema), tokens)) {
    return tokens.map((token) => ({ ...token, by: token.by ?? 'operator', outside: token.outside ?? false }))
      // Drop tokens of callers that may not admit members; the previous release issued such tokens.
      .filter(({ by, authorities }) => by === 'operator' || authorities !== undefined)
  }
  throw new HomeError(`${path} is no valid list of join tokens; run: rm ${path} (it revokes open tokens)`)
}

function proves (token: Stored, { proof, binding, joinerFingerprint }: Redemption): boolean {
  if (token.key === null) return false
  const fingerprints = { inviter: token.fingerprint, joiner: joinerFingerprint }
  const wanted = Buffer.from(proofWith(Buffer.from(token.key, 'base64url'), binding, fingerprints))
  const given = Buffer.from(proof)
  return given.byteLength === wanted.byteLength && timingSafeEqual(given, wanted)
}

function checkTtl (seconds: number): void {
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= MAX_TTL_SECONDS) return
  const message = `ttl_seconds is ${seconds}; it must be a whole number from 1 to ${MAX_TTL_SECONDS}`
  throw kernelError('invalid_request', message, {
    param: 'ttl_seconds', issues: [{ path: 'ttl_seconds', message }]
  })
}

export interface JoinTokensOptions {
  home: string
  now: () => number
  mono?: () => number
  stands: (by: string) => boolean
}

/** This node's join tokens. A failed write changes nothing. */
export class JoinTokens {
  readonly #options: JoinTokensOptions
  readonly #path: string
  #tokens: readonly Stored[]
  /** Monotonic expiry times of tokens from this start, so that setting the clock back extends none. */
  readonly #ends = new Map<string, number>()

  constructor (options: JoinTokensOptions) {
    this.#options = options
    this.#path = join(options.home, identityFile.joinTokens)
    this.#tokens = readStored(this.#path)
  }

  create (
    { clusterId, seeds, fingerprint, ttlSeconds, by, authorities }:
    Omit<JoinTicket, 'id' | 'secret' | 'exp'> & Maker & { ttlSeconds: number }
  ): { token: string, expires: string } {
    checkTtl(ttlSeconds)
    if (this.pending >= MAX_OPEN) {
      throw kernelError('overloaded',
        `${MAX_OPEN} join tokens are open already; let some expire, or revoke them: svc join-token ls`)
    }
    const now = this.#options.now()
    const id = randomBytes(16).toString('base64url')
    const secret = randomBytes(16).toString('base64url')
    const exp = now + ttlSeconds * 1000
    const token = writeJoinToken({ clusterId, seeds, fingerprint, id, secret, exp })
    // Read the token back: this throws if a joining node would refuse the token.
    readJoinToken(token, now)
    const key = proofKeyOf(secret).toString('base64url')
    const outside = seeds.some(isRemote)
    this.#ends.set(id, this.#mono() + ttlSeconds * 1000)
    this.#save([...this.#tokens, { id, key, fingerprint, exp, usedBy: null, by, authorities, outside }])
    return { token, expires: new Date(exp).toISOString() }
  }

  list (): JoinTokenRecord[] {
    return this.#tokens.filter((token) => this.#isOpen(token))
      .map(({ id, exp, by }) => ({ id, expires: new Date(exp).toISOString(), by }))
  }

  revoke (id: string): boolean {
    const found = this.#tokens.find((token) => token.id === id && this.#isOpen(token))
    if (found !== undefined) this.#save(this.#tokens.filter((token) => token !== found))
    return found !== undefined
  }

  /**
   * Checks a joiner's proof and marks the token as used, on disk before it returns. The same key may retry
   * until the token expires, because the answer may be lost. `reopen` undoes this for a joiner that could not
   * be admitted. Throws SvcError join_refused with details.why: unknown | expired | used | wrong_proof.
   */
  redeem (request: Redemption): Maker & { reopen: () => void } {
    const found = this.#tokens.find((token) => token.id === request.tokenId)
    if (found === undefined) throw refused('unknown')
    const { by, authorities } = found
    if (this.#isUsedBy(found, request.joinerFingerprint)) return { by, authorities, reopen: () => {} }
    if (found.usedBy !== null) throw refused('used')
    if (!this.#isOpen(found)) throw refused('expired')
    if (!proves(found, request)) throw refused('wrong_proof')
    const used = { ...found, usedBy: request.joinerFingerprint }
    this.#save(this.#tokens.map((token) => token === found ? used : token))
    const reopen = (): void => { this.#save([...this.#tokens.filter(({ id }) => id !== found.id), found]) }
    return { by, authorities, reopen }
  }

  get pending (): number { return this.#tokens.filter((token) => this.#isOpen(token)).length }

  /** Whether a node may request to join: a token is open, or its key has used one that is not yet expired. */
  mayJoin (fingerprint: string): boolean {
    return this.#tokens.some((token) => this.#isOpen(token) || this.#isUsedBy(token, fingerprint))
  }

  /** Whether an open token names an address that other machines reach. */
  get awaitsRemote (): boolean { return this.#tokens.some((token) => token.outside && this.#isOpen(token)) }

  #isOpen (token: Stored): boolean { return token.usedBy === null && this.#isValid(token) }

  #isUsedBy (token: Stored, fingerprint: string): boolean {
    return token.usedBy === fingerprint && this.#isValid(token)
  }

  #isValid ({ id, exp, by }: Stored): boolean {
    const { now, stands } = this.#options
    return exp > now() && (this.#ends.get(id) ?? Infinity) > this.#mono() && stands(by)
  }

  #mono (): number { return (this.#options.mono ?? this.#options.now)() }

  /** Removes the keys of used and expired tokens, drops the oldest above MAX_ENDED, and saves. */
  #save (next: readonly Stored[]): void {
    const ended = next.filter((token) => !this.#isOpen(token))
    const forgotten = new Set(ended.slice(0, Math.max(0, ended.length - MAX_ENDED)))
    const tokens = next.filter((token) => !forgotten.has(token))
      .map((token) => this.#isOpen(token) ? token : { ...token, key: null })
    writeVersioned(this.#path, FORMAT, { tokens })
    this.#tokens = tokens
    for (const id of this.#ends.keys()) if (!tokens.some((token) => token.id === id)) this.#ends.delete(id)
  }
}
