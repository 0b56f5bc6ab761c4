import { createHash, createHmac } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { kernelError } from '../../api/errors.js'
import { applicantSchema, invitationFields } from '../members/member.js'
import { invalidField, matching, read, record, schemaOf, shaped, ShapeError } from '../wire.js'
import type { TLSSocket } from 'node:tls'
import type { SvcError } from '../../api/errors.js'
import type { Of } from '../wire.js'

const PREFIX = 'svcjoin1_'
const FORM = /^svcjoin1_([A-Za-z0-9_-]{1,4096})_([0-9a-f]{8})$/
/** 128 bits. */
const random16 = matching(/^[A-Za-z0-9_-]{22}$/, '22 base64url characters')
/** The furthest a Date reaches, in milliseconds since 1970. */
const MAX_INSTANT = 8.64e15

const ticketSchema = record({
  ...invitationFields,
  id: random16,
  secret: random16,
  /** Milliseconds since 1970. */
  exp: schemaOf<number>({
    type: 'number', minimum: -MAX_INSTANT, maximum: MAX_INSTANT, says: 'must be a time'
  })
})
const requestSchema = record({
  token_id: random16,
  proof: matching(/^[A-Za-z0-9_-]{43}$/, '43 base64url characters'),
  member: applicantSchema
})

/** A join token, read. */
export type JoinTicket = Of<typeof ticketSchema>
/** Body of POST /join. */
export type JoinRequest = Of<typeof requestSchema>

/** RFC 5705 label of the channel binding, and its length in bytes. */
const BINDING_LABEL = 'EXPORTER-svc-join'
const BINDING_BYTES = 32

/** CRC-32 (IEEE 802.3) of the text before it, 8 hex digits: finds typing and copying mistakes. */
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
  try {
    value = JSON.parse(text)
  } catch {
    throw new ShapeError('', 'must be JSON')
  }
  return read(ticketSchema, value)
}

/**
 * Reads a join token; `nowMs` is the wall time. Throws SvcError invalid_request: not a token, mistyped
 * (checksum), broken inside, or expired by this node's clock. Nothing of the secret is in the message.
 */
export function readJoinToken (token: string, nowMs: number): JoinTicket {
  const text = token.trim()
  const match = FORM.exec(text)
  if (match === null) {
    throw badToken(text.startsWith(PREFIX)
      ? 'is cut off or has characters that do not belong; copy it whole'
      : `does not begin with ${PREFIX}; \`svc join-token\` on a member makes one`)
  }
  const [, body = '', sum] = match
  if (checksum(PREFIX + body) !== sum) {
    throw badToken('is mistyped (its checksum does not fit); copy it again')
  }
  const ticket = shaped(() => readTicket(Buffer.from(body, 'base64url').toString()),
    ({ message }) => badToken(`is broken: ${message}`))
  if (ticket.exp <= nowMs) {
    const [expired, now] = [ticket.exp, nowMs].map((ms) => new Date(ms).toISOString())
    throw badToken(`expired at ${expired}, this node's clock says ${now}; ` +
      'make a new one with `svc join-token`, or set the clock')
  }
  return ticket
}

/** The key that proofs are made with; the inviter stores this and not the secret. */
export function proofKeyOf (secret: string): Buffer {
  return createHash('sha256').update(`svc-join-key\0${secret}`).digest()
}

/** The proof under a key of proofKeyOf. Each part has one length, so that none runs into another. */
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
 * What a joiner shows instead of the secret: HMAC-SHA-256, base64url, over the channel binding of its own
 * connection and both keys, so that it is worth nothing on another connection or for another key.
 */
export function proofOf (
  secret: string, binding: Buffer, fingerprints: { inviter: string, joiner: string }
): string {
  return proofWith(proofKeyOf(secret), binding, fingerprints)
}

/** The channel binding of a TLS 1.3 connection (RFC 8446 7.5, RFC 9266): 32 bytes only its two ends know. */
export function joinBinding (socket: TLSSocket): Buffer {
  return socket.exportKeyingMaterial(BINDING_BYTES, BINDING_LABEL, Buffer.alloc(0))
}

/** Reads the body of POST /join. Throws SvcError invalid_request naming the field. */
export function readJoinRequest (body: unknown): JoinRequest {
  return shaped(() => read(requestSchema, body), invalidField)
}
