/** Encodings for keys, ids and signed messages; without imports, so that browsers can use them too. */

const utf8 = new TextEncoder()

export function base64url (bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** Decodes base64url; empty for invalid text, so that it can be neither a key nor a signature. */
export function fromBase64url (text: string): Uint8Array<ArrayBuffer> {
  if (!/^[\w-]*$/.test(text) || text.length % 4 === 1) return new Uint8Array(0)
  const bytes = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(bytes, (one) => one.charCodeAt(0))
}

/** Concatenates parts unambiguously: each is preceded by its length (32 bits, big endian). */
export function framed (...parts: readonly (string | Uint8Array)[]): Uint8Array<ArrayBuffer> {
  const bytes = parts.map((part) => typeof part === 'string' ? utf8.encode(part) : part)
  const whole = new Uint8Array(bytes.reduce((sum, part) => sum + 4 + part.byteLength, 0))
  const view = new DataView(whole.buffer)
  let at = 0
  for (const part of bytes) {
    view.setUint32(at, part.byteLength)
    whole.set(part, at + 4)
    at += 4 + part.byteLength
  }
  return whole
}

/** The bytes that a node signs for a message with a given purpose. */
export const purposeBytes = (purpose: string, message: Uint8Array): Uint8Array<ArrayBuffer> =>
  framed('svc node', purpose, message)

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'

/** Encodes RFC 4648 base32 in lower case without padding. */
export function base32 (bytes: Uint8Array): string {
  let bits = 0
  let held = 0
  let out = ''
  for (const byte of bytes) {
    held = (held << 8) | byte
    for (bits += 8; bits >= 5; bits -= 5) out += ALPHABET[(held >>> (bits - 5)) & 31]
  }
  return bits > 0 ? out + ALPHABET[(held << (5 - bits)) & 31] : out
}

/**
 * Canonical JSON: keys sorted by UTF-16 code unit at every depth, no spaces, non-ASCII characters as \uXXXX
 * (two escapes for a character beyond the BMP). Throws a TypeError for values that JSON cannot represent.
 */
export function canonicalJson (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const fields = Object.entries(value).filter(([, v]) => v !== undefined).sort(([a], [b]) => a < b ? -1 : 1)
      .map(([key, v]) => `${ascii(key)}:${canonicalJson(v)}`)
    return `{${fields.join(',')}}`
  }
  if (typeof value === 'string') return ascii(value)
  if (value === null || typeof value === 'boolean' || Number.isFinite(value)) return JSON.stringify(value)
  throw new TypeError(`JSON cannot represent ${String(value)}`)
}

function ascii (text: string): string {
  return JSON.stringify(text).replace(/[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
