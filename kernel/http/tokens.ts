import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { kernelError, type SvcError } from '../api/errors.js'
import { HomeError, homeFile, readText, readVersioned, writeVersioned } from '../boot/home.js'
import { requireAuthority, requireModel } from './access.js'
import type { Clock } from '../api/clock.js'
import type { CallerScheme } from '../api/callers.js'
import type { Caller } from '../api/plugin.js'
import type { TokenOptions, TokenRecord, Tokens } from '../api/services.js'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const TOKEN = /^svc_(op|app|dev|join)_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})$/

/** Encodes big-endian bytes in base 62, left-padded to `width`. */
function base62 (bytes: Uint8Array, width: number): string {
  let n = BigInt('0x' + Buffer.from(bytes).toString('hex'))
  let out = ''
  for (; n > 0n; n /= 62n) out = DIGITS[Number(n % 62n)]! + out
  return out.padStart(width, '0')
}

/** The checksum of a token's other parts, which forms its last part. */
export function checksum (body: string): string {
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc32(body) >>> 0)
  return base62(sum, 6)
}

/** Creates a token: prefix of its kind for secret scanners, 256 random bits, checksum to detect typos. */
export function newToken (kind: 'op' | 'app' | 'dev'): string {
  const body = `svc_${kind}_${base62(randomBytes(32), 43)}`
  return `${body}_${checksum(body)}`
}

/** True if the text has the form of a token and its checksum is right. */
export function wellFormed (token: string): boolean {
  const match = TOKEN.exec(token)
  return match !== null && checksum(token.slice(0, token.lastIndexOf('_'))) === match[3]
}

const digest = (token: string): Buffer => createHash('sha256').update(token).digest()

/** Prefix of the ids of application tokens. */
const APP = 'app_'

interface StoredToken extends TokenRecord { hash: string }

export type TokenHolder = Omit<Caller, 'mode'>

/** A node's tokens: the operator's, in a file that only the owner can read, and application tokens. */
export interface TokenStore extends Tokens {
  /** The token's holder; undefined if it is unknown, expired or revoked. */
  check (token: string): TokenHolder | undefined
}

/** The operator's token, created on the first start. Throws HomeError if others can read it. */
export function operatorToken (home: string): string {
  const path = join(home, homeFile.operatorToken)
  if (!existsSync(path)) {
    writeFileSync(path, `${newToken('op')}\n`, { mode: 0o600, flag: 'wx' })
    chmodSync(path, 0o600)
  }
  const token = readText(path, 'secret')!.trim()
  if (wellFormed(token)) return token
  throw new HomeError(`${path} is damaged: it has no token; remove it, and the next start creates a new one`)
}

export interface TokenStoreOptions {
  home: string
  clock: Clock
  known: () => ReadonlySet<string>
  operator: string
  /** Validity, creators and tokens of callers that use a plugin's credential scheme instead of a token. */
  others?: Pick<CallerScheme, 'stands' | 'makerOf' | 'records'>
}

function noAuthority (name: string, known: ReadonlySet<string>): SvcError {
  const message = `"${name}" is not an authority`
  return kernelError('invalid_request', `${message}; known: ${[...known].join(', ')}`, {
    param: 'authorities', issues: [{ path: 'authorities', message }]
  })
}

function tooLong (asked: string, last: string): SvcError {
  const message = `expires at ${asked}, after the token that creates it (${last})`
  return kernelError('invalid_request', `expires: the token ${message}`, {
    param: 'expires', issues: [{ path: 'expires', message }]
  })
}

/** Compares in constant time; a stored hash of another length (hand-edited file) never matches. */
function sameHash (stored: Buffer, given: Buffer): boolean {
  return stored.byteLength === given.byteLength && timingSafeEqual(stored, given)
}

/** Throws `invalid_request` for an unknown authority, `missing_grant` for one that the caller lacks. */
function checkAuthorities (asked: readonly string[], by: Caller, known: ReadonlySet<string>): void {
  const unknown = asked.find((a) => !known.has(a))
  if (unknown !== undefined) throw noAuthority(unknown, known)
  for (const authority of asked) requireAuthority(by, authority)
}

type StoredTokens = ReadonlyMap<string, StoredToken>

function makersOf (tokens: StoredTokens, others: TokenStoreOptions['others'], id: string): string[] {
  const line = [id]
  for (const one of line) {
    const by = tokens.get(one)?.by ?? others?.makerOf(one)
    if (by !== undefined && !line.includes(by)) line.push(by)
  }
  return line
}

/** Throws `model_not_allowed` for a model that the creator may not use. */
function checkModels (asked: TokenOptions['models'], by: Caller): string[] | null {
  for (const model of asked ?? []) requireModel(by, model)
  return asked ?? (by.models === undefined ? null : [...by.models])
}

