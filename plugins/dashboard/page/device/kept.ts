// The browser's record of its device. Private keys are non-extractable in the browser's store: even this page
// can only use them.
import { deviceIdOf } from '../../../devices/signing/protocol.js'
import { newWebPair, sha256, signedWith } from '../../../devices/signing/web.js'
import { within } from '../ui/database.js'
import type { Paired } from '../../../devices/signing/pair.js'
import type { DeviceIdentity } from '../../../devices/signing/signer.js'
import type { WebPair } from '../../../devices/signing/web.js'

export interface Keys { deviceId: string, key: WebPair, agreement: WebPair }
export type Kept = Keys & Paired

/** Generates the key pairs. Throws if the browser does not support their curves. */
export async function newKeys (): Promise<Keys> {
  const [key, agreement] = await Promise.all([newWebPair('Ed25519'), newWebPair('X25519')])
  return { deviceId: deviceIdOf(await sha256(key.publicKey)), key, agreement }
}

export const selfOf = (keys: Keys): DeviceIdentity =>
  ({ ...keys, sign: async (message) => await signedWith(keys.key.privateKey, message) })

const PLACE = { database: 'svc', store: 'device' }
const OWN = 'own'

/** The device paired at this origin; null if there is none or the browser refuses storage. */
export async function load (): Promise<Kept | null> {
  try {
    return await within<Kept | undefined>(PLACE, 'readonly', (store) => store.get(OWN)) ?? null
  } catch {
    return null
  }
}

export const save = async (kept: Kept): Promise<unknown> =>
  await within(PLACE, 'readwrite', (store) => store.put(kept, OWN))

export const remove = async (): Promise<void> => {
  await within(PLACE, 'readwrite', (store) => store.delete(OWN))
}
