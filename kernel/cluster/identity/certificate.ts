import { createPublicKey, sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'

const SEQUENCE = 0x30
const SET = 0x31
const INTEGER = 0x02
const BIT_STRING = 0x03
const OID = 0x06
const UTF8_STRING = 0x0c
const UTC_TIME = 0x17
const GENERALIZED_TIME = 0x18
/** Constructed, context-specific 0: the field `version`. */
const VERSION = 0xa0

/** 1.3.101.112, id-Ed25519 (RFC 8410). */
const ED25519 = Uint8Array.of(0x2b, 0x65, 0x70)
/** 2.5.4.3, commonName. */
const COMMON_NAME = Uint8Array.of(0x55, 0x04, 0x03)
/** Clocks of nodes differ and nothing judges these: as early as makes sense, and never (RFC 5280 4.1.2.5). */
const NOT_BEFORE = '200101000000Z'
const NOT_AFTER = '99991231235959Z'

/** One DER value: tag, length, contents. */
function der (tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts)
  const { length } = body
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...head]), body])
}

function nameOf (commonName: string): Buffer {
  const attribute = der(SEQUENCE, der(OID, COMMON_NAME), der(UTF8_STRING, Buffer.from(commonName)))
  return der(SEQUENCE, der(SET, attribute))
}

function pem (bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? []
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n')
}

/**
 * A self-signed X.509 v3 certificate (RFC 5280 4.1) of an Ed25519 key, as PEM: TLS carries a key in one. It
 * has no extensions, since nothing but its key is ever looked at. The same key and name give the same bytes.
 * `commonName` is short (an install id).
 */
export function makeCertificate (privateKey: KeyObject, commonName: string): string {
  const algorithm = der(SEQUENCE, der(OID, ED25519))
  const name = nameOf(commonName)
  const body = der(SEQUENCE,
    der(VERSION, der(INTEGER, Uint8Array.of(2))),
    der(INTEGER, Uint8Array.of(1)),
    algorithm,
    name,
    der(SEQUENCE, der(UTC_TIME, Buffer.from(NOT_BEFORE)), der(GENERALIZED_TIME, Buffer.from(NOT_AFTER))),
    name,
    createPublicKey(privateKey).export({ type: 'spki', format: 'der' }))
  const signature = sign(null, body, privateKey)
  return pem(der(SEQUENCE, body, algorithm, der(BIT_STRING, Uint8Array.of(0), signature)))
}
