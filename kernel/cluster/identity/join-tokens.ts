import { randomBytes, timingSafeEqual } from 'node:crypto'
import { join } from 'node:path'
import { kernelError } from '../../api/errors.js'
import { HomeError, readVersioned, writeVersioned } from '../../boot/home.js'
import { isOutside } from './addresses.js'
import { fits, flag, listOf, orNull, record, schemaOf } from '../wire.js'
import { proofKeyOf, proofWith, readJoinToken, writeJoinToken } from './join-token.js'
import { identityFile, readText } from './key.js'
import type { SvcError } from '../../api/errors.js'
import type { Of } from '../wire.js'
import type { JoinTicket } from './join-token.js'

/** What a joiner asks with; `binding` comes from the socket the request came on (joinBinding). */
export interface Redemption {
  tokenId: string
  proof: string
  binding: Buffer
  joinerFingerprint: string
}

/** An open join token as it is shown: never its secret. `by`: the id of the caller that made it. */
export interface JoinTokenRecord { id: string, expires: string, by: string }

/** The join tokens this node has made. */
export interface JoinTokens {
  /** Throws SvcError invalid_request (ttlSeconds, seeds) and overloaded (too many are open). */
  create (
    options: Omit<JoinTicket, 'id' | 'secret' | 'exp'> & { ttlSeconds: number, by: string }
  ): { token: string, expires: string }
  /** Those that still let a node in. */
  list (): JoinTokenRecord[]
  /** Ends one before its time; false when no such token is open. */
  revoke (id: string): boolean
  /**
   * Checks the proof of a joiner and uses the token up; the mark is on disk before this returns. What comes
   * back opens it again: for a joiner that could not be let in after all. Throws SvcError join_refused with
   * details.why: unknown | expired | used | wrong_proof.
   */
  redeem (request: Redemption): () => void
  /** How many are open. */
  readonly pending: number
  /** One that is open names an address which other machines reach. */
  readonly awaitsOthers: boolean
}

const FORMAT = 1
/** The longest life of a token: one day. */
const MAX_TTL_SECONDS = 86_400
const MAX_OPEN = 100
/** Used and expired tokens are remembered, so that a refusal can say which: this many, the newest. */
const MAX_ENDED = 200

const anyText = schemaOf<string>({ type: 'string' })
const storedSchema = record({
  id: anyText,
  /** base64url of what checks proofs; null once used or expired. */
  key: orNull(anyText),
  /** The inviter's. */
  fingerprint: anyText,
  /** Milliseconds since 1970. */
  exp: schemaOf<number>({ type: 'number' }),
  /** The joiner's fingerprint. */
  usedBy: orNull(anyText)
}, {
  /** The caller that made it. */
  by: anyText,
  /** It names an address that other machines reach. */
  outside: flag
})
type Stored = Required<Of<typeof storedSchema>>

type Why = 'unknown' | 'expired' | 'used' | 'wrong_proof'

const refusals: Record<Why, string> = {
  unknown: 'The join token is not one of this node.',
  expired: 'The join token has expired.',
  used: 'The join token has been used already; each lets one node in.',
  wrong_proof: 'The proof does not fit the join token and this connection.'
}

function refused (why: Why): SvcError {
  return kernelError('join_refused', refusals[why], { why })
}

function readStored (path: string): readonly Stored[] {
  // Its keys let a node in: as private as the node's own.
  readText(path, 'secret')
  const tokens = readVersioned<{ tokens?: unknown }>(path, FORMAT)?.tokens ?? []
  // Tokens of older versions do not say who made them: only the operator could. Nor for whom they are: the
  // listener was then where svc.yaml had it.
  if (fits(listOf(storedSchema), tokens)) {
    return tokens.map((token) => ({ ...token, by: token.by ?? 'operator', outside: token.outside ?? false }))
  }
  throw new HomeError(`${path} holds no list of join tokens; run: rm ${path} (open tokens are void then)`)
}

/** Takes the keys out of ended tokens, and forgets the oldest of them. */
function prune (tokens: readonly Stored[], open: (token: Stored) => boolean): readonly Stored[] {
  const ended = tokens.filter((token) => !open(token))
  const forgotten = new Set(ended.slice(0, Math.max(0, ended.length - MAX_ENDED)))
  return tokens.filter((token) => !forgotten.has(token))
    .map((token) => open(token) ? token : { ...token, key: null })
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

/**
 * Opens the join tokens of a home. Throws HomeError when their file is broken or can be read by others.
 * `now` is the wall time in milliseconds since 1970, `stands` says whether what a caller made still counts.
 */
export function openJoinTokens (
  { home, now, stands }: { home: string, now: () => number, stands: (by: string) => boolean }
): JoinTokens {
  const path = join(home, identityFile.joinTokens)
  let tokens = readStored(path)
  const open = (token: Stored): boolean => token.usedBy === null && token.exp > now() && stands(token.by)
  const save = (next: readonly Stored[]): void => {
    const pruned = prune(next, open)
    writeVersioned(path, FORMAT, { tokens: pruned })
    // Only what is on the disk counts: a failed write leaves all as it was.
    tokens = pruned
  }
  const pending = (): number => tokens.reduce((n, token) => n + (open(token) ? 1 : 0), 0)
  return {
    create ({ clusterId, seeds, fingerprint, ttlSeconds, by }) {
      checkTtl(ttlSeconds)
      if (pending() >= MAX_OPEN) {
        throw kernelError('overloaded',
          `${MAX_OPEN} join tokens are open already; let some expire, or end them: svc join-token ls`)
      }
      const id = randomBytes(16).toString('base64url')
      const secret = randomBytes(16).toString('base64url')
      const exp = now() + ttlSeconds * 1000
      const token = writeJoinToken({ clusterId, seeds, fingerprint, id, secret, exp })
      // A token that its reader would refuse is never given out.
      readJoinToken(token, now())
      const key = proofKeyOf(secret).toString('base64url')
      save([...tokens, { id, key, fingerprint, exp, usedBy: null, by, outside: seeds.some(isOutside) }])
      return { token, expires: new Date(exp).toISOString() }
    },
    list: () => tokens.filter(open)
      .map(({ id, exp, by }) => ({ id, expires: new Date(exp).toISOString(), by })),
    revoke (id) {
      const found = tokens.find((token) => token.id === id && open(token))
      if (found !== undefined) save(tokens.filter((token) => token !== found))
      return found !== undefined
    },
    redeem (request) {
      const found = tokens.find((token) => token.id === request.tokenId)
      if (found === undefined) throw refused('unknown')
      if (found.usedBy !== null) throw refused('used')
      if (!open(found)) throw refused('expired')
      if (!proves(found, request)) throw refused('wrong_proof')
      save(tokens.map((token) => token === found ? { ...token, usedBy: request.joinerFingerprint } : token))
      return () => { save([...tokens.filter(({ id }) => id !== found.id), found]) }
    },
    get pending () { return pending() },
    get awaitsOthers () { return tokens.some((token) => token.outside && open(token)) }
  }
}
