import { createHash, randomBytes } from 'node:crypto'
import { kernelError } from '../../kernel/index.js'
import { SOCKET_URL } from './declarations.js'
import type { Arrival, Caller, CallerScheme, Clock, Proof, Tokens } from '../../kernel/index.js'
import type { SessionConfig } from './session-config.js'

const PREFIX = 'ek_'
/** Valid secrets at most, of a node and of a creator. */
const [MOST, MOST_OF_ONE] = [1000, 100]
/** Milliseconds that a session may last after its secret has expired. */
const SESSION_MS = 2 * 3_600_000

interface Parts { clock: Clock, tokens: Pick<Tokens, 'stands'> }
interface Secret { id: string, maker: Caller, expiresMs: number, session: SessionConfig }

const digest = (secret: string): string => createHash('sha256').update(secret).digest('hex')

/**
 * Short-lived credentials for web pages. They open `/v1/realtime` only, with the authority `invoke`, which
 * their creator has, and end with the creator's credential.
 */
export class ClientSecrets implements CallerScheme {
  readonly word = 'EK'
  readonly bearer = PREFIX
  readonly #parts: Parts
  /** By the SHA-256 of the secret. */
  readonly #secrets = new Map<string, Secret>()

  constructor (parts: Parts) { this.#parts = parts }

  /** Throws `overloaded`. */
  create (maker: Caller, seconds: number, session: SessionConfig): { value: string, expires_at: number } {
    const own = [...this.#secrets.values()].filter((one) => one.maker.id === maker.id).length
    if (this.#secrets.size >= MOST || own >= MOST_OF_ONE) throw kernelError('overloaded', 'Too many secrets.')
    const value = PREFIX + randomBytes(32).toString('hex')
    const key = digest(value)
    const expiresMs = this.#parts.clock.now() + seconds * 1000
    // The id has what an open session needs of its secret after that has expired.
    const id = `${PREFIX}${randomBytes(6).toString('hex')}.${expiresMs}.${maker.id}`
    this.#secrets.set(key, { id, maker, expiresMs, session })
    this.#parts.clock.after(seconds * 1000, () => { this.#secrets.delete(key) })
    return { value, expires_at: Math.floor(expiresMs / 1000) }
  }

  /** The session that a caller's secret was created for. */
  sessionOf ({ id }: Caller): SessionConfig | undefined {
    return [...this.#secrets.values()].find((one) => one.id === id)?.session
  }

  check ({ route, device }: Arrival, secret: string): Proof | undefined {
    const found = this.#secrets.get(digest(secret))
    if (device !== null) return undefined
    if (found === undefined || found.expiresMs <= this.#parts.clock.now() || route !== SOCKET_URL ||
      !this.#parts.tokens.stands(found.maker.id)) {
      throw kernelError('unauthenticated', 'The client secret has ended, is unknown here, or is used for ' +
        `another route than ${SOCKET_URL}: POST /v1/realtime/client_secrets creates one.`)
    }
    const { id, maker: { mode, models } } = found
    return { caller: { id, mode, authorities: new Set(['invoke']), models } }
  }

  stands (callerId: string): boolean | undefined {
    const now = this.#parts.clock.now()
    return callerId.startsWith(PREFIX) ? Number(callerId.split('.')[1]) + SESSION_MS > now : undefined
  }

  makerOf (id: string): string | undefined {
    return id.startsWith(PREFIX) ? id.split('.').slice(2).join('.') : undefined
  }
}
