// This browser as a paired device: its key signs for a bearer at each node that the page goes to.
import { batch, signal } from '@preact/signals'
import { RequestSigner } from '../../../../kernel/signing/signer.js'
import { ApiError, send } from '../api.js'
import { load, remove, save, selfOf } from './kept.js'
import type { Kept } from './kept.js'

const SESSION = '/v1/devices/session'
/** How long before its end a bearer is renewed, s. */
const EARLY_SECONDS = 120
/** How long a node may take to answer, ms. */
const ANSWER_MS = 5000

/** The device that this browser is; null for none. */
export const device = signal<Kept | null>(null)
/** Why it counts no more, in the words of a node. */
export const ended = signal<string | null>(null)
/** By origin; good there only, and in memory only. */
const bearers = signal<ReadonlyMap<string, string>>(new Map())

const signers = new Map<string, RequestSigner>()
const asked = new Map<string, Promise<string>>()
let timer: ReturnType<typeof setTimeout> | undefined

/** The bearer that is held for a node. */
export const bearerAt = (origin: string): string | null => bearers.value.get(origin) ?? null
/** Whether there is a device that may still count. */
export const signs = (): boolean => device.value !== null && ended.value === null

/** Finds the device that this browser is. */
export async function find (): Promise<void> { become(await load()) }

/** From now on the browser is this device, for good. */
export async function keep (kept: Kept): Promise<void> {
  await save(kept)
  become(kept)
}

function become (kept: Kept | null): void {
  signers.clear()
  asked.clear()
  clearTimeout(timer)
  batch(() => {
    device.value = kept
    ended.value = null
    bearers.value = new Map()
  })
}

/** Revokes the device at a node and drops its key. Throws ApiError when no node could be told. */
export async function forget (origin: string): Promise<void> {
  try {
    const token = bearerAt(origin) ?? await newBearer(origin)
    await send({ origin, token }, '/v1/devices/self', { method: 'DELETE' })
  } catch (error) {
    // Where it does not count there is nothing to revoke.
    if (!(error instanceof ApiError) || !NO_DEVICE.includes(error.reason)) throw error
  }
  await remove()
  become(null)
}

const NO_DEVICE = ['device_ended', 'device_not_found', 'unauthenticated']

/** A fresh bearer in place of one that a node refused, unless another request has got one already. */
export const bearerAfter = async (origin: string, refused: string | null): Promise<string> => {
  const held = bearerAt(origin)
  return held !== null && held !== refused ? held : await newBearer(origin)
}

/** Signs for a fresh bearer, once at a time for each node. Throws ApiError: `device_ended` is for good. */
export function newBearer (origin: string): Promise<string> {
  const kept = device.value
  if (kept === null) return Promise.reject(new ApiError('This browser is no paired device.'))
  const open = asked.get(origin)
  if (open !== undefined) return open
  const session = sessionOf(kept, origin).then(({ token, expiresInSeconds }) => {
    if (!isStill(kept)) throw new ApiError('This browser is another device now.')
    bearers.value = new Map(bearers.value).set(origin, token)
    clearTimeout(timer)
    timer = setTimeout(() => { newBearer(origin).catch(() => {}) },
      Math.max(1, expiresInSeconds - EARLY_SECONDS) * 1000)
    return token
  }).finally(() => { if (asked.get(origin) === session) asked.delete(origin) })
  asked.set(origin, session)
  return session
}

/** Whether the browser is the device that it was when something was begun. */
const isStill = ({ deviceId }: Kept): boolean => device.value?.deviceId === deviceId

/**
 * Takes over which nodes the cluster has now, to go on at one that joined after the pairing. Only of the node
 * that the page itself came from: with its script it has the page's trust already. Throws ApiError.
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

interface Session { token: string, expiresInSeconds: number }

async function sessionOf (kept: Kept, origin: string): Promise<Session> {
  const signer = signerFor(kept, origin)
  const body = {}
  for (let attempt = 1; ; attempt++) {
    const bytes = new TextEncoder().encode(JSON.stringify(body))
    const authorization = await signer.authorization('POST', SESSION, bytes)
    try {
      const options = { body, headers: { authorization }, signal: AbortSignal.timeout(ANSWER_MS) }
      const answer = await send({ origin, token: null }, SESSION, options)
      return await answer.json() as Session
    } catch (error) {
      // The node has started anew, or the clocks differ: it says so, and how.
      if (attempt === 1 && error instanceof ApiError && await signer.correct(error.details)) continue
      throw refusalOf(error, kept, origin)
    }
  }
}

function signerFor (kept: Kept, origin: string): RequestSigner {
  const known = signers.get(origin)
  if (known !== undefined) return known
  const made = new RequestSigner({
    keys: selfOf(kept), seen: kept.seen[origin], now: Date.now,
    fingerprints: new Set(kept.nodes.map(({ fingerprint }) => fingerprint))
  })
  signers.set(origin, made)
  return made
}

/** What a refusal means for the device; notes when it is for good. */
function refusalOf (error: unknown, kept: Kept, origin: string): ApiError {
  if (!(error instanceof ApiError)) return new ApiError(`${origin} does not answer.`)
  const { details, message, reason, status } = error
  if (reason === 'device_ended' && details['why'] !== 'unheard' && isStill(kept)) {
    batch(() => {
      ended.value = message
      bearers.value = new Map()
    })
  }
  const says = {
    unauthenticated: `${origin} does not know this device: it is of another cluster, or was forgotten there.`,
    signature_refused: `${origin} does not show the key of a node that this device was paired with.`
  }[reason]
  return says === undefined ? error : new ApiError(says, { status, reason, details, remedy: 'Pair it anew.' })
}
