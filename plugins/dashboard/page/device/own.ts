import { batch, signal } from '@preact/signals'
import { RequestSigner, type DeviceIdentity } from '../../../devices/signing/signer.js'
import { ApiError, send } from '../api.js'
import {
  Bearers, isForGood, refusalOf, SESSION, SESSION_BODY, signedSession, type Session
} from './bearers.js'
import { deviceIdOf } from '../../../devices/signing/protocol.js'
import { newWebPair, sha256, signedWith, type WebPair } from '../../../devices/signing/web.js'
import { within } from '../ui/database.js'
import type { Paired } from '../../../devices/signing/pair.js'

const ANSWER_MS = 5000

/** This browser's device; null if it is not paired. */
export const device = signal<Kept | null>(null)
/** Why a node refused the device permanently; null if none did. */
export const ended = signal<string | null>(null)
const bearers = signal<Bearers | null>(null)
const signers = new Map<string, RequestSigner>()

export const bearerAt = (origin: string): string | null => bearers.value?.at(origin) ?? null
export const signs = (): boolean => device.value !== null && ended.value === null

/** Finds the device paired at this origin; there is none if the browser refuses storage. */
export async function find (): Promise<void> {
  const kept = await within<Kept | undefined>(PLACE, 'readonly', (store) => store.get(OWN)).catch(() => null)
  become(kept ?? null)
}

export async function keep (kept: Kept): Promise<void> {
  await save(kept)
  become(kept)
}

function become (kept: Kept | null): void {
  batch(() => {
    bearers.value?.end()
    signers.clear()
    bearers.value = kept === null ? null : bearersOf(kept)
    device.value = kept
    ended.value = null
  })
}

function bearersOf (kept: Kept): Bearers {
  return new Bearers({
    session: async (origin) => {
      const signer = signers.get(origin) ?? signerFor(device.value ?? kept, origin)
      signers.set(origin, signer)
      return await sessionOf(kept, signer, origin)
    },
    later: (ms, act) => {
      const timer = setTimeout(act, ms)
      return () => { clearTimeout(timer) }
    }
  })
}

/** Revokes the device at a node and drops its key. Throws ApiError if no node answers. */
export async function forget (origin: string): Promise<void> {
  try {
    const token = bearerAt(origin) ?? await newBearer(origin)
    await send({ origin, token }, '/v1/devices/self', { method: 'DELETE' })
  } catch (error) {
    // A device that the node does not know needs no revocation.
    if (!(error instanceof ApiError) || !NO_DEVICE.includes(error.reason)) throw error
  }
  // Forget the device before deleting its record, so that pending work does not save it again.
  become(null)
  await within(PLACE, 'readwrite', (store) => store.delete(OWN))
}

const NO_DEVICE = ['device_ended', 'device_not_found', 'unauthenticated']

/** A new bearer in place of a refused one, unless another request has already replaced it. */
export const bearerAfter = async (origin: string, refused: string | null): Promise<string> =>
  await own().after(origin, refused)

/** Requests a new bearer, signed with the device's key. Throws ApiError. */
export const newBearer = async (origin: string): Promise<string> => await own().fresh(origin)

function own (): Bearers {
  if (bearers.value === null) throw new ApiError('This browser is no paired device.')
  return bearers.value
}

async function sessionOf (kept: Kept, signer: RequestSigner, origin: string): Promise<Session> {
  try {
    return await signedSession(signer, async (authorization) => {
      const signal = AbortSignal.timeout(ANSWER_MS)
      const options = { body: SESSION_BODY, headers: { authorization }, signal }
      return await (await send({ origin, token: null }, SESSION, options)).json() as Session
    })
  } catch (error) {
    if (error instanceof ApiError && isForGood(error) && isStill(kept)) endNow(error.message)
    throw refusalOf(error, origin)
  }
}

const isStill = ({ deviceId }: Kept): boolean => device.value?.deviceId === deviceId

/**
 * Reads the cluster's nodes, to find those that joined after the pairing. Asks only the page's origin, whose
 * script the page already trusts. Throws ApiError.
 */
export async function learnNodes (origin: string): Promise<void> {
  const kept = device.value
  const token = bearerAt(origin)
  if (kept === null || token === null) return
  const answer = await send({ origin, token }, '/v1/devices/self', { signal: AbortSignal.timeout(ANSWER_MS) })
  const { nodes } = await answer.json() as Pick<Kept, 'nodes'>
  if (!isStill(kept) || JSON.stringify(nodes) === JSON.stringify(kept.nodes)) return
  const next = { ...kept, nodes }
  await save(next)
  signers.clear()
  device.value = next
}

function endNow (why: string): void {
  batch(() => {
    bearers.value?.drop()
    ended.value = why
  })
}

const signerFor = (kept: Kept, origin: string): RequestSigner => new RequestSigner({
  keys: selfOf(kept), seen: kept.seen[origin], now: Date.now,
  fingerprints: new Set(kept.nodes.map(({ fingerprint }) => fingerprint))
})

/** Private keys are non-extractable in the browser's store: even this page can only use them. */
interface Keys { deviceId: string, key: WebPair, agreement: WebPair }
type Kept = Keys & Paired

/** Generates the key pairs. Throws if the browser does not support their curves. */
export async function newKeys (): Promise<Keys> {
  const [key, agreement] = await Promise.all([newWebPair('Ed25519'), newWebPair('X25519')])
  return { deviceId: deviceIdOf(await sha256(key.publicKey)), key, agreement }
}

export const selfOf = (keys: Keys): DeviceIdentity =>
  ({ ...keys, sign: async (message) => await signedWith(keys.key.privateKey, message) })

const PLACE = { database: 'svc', store: 'device' }
const OWN = 'own'

const save = async (kept: Kept): Promise<unknown> =>
  await within(PLACE, 'readwrite', (store) => store.put(kept, OWN))
