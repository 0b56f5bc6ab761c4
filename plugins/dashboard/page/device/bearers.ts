import { signal } from '@preact/signals'
import { ApiError } from '../api-error.js'
import type { RequestSigner } from '../../../devices/signing/signer.js'

export const SESSION = '/v1/devices/session'
export const SESSION_BODY = {}
/** A bearer is renewed this many seconds before it expires. */
const EARLY_SECONDS = 120

export interface Session { token: string, expiresInSeconds: number }

interface BearersOptions {
  session: (origin: string) => Promise<Session>
  /** Runs `act` once after `ms`; returns a function that cancels it. */
  later: (ms: number, act: () => void) => () => void
}

export class Bearers {
  /** Bearers by origin, kept in memory only; each is valid only at its origin. */
  readonly held = signal<ReadonlyMap<string, string>>(new Map())
  readonly #options: BearersOptions
  readonly #asked = new Map<string, Promise<string>>()
  #cancel = (): void => {}
  #over = false

  constructor (options: BearersOptions) { this.#options = options }

  at (origin: string): string | null { return this.held.value.get(origin) ?? null }

  /** Requests a new bearer, with one request per node at a time, and schedules its renewal. */
  async fresh (origin: string): Promise<string> {
    const open = this.#asked.get(origin)
    if (open !== undefined) return await open
    const asked = this.#get(origin).finally(() => { this.#asked.delete(origin) })
    this.#asked.set(origin, asked)
    return await asked
  }

  /** Gets a replacement for a bearer that a node refused, unless another request has already replaced it. */
  async after (origin: string, refused: string | null): Promise<string> {
    const held = this.at(origin)
    return held !== null && held !== refused ? held : await this.fresh(origin)
  }

  drop (): void {
    this.#cancel()
    this.held.value = new Map()
  }

  /** Drops all bearers and ignores the answers to pending requests. */
  end (): void {
    this.#over = true
    this.drop()
  }

  async #get (origin: string): Promise<string> {
    const { later, session } = this.#options
    const { token, expiresInSeconds } = await session(origin)
    if (this.#over) throw new ApiError('This browser is another device now.')
    this.#cancel()
    // If this renewal fails, the bearer is replaced after a node refuses it.
    this.#cancel = later(Math.max(1, expiresInSeconds - EARLY_SECONDS) * 1000,
      () => { this.fresh(origin).catch(() => {}) })
    this.held.value = new Map(this.held.value).set(origin, token)
    return token
  }
}

/** Requests a bearer; retries once if the node's signed refusal corrects its id or clock. */
export async function signedSession (
  signer: Pick<RequestSigner, 'authorization' | 'correct'>, post: (authorization: string) => Promise<Session>
): Promise<Session> {
  const bytes = new TextEncoder().encode(JSON.stringify(SESSION_BODY))
  for (let attempt = 1; ; attempt++) {
    const authorization = await signer.authorization('POST', SESSION, bytes)
    try {
      return await post(authorization)
    } catch (error) {
      if (attempt === 1 && error instanceof ApiError && await signer.correct(error.details)) continue
      throw error
    }
  }
}

/** Whether the device is invalid at every node, not only at one that has lost contact with the cluster. */
export const isForGood = ({ details, reason }: ApiError): boolean =>
  reason === 'device_ended' && details['why'] !== 'unheard'

export function refusalOf (error: unknown, origin: string): ApiError {
  if (!(error instanceof ApiError)) return new ApiError(`${origin} does not answer.`)
  const { details, reason, status } = error
  const says = {
    unauthenticated: `${origin} does not know this device: it is of another cluster, or was forgotten there.`,
    signature_refused: `${origin} does not show the key of a node that this device was paired with.`
  }[reason]
  return says === undefined ? error : new ApiError(says, { status, reason, details, remedy: 'Pair it anew.' })
}
