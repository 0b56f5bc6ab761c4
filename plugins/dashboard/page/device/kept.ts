// The browser's record of its device. Private keys are non-extractable in the browser's store: even this page
// can only use them.
import { deviceIdOf } from '../../../../kernel/signing/protocol.js'
import { newWebPair, sha256, signedWith } from '../../../../kernel/signing/web.js'
import type { Paired } from '../../../../kernel/signing/pair.js'
import type { DeviceSelf } from '../../../../kernel/signing/signer.js'
import type { WebPair } from '../../../../kernel/signing/web.js'

export interface Keys { deviceId: string, key: WebPair, agreement: WebPair }
export type Kept = Keys & Paired

/** Fresh keys. Throws where the browser does not have the curves. */
export async function newKeys (): Promise<Keys> {
  const [key, agreement] = await Promise.all([newWebPair('Ed25519'), newWebPair('X25519')])
  return { deviceId: deviceIdOf(await sha256(key.publicKey)), key, agreement }
}

/** The keys as pairing and signing want them. */
export const selfOf = (keys: Keys): DeviceSelf =>
  ({ ...keys, sign: async (message) => await signedWith(keys.key.privateKey, message) })

/** A browser has one device for each origin, in one place. */
const [DATABASE, STORE, OWN] = ['svc', 'device', 'own']

/** The device of this origin; null where there is none, or where the browser keeps nothing. */
export async function load (): Promise<Kept | null> {
  try {
    return await within<Kept | undefined>('readonly', (store) => store.get(OWN)) ?? null
  } catch {
    return null
  }
}

export async function save (kept: Kept): Promise<void> {
  await within('readwrite', (store) => store.put(kept, OWN))
}

export async function remove (): Promise<void> {
  await within('readwrite', (store) => store.delete(OWN))
}

async function within<T> (
  mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest
): Promise<T> {
  const opening = indexedDB.open(DATABASE, 1)
  opening.onupgradeneeded = () => { opening.result.createObjectStore(STORE) }
  await settled(opening)
  const database = opening.result
  try {
    const transaction = database.transaction(STORE, mode)
    const request = act(transaction.objectStore(STORE))
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => { resolve() }
      transaction.onabort = () => { reject(transaction.error ?? keepsNothing()) }
    })
    return request.result as T
  } finally {
    database.close()
  }
}

const settled = (request: IDBRequest): Promise<void> => new Promise((resolve, reject) => {
  request.onsuccess = () => { resolve() }
  request.onerror = () => { reject(request.error ?? keepsNothing()) }
})

const keepsNothing = (): Error => new Error('This browser keeps nothing for this page.')
