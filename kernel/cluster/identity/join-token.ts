import { createHash, createHmac } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { kernelError } from '../../api/errors.js'
import {
  addressesOf, clusterIdOf, fieldsOf, fingerprintIn, invalidField, readCandidate, shaped, ShapeError, textOf
} from '../members/member.js'
import type { TLSSocket } from 'node:tls'
import type { SvcError } from '../../api/errors.js'
import type { Candidate } from '../members/member.js'

/** What an inviter puts into a join token besides its id and secret. */
export interface Invitation {
  clusterId: string
  /** Addresses of the inviter's members' listener, host:port. */
  seeds: readonly string[]
  /** The inviter's. */
  fingerprint: string
}

/** A join token, read. */
export interface JoinTicket extends Invitation {
  id: string
  secret: string
  /** Milliseconds since 1970. */
  exp: number
}

/** Body of POST /join. */
export interface JoinRequest {
  token_id: string
  proof: string
  member: Candidate
}

const PREFIX = 'svcjoin1_'
const FORM = /^svcjoin1_([A-Za-z0-9_-]{1,4096})_([0-9a-f]{8})$/
/** 128 bits each, base64url. */
const RANDOM_16 = /^[A-Za-z0-9_-]{22}$/
const PROOF = /^[A-Za-z0-9_-]{43}$/
/** The furthest a Date reaches, in milliseconds since 1970. */
const MAX_INSTANT = 8.64e15
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
  const fields = fieldsOf(value, '')
  const seeds = addressesOf(fields, '', 'seeds')
  if (seeds.length === 0) throw new ShapeError('seeds', 'must have at least one address')
  const { exp } = fields
  if (typeof exp !== 'number' || !(Math.abs(exp) <= MAX_INSTANT)) {
    throw new ShapeError('exp', 'must be a time')
  }
  return {
    clusterId: clusterIdOf(fields, ''),
    seeds,
    fingerprint: fingerprintIn(fields, ''),
    id: textOf(fields, '', 'id', RANDOM_16, '22 base64url characters'),
    secret: textOf(fields, '', 'secret', RANDOM_16, '22 base64url characters'),
    exp
  }
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
  return shaped(() => {
    const fields = fieldsOf(body, '')
    return {
      token_id: textOf(fields, '', 'token_id', RANDOM_16, '22 base64url characters'),
      proof: textOf(fields, '', 'proof', PROOF, '43 base64url characters'),
      member: readCandidate(fields['member'], 'member')
    }
  }, invalidField)
}
