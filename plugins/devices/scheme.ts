import { verify } from 'node:crypto'
import { kernelError, publicKeyOf } from '../../kernel/index.js'
import {
  CORRECTION, correctionBytes, DEVICE_BEARER, readCredential, requestText, SIGNATURE_SCHEME
} from './signing/protocol.js'
import { isDeviceId } from './grants.js'
import { MOST_NONCES, Nonces, windowTime } from './nonces.js'
import { SESSION_PATH } from './routes.js'
import type { KeyObject } from 'node:crypto'
import type { Arrival, CallerScheme, Clock, Identity, Proof, SvcError } from '../../kernel/index.js'
import type { Grant, SignedCredential } from './signing/protocol.js'
import type { Bearers } from './bearers.js'
import type { DeviceValidity, InvalidReason } from './validity.js'

/** Maximum wrong signatures per minute from one device and address; any more are refused unchecked. */
const MOST_WRONG = 10
const WRONG_MS = 60_000
const MOST_WATCHED = 10_000

const SAYS: Readonly<Record<Exclude<InvalidReason, 'unknown'>, string>> = {
  revoked: 'This device was revoked.',
  expired: 'The grant of this device has expired.',
  node_removed: 'The node that paired this device was removed from the cluster.',
  unheard: 'This node has had no contact with its cluster for longer than the device\'s grant allows.'
}

export interface SchemeOptions {
  clock: Clock
  /** The node's id, which is new at each start. */
  nodeId: string
  identity: Pick<Identity, 'publicKey' | 'sign'>
  standing: Pick<DeviceValidity, 'of'>
  bearers: Pick<Bearers, 'deviceOf'>
  /** Called each time a device presents a valid credential. */
  used: (deviceId: string) => void
  error: (
    reason: 'signature_refused' | 'device_ended' | 'bearer_in_clear', message: string | undefined,
    details: Record<string, unknown>
  ) => SvcError
}

export class DeviceScheme implements CallerScheme {
  readonly word = SIGNATURE_SCHEME
  readonly bearer = DEVICE_BEARER
  readonly #options: SchemeOptions
  readonly #nonces = new Nonces()
  /** Cache of node:crypto keys by their text, because creating a key costs half a signature check. */
  readonly #keys = new Map<string, KeyObject>()
  /** Monotonic times of wrong signatures, by device and address. */
  readonly #wrong = new Map<string, number[]>()

  readonly #time: () => number

  constructor (options: SchemeOptions) {
    this.#options = options
    this.#time = windowTime(options.clock)
  }

  check (arrival: Arrival, credential: string): Proof | undefined {
    return credential.startsWith(DEVICE_BEARER)
      ? this.#byBearer(arrival, credential)
      : this.#bySignature(arrival, credential)
  }

  stands (callerId: string): boolean | undefined {
    const found = this.#options.standing.of(callerId)
    return found === 'unknown' ? isDeviceId(callerId) ? false : undefined : typeof found !== 'string'
  }

  makerOf (callerId: string): string | undefined {
    const found = this.#options.standing.of(callerId)
    return typeof found === 'string' ? undefined : found.by
  }

