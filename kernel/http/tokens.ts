import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { kernelError } from '../errors.js'
import { HomeError, homeFile, readVersioned, writeVersioned } from '../home.js'
import type { Clock } from '../clock.js'
import type { SvcError } from '../errors.js'
import type { TokenRecord, Tokens } from '../services.js'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const TOKEN = /^svc_(op|app|dev|join)_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})$/

/** Big-endian bytes as base 62, left-padded to `width`. */
function base62 (bytes: Uint8Array, width: number): string {
  let n = BigInt('0x' + Buffer.from(bytes).toString('hex'))
  let out = ''
  for (; n > 0n; n /= 62n) out = DIGITS[Number(n % 62n)]! + out
  return out.padStart(width, '0')
}

function checksum (body: string): string {
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc(body))
  return base62(sum, 6)
}

/** CRC-32 (IEEE 802.3); node:zlib has it from 20.15. */
function crc (body: string): number { return crc32(body) >>> 0 }

/** A fresh token: kind prefix for scanners, 256 random bits, checksum so that a typo costs no look-up. */
export function newToken (kind: 'op' | 'app'): string {
  const body = `svc_${kind}_${base62(randomBytes(32), 43)}`
  return `${body}_${checksum(body)}`
}

/** True when the text has a token's form and its checksum fits. */
export function wellFormed (token: string): boolean {
  const match = TOKEN.exec(token)
  return match !== null && checksum(token.slice(0, token.lastIndexOf('_'))) === match[3]
}

const digest = (token: string): Buffer => createHash('sha256').update(token).digest()

interface StoredToken extends TokenRecord { hash: string }

/** Who a token belongs to. */
export interface TokenHolder { id: string, authorities: ReadonlySet<string> }

/** Tokens of a node: the operator's, kept in a file only its owner reads, and those made by the operator. */
export interface TokenStore extends Tokens {
  /** The holder, or undefined for an unknown, expired or revoked token. */
  check (token: string): TokenHolder | undefined
}

/** The operator's token; made at first start. Throws HomeError when others could read it. */
export function operatorToken (home: string): string {
  const path = join(home, homeFile.operatorToken)
  if (!existsSync(path)) {
    writeFileSync(path, `${newToken('op')}\n`, { mode: 0o600, flag: 'wx' })
    chmodSync(path, 0o600)
  }
  if ((statSync(path).mode & 0o077) !== 0) {
    throw new HomeError(`${path} can be read by others; run: chmod 600 ${path}`)
  }
  return readFileSync(path, 'utf8').trim()
}

export interface TokenStoreOptions {
  home: string
  clock: Clock
  known: () => ReadonlySet<string>
  operator: string
}

function noAuthority (name: string, known: ReadonlySet<string>): SvcError {
  const message = `"${name}" is not an authority`
  return kernelError('invalid_request', `${message}; known: ${[...known].join(', ')}`, {
    param: 'authorities', issues: [{ path: 'authorities', message }]
  })
}

/** Compares in constant time; a stored hash of another length (a file edited by hand) is nobody's. */
function sameHash (stored: Buffer, given: Buffer): boolean {
  return stored.byteLength === given.byteLength && timingSafeEqual(stored, given)
}

/** Opens the token file of a home. Only hashes are kept. */
export function openTokens (options: TokenStoreOptions): TokenStore {
  const path = join(options.home, homeFile.tokens)
  const stored = readVersioned<{ tokens: StoredToken[] }>(path, 1)?.tokens ?? []
  const tokens = new Map(stored.map((t) => [t.id, t]))
  const operatorHash = digest(options.operator)
  const save = (): void => { writeVersioned(path, 1, { tokens: [...tokens.values()] }) }
  const today = (): string => new Date(options.clock.now()).toISOString().slice(0, 10)
  const valid = (t: StoredToken): boolean =>
    !t.revoked && (t.expires === null || Date.parse(t.expires) > options.clock.now())
  return {
    check (token) {
      if (!wellFormed(token)) return undefined
      const hash = digest(token)
      if (timingSafeEqual(hash, operatorHash)) {
        return { id: 'operator', authorities: options.known() }
      }
      const found = [...tokens.values()].find((t) => sameHash(Buffer.from(t.hash, 'hex'), hash))
      if (found === undefined || !valid(found)) return undefined
      if (found.lastUsedDay !== today()) {
        found.lastUsedDay = today()
        // A full disk must not lock anybody out; the day is written with the next change.
        try { save() } catch { /* nodeHealth tells of the disk */ }
      }
      return { id: found.id, authorities: new Set(found.authorities) }
    },
    async create ({ label, authorities, expiresAt }) {
      const unknown = authorities.find((a) => !options.known().has(a))
      if (unknown !== undefined) throw noAuthority(unknown, options.known())
      const token = newToken('app')
      const record: TokenRecord = {
        id: `app_${randomBytes(6).toString('hex')}`,
        label,
        authorities,
        created: new Date(options.clock.now()).toISOString(),
        expires: expiresAt,
        lastUsedDay: null,
        revoked: false
      }
      tokens.set(record.id, { ...record, hash: digest(token).toString('hex') })
      try {
        save()
      } catch (error) {
        // Nobody learns this token, and a restart would not know it.
        tokens.delete(record.id)
        throw error
      }
      return { token, record }
    },
    list: () => [...tokens.values()].map(({ hash: _, ...record }) => record),
    async revoke (id) {
      const found = tokens.get(id)
      if (found === undefined) return false
      found.revoked = true
      save()
      return true
    }
  }
}
