import { kernelError } from '../api/errors.js'
import type { Arrival, CallerScheme, CallerRegistry, Proof } from '../api/callers.js'
import type { TokenRecord } from '../api/services.js'

/** Authorization syntax: scheme name, then credential. */
const FORM = /^([A-Za-z][A-Za-z0-9-]*) +(\S.*)$/

/** Credential schemes from plugins, in addition to the kernel's tokens. */
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

  trusts (arrival: Arrival): boolean { return ![...this.#distrusted].some((test) => test(arrival)) }

  /** Undefined if no scheme accepts the credential; a scheme may also throw its own error. */
  check (arrival: Arrival): Proof | undefined {
    const [, word = '', rest = ''] = FORM.exec(arrival.authorization ?? '') ?? []
    const scheme = [...this.#schemes].find((one) => word.toLowerCase() === 'bearer'
      ? rest.startsWith(one.bearer)
      : word.toLowerCase() === one.word.toLowerCase())
    return scheme?.check(arrival, rest)
  }

  /** Whether a caller's credential is still valid; undefined if the caller belongs to no scheme. */
  stands (callerId: string): boolean | undefined {
    return [...this.#schemes].map((scheme) => scheme.stands(callerId)).find((stands) => stands !== undefined)
  }

  makerOf (callerId: string): string | undefined {
    return [...this.#schemes].map((scheme) => scheme.makerOf(callerId)).find((id) => id !== undefined)
  }

  records (): TokenRecord[] { return [...this.#schemes].flatMap((scheme) => scheme.records?.() ?? []) }
}

/** Error for a relayed request that lacks the device's own credential. */
export const relayedOnly = (): Error => kernelError('unauthenticated',
  'A relay accepts only the credentials of the paired device at its other end: `svc device pair URL`.')

const devices = new WeakMap<object, string>()

/** Stores which device the encrypted handshake of a relayed connection has authenticated. */
export function setRelayed (connection: object, device: string): void { devices.set(connection, device) }

/** The device at the other end of a relayed connection; undefined for every other connection. */
export const relayedDevice = (connection: object): string | undefined => devices.get(connection)