  tidy (): void {
    this.#nonces.forget(this.#time())
    const now = this.#options.clock.mono()
    for (const [who, times] of this.#wrong) if (now - times.at(-1)! >= WRONG_MS) this.#wrong.delete(who)
    if (this.#keys.size > MOST_WATCHED) this.#keys.clear()
  }

  #byBearer (arrival: Arrival, token: string): Proof | undefined {
    const { bearers, error } = this.#options
    const deviceId = bearers.deviceOf(token, arrival.device !== null)
    if (deviceId === undefined || !fits(arrival, deviceId)) return undefined
    if (arrival.inClear) throw error('bearer_in_clear', undefined, {})
    const grant = this.#standing(deviceId)
    if (grant === undefined) return undefined
    this.#options.used(deviceId)
    return { caller: callerOf(grant, arrival) }
  }

  #bySignature (arrival: Arrival, credential: string): Proof | undefined {
    const { clock, nodeId, used } = this.#options
    const shown = readCredential(credential)
    if (shown === undefined || !fits(arrival, shown.device)) return undefined
    const { body, device, nonce, ts } = shown
    const grant = this.#standing(device)
    if (grant === undefined) return undefined
    const now = this.#time()
    if (!this.#nonces.inWindow(ts, now)) {
      throw this.#refused(shown, `its time differs from this node's by ${Math.abs(ts - now) / 1000} s`)
    }
    if (this.#nonces.has(device, ts, nonce)) throw this.#refused(shown, 'its nonce was used before')
    const who = `${device} ${arrival.remoteAddress}`
    this.#refuseFlood(who)
    const { method, target } = arrival
    const text = requestText({ method, nodeId, target, body, ts, nonce })
    const signature = Buffer.from(shown.signature, 'base64url')
    if (!verify(null, Buffer.from(text), this.#keyOf(grant), signature)) {
      this.#wrong.set(who, [...this.#wrong.get(who) ?? [], clock.mono()].slice(-MOST_WRONG))
      if (this.#wrong.size > MOST_WATCHED) this.#wrong.delete(this.#wrong.keys().next().value!)
      throw this.#refused(shown, 'it does not match this request to this node')
    }
    if (!this.#nonces.add(device, ts, nonce, now)) {
      throw kernelError('overloaded', `A device may sign ${MOST_NONCES} requests per minute; ` +
        'use a bearer for more: POST /v1/devices/session.', { retryAfterSeconds: 10 })
    }
    if (arrival.inClear && arrival.route === SESSION_PATH) {
      throw this.#options.error('bearer_in_clear', undefined, {})
    }
    used(device)
    return { caller: callerOf(grant, arrival), bodySha256: Buffer.from(body, 'base64url') }
  }

  /** A device's valid grant; undefined for an unknown device. Throws `device_ended` for an invalid grant. */
  #standing (deviceId: string): Grant | undefined {
    const found = this.#options.standing.of(deviceId)
    if (typeof found !== 'string') return found
    if (found === 'unknown') return undefined
    throw this.#options.error('device_ended', SAYS[found], { why: found })
  }

  /** The error for a refused signature, with the node's signed id and time for an honest device's retry. */
  #refused ({ nonce }: SignedCredential, why: string): SvcError {
    const { error, identity, nodeId } = this.#options
    const correction = { nodeId, timeMs: Math.round(this.#time()), nonce }
    const signature = identity.sign(CORRECTION, correctionBytes(correction))
    return error('signature_refused', `The signature of this request is not accepted: ${why}.`, {
      ...correction, nodeKey: Buffer.from(identity.publicKey).toString('base64url'),
      signature: Buffer.from(signature).toString('base64url')
    })
  }

  #refuseFlood (who: string): void {
    const now = this.#options.clock.mono()
    const recent = (this.#wrong.get(who) ?? []).filter((at) => now - at < WRONG_MS)
    if (recent.length < MOST_WRONG) return
    throw kernelError('overloaded', 'Too many wrong signatures of this device from this address.',
      { retryAfterSeconds: 60 })
  }

  #keyOf ({ key }: Grant): KeyObject {
    const known = this.#keys.get(key)
    if (known !== undefined) return known
    const made = publicKeyOf('Ed25519', Buffer.from(key, 'base64url'))
    this.#keys.set(key, made)
    return made
  }
}

/** Through a relay, only the device that the handshake authenticated may send requests. */
const fits = ({ device }: Arrival, deviceId: string): boolean => device === null || device === deviceId

function callerOf ({ authorities, deviceId, viaRelay }: Grant, { device }: Arrival): Proof['caller'] {
  if (device === null) return { id: deviceId, mode: 'paired', authorities: new Set(authorities) }
  const left = authorities.filter((authority) => viaRelay.includes(authority))
  return { id: deviceId, mode: 'relay', authorities: new Set(left) }
}
