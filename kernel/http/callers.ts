import { kernelError } from '../api/errors.js'
import type { Arrival, CallerScheme, CallerRegistry, Proof } from '../api/callers.js'

/** The form of Authorization: the word, and the credential after it. */
const FORM = /^([A-Za-z][A-Za-z0-9-]*) +(\S.*)$/

/** Credential schemes of plugins, beside the kernel's tokens. */
export class CallerSchemes implements CallerRegistry {
  readonly #schemes = new Set<CallerScheme>()
  readonly #distrusted = new Set<(arrival: Arrival) => boolean>()

  register (scheme: CallerScheme): () => void {
    for (const { word, bearer } of this.#schemes) {
      if (word.toLowerCase() !== scheme.word.toLowerCase() && bearer !== scheme.bearer) continue
      throw new Error(`credentials ${scheme.word} and ${scheme.bearer}… are checked by another plugin`)
    }
    this.#schemes.add(scheme)
    return () => { this.#schemes.delete(scheme) }
  }

  distrust (test: (arrival: Arrival) => boolean): () => void {
    this.#distrusted.add(test)
    return () => { this.#distrusted.delete(test) }
  }

  /** Whether the address of a request grants authority. */
  trusts (arrival: Arrival): boolean { return ![...this.#distrusted].some((test) => test(arrival)) }

  /** Undefined for a credential of no scheme; throws when its scheme refuses it. */
  check (arrival: Arrival): Proof | undefined {
    const [, word = '', rest = ''] = FORM.exec(arrival.authorization ?? '') ?? []
    const scheme = [...this.#schemes].find((one) => word.toLowerCase() === 'bearer'
      ? rest.startsWith(one.bearer)
      : word.toLowerCase() === one.word.toLowerCase())
    return scheme?.check(arrival, rest)
  }

  /** Whether a caller still counts; undefined for one that no scheme knows. */
  stands (callerId: string): boolean | undefined {
    for (const scheme of this.#schemes) {
      const stands = scheme.stands(callerId)
      if (stands !== undefined) return stands
    }
    return undefined
  }

  makerOf (callerId: string): string | undefined {
    return [...this.#schemes].map((scheme) => scheme.makerOf(callerId)).find((id) => id !== undefined)
  }
}

/** The refusal of what came through a relay without a device's own credential. */
export const relayedOnly = (): Error => kernelError('unauthenticated',
  'Through a relay only the credentials of the paired device at its other end count: `svc device pair URL`.')

/** The device at the other end of a connection that came through a relay. */
const devices = new WeakMap<object, string>()

/** Remembers which device the encrypted handshake of a relayed connection authenticated. */
export function setRelayed (connection: object, device: string): void { devices.set(connection, device) }

/** The device at the other end of a relayed connection; undefined for every other connection. */
export const relayedDevice = (connection: object): string | undefined => devices.get(connection)
