import { createHash, randomBytes } from 'node:crypto'
import { NONCE_BYTES, Pairing, type PairingOptions, type PairingWindowOptions } from './pairing.js'
import type { Caller } from '../../kernel/index.js'

/** Lifetime of a sign-in code in seconds. */
const CODE_SECONDS = 60
/** Maximum codes, and pairings begun with one; one more replaces the oldest. */
const MOST = 16

interface Options extends PairingOptions {
  /** Whether the credential of whoever asked for a code is still valid. */
  stands: (callerId: string) => boolean
}

/** `opener` asked for the code; `wish` is granted to the browser that sends it. */
export interface SignIn { readonly opener: Caller, readonly wish: Omit<PairingWindowOptions, 'by'> }

const hashOf = (code: string): string => createHash('sha256').update(code).digest('base64')

/** One-time sign-in codes, in memory. A code of 128 random bits replaces the comparison of digits. */
export class SignIns {
  readonly #options: Options
  readonly #codes = new Map<string, SignIn & { endsMs: number }>()
  readonly #begun = new Map<string, SignIn & { pairing: Pairing }>()

  constructor (options: Options) { this.#options = options }

  issue (signIn: SignIn): { code: string, ends: string } {
    const { clock } = this.#options
    const code = randomBytes(NONCE_BYTES).toString('base64url')
    for (const hash of [...this.#codes.keys()].slice(0, -MOST + 1)) this.#codes.delete(hash)
    this.#codes.set(hashOf(code), { ...signIn, endsMs: clock.mono() + CODE_SECONDS * 1000 })
    return { code, ends: new Date(clock.now() + CODE_SECONDS * 1000).toISOString() }
  }

  /** Spends a code. Throws `pairing_closed` if it, or the credential that asked for it, is not valid. */
  spend (code: string): SignIn {
    const { clock, error, stands } = this.#options
    const hash = hashOf(code)
    const found = this.#codes.get(hash)
    this.#codes.delete(hash)
    if (found !== undefined && clock.mono() < found.endsMs && stands(found.opener.id)) return found
    throw error('pairing_closed', 'The code of this address was used, or is older than ' +
      `${CODE_SECONDS} seconds; run \`svc open\` again.`)
  }

  /** Spends a code and begins the pairing of the device that sent it. */
  begin (code: string, commit: Buffer, address: string): ReturnType<Pairing['begin']> {
    const signIn = this.spend(code)
    const pairing = new Pairing(this.#options)
    pairing.open({ ...signIn.wish, by: signIn.opener.id })
    const begun = pairing.begin(commit, address)
    for (const id of [...this.#begun.keys()].slice(0, -MOST + 1)) this.#forget(id)
    this.#begun.set(begun.attempt, { ...signIn, pairing })
    return begun
  }

  of (attempt: string): SignIn & { pairing: Pairing } | undefined { return this.#begun.get(attempt) }

  /** Closes the pairings that have taken too long, which ends their waiting confirmations. */
  tidy (): void { for (const { pairing } of this.#begun.values()) pairing.view() }

  close (): void { for (const id of [...this.#begun.keys()]) this.#forget(id) }

  #forget (id: string): void {
    this.#begun.get(id)?.pairing.close()
    this.#begun.delete(id)
  }
}