/** Tokens from older versions do not name their creator, since only the operator could create them. */
function readTokens (path: string): { tokens: Map<string, StoredToken>, elsewhere: Map<string, Ended> } {
  const file = readVersioned<{ tokens: StoredToken[], elsewhere?: Ended[] }>(path, 1)
  const usual = { by: 'operator', models: null }
  return {
    tokens: new Map(file?.tokens.map((t) => [t.id, { ...usual, ...t }])),
    elsewhere: new Map(file?.elsewhere?.map((one) => [one.id, one]))
  }
}

/** A revoked token of another scheme, stored because a restored or merged document may not know of it. */
type Ended = Pick<TokenRecord, 'id' | 'expires'>
/** Maximum number of these; the oldest are dropped. */
const MAX_ENDED = 1000

/** Implements `Tokens.issue`; `last`: the creator's expiry. */
function issue (
  { label, authorities, models, expiresAt, by }: TokenOptions,
  { last, known, nowMs }: { last: string | null, known: ReadonlySet<string>, nowMs: number }
): ReturnType<Tokens['issue']> {
  checkAuthorities(authorities, by, known)
  if (last !== null && expiresAt !== null && expiresAt > last) throw tooLong(expiresAt, last)
  const token = newToken('app')
  const record: TokenRecord = {
    id: APP + randomBytes(6).toString('hex'), label, authorities, models: checkModels(models, by),
    created: new Date(nowMs).toISOString(), expires: expiresAt ?? last,
    lastUsedDay: null, revoked: false, by: by.id
  }
  return { token, record, hash: digest(token) }
}

/** Opens a home's token file, which stores only hashes. */
export function openTokens (options: TokenStoreOptions): TokenStore {
  const path = join(options.home, homeFile.tokens)
  const { tokens, elsewhere } = readTokens(path)
  const operatorHash = digest(options.operator)
  const save = (): void => {
    const ended = [...elsewhere.values()].slice(-MAX_ENDED)
    writeVersioned(path, 1, { tokens: [...tokens.values()], elsewhere: ended })
  }
  const today = (): string => new Date(options.clock.now()).toISOString().slice(0, 10)
  const makers = (id: string): string[] => makersOf(tokens, options.others, id)
  // The token that created a device may belong to another node: an unknown token counts as valid there.
  const revoked = (id: string): boolean => makers(id).some((one, i, line) => one.startsWith(APP)
    ? tokens.get(one)?.revoked ?? line[i - 1]?.startsWith(APP) ?? true
    : elsewhere.has(one) || options.others?.stands(one) === false)
  const ended = (id: string): boolean => Date.parse(tokens.get(id)?.expires ?? '') <= options.clock.now()
  const stands = (id: string): boolean => !revoked(id) && !makers(id).some(ended)
  return {
    check (token) {
      if (!wellFormed(token)) return undefined
      const hash = digest(token)
      if (timingSafeEqual(hash, operatorHash)) {
        return { id: 'operator', authorities: options.known() }
      }
      const found = [...tokens.values()].find((t) => sameHash(Buffer.from(t.hash, 'hex'), hash))
      if (found === undefined || !stands(found.id)) return undefined
      if (found.lastUsedDay !== today()) {
        found.lastUsedDay = today()
        // On a full disk the token still works; the next change stores the date of its last use.
        try { save() } catch { /* nodeHealth reports the disk */ }
      }
      const { id, authorities, models } = found
      return { id, authorities: new Set(authorities), models: models ?? undefined }
    },
    stands,
    makers,
    issue (wanted) {
      const last = this.list().find(({ id }) => id === wanted.by.id)?.expires ?? null
      return issue(wanted, { last, known: options.known(), nowMs: options.clock.now() })
    },
    async create (wanted) {
      const { token, record, hash } = this.issue(wanted)
      tokens.set(record.id, { ...record, hash: hash.toString('hex') })
      try {
        save()
      } catch (error) {
        // The token could not be saved, so it would be lost at the next restart.
        tokens.delete(record.id)
        throw error
      }
      return { token, record }
    },
    list: () => [
      ...(options.others?.records?.() ?? [])
        .map((record) => ({ ...record, revoked: record.revoked || elsewhere.has(record.id) })),
      ...[...tokens.values()].map(({ hash: _, ...record }) => ({ ...record, revoked: revoked(record.id) }))
    ],
    revoked: () => [...[...tokens.values()].filter((t) => t.revoked), ...elsewhere.values()]
      .map(({ id, expires }) => ({ id, expires })),
    async revoke (id) {
      const found = tokens.get(id)
      const other = options.others?.records?.().find((one) => one.id === id)
      if (found !== undefined) found.revoked = true
      else if (other !== undefined) elsewhere.set(id, { id, expires: other.expires })
      else return false
      save()
      return true
    }
  }
}
