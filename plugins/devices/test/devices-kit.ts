import { createHash } from 'node:crypto'
import { RequestSigner } from '../signing/signer.js'
import { deviceKeysOf, pairDevice, type DeviceFile } from '../signing/device.js'
import devices from '../index.js'
import { startPlugin, type Rig, type StartOptions } from '../../../kernel/testing/index.js'
import type { AskNode } from '../signing/pair.js'

export const URL_HERE = 'http://127.0.0.1'

/** An error answer, with its reason and details. */
export class Refused extends Error {
  readonly status: number
  readonly reason: string
  readonly details: unknown
  constructor (status: number, reason: string, details: unknown) {
    super(reason)
    this.status = status
    this.reason = reason
    this.details = details
  }
}

export const start = async (t: Parameters<typeof startPlugin>[0], options: StartOptions = {}): Promise<Rig> =>
  await startPlugin(t, devices, options)

/** Sends a request as the operator, or anonymously if it comes from another address. */
export async function ask<T> (
  rig: Rig, method: string, url: string, payload?: object, remoteAddress = '127.0.0.1'
): Promise<T> {
  const request = { method, url, ...payload === undefined ? {} : { payload }, remoteAddress }
  const answer = await rig.inject(request)
  const body = answer.json() as { error?: { reason: string, details: unknown } }
  if (body.error !== undefined) throw new Refused(answer.statusCode, body.error.reason, body.error.details)
  return body as T
}

export interface Pairing { device: Promise<DeviceFile>, digits: string, attempt: string }

/** A device that starts a pairing; resolves once the operator can compare. */
export async function beginPairing (
  rig: Rig,
  { name = 'phone', through, same = true, from }:
  { name?: string, through?: AskNode, same?: boolean | Promise<boolean>, from?: string } = {}
): Promise<Pairing> {
  const asks: AskNode = async <T>(path: string, body?: object) =>
    await ask<T>(rig, body === undefined ? 'GET' : 'POST', path, body, from)
  let shown = (_digits: string): void => {}
  const seen = new Promise<string>((resolve) => { shown = resolve })
  const device = pairDevice({
    ask: through ?? asks, url: URL_HERE, name, compare: async (digits) => {
      shown(digits)
      return await same
    },
    pause: async () => { await new Promise((resolve) => setImmediate(resolve)) }
  })
  device.catch(() => {})
  const digits = await Promise.race([seen, device.then(() => '')])
  const view = await ask<{ device: { attempt: string } | null }>(rig, 'GET', '/v1/devices/pairing')
  return { device, digits, attempt: view.device?.attempt ?? '' }
}

export async function pair (rig: Rig, choice: object = {}, name = 'phone'): Promise<DeviceFile> {
  await ask(rig, 'POST', '/v1/devices/pairing', choice)
  const { attempt, device, digits } = await beginPairing(rig, { name })
  await ask(rig, 'POST', '/v1/devices/pairing/confirm', { attempt, digits })
  return await device
}

export function signerOf (rig: Rig, device: DeviceFile, aheadMs = 0): RequestSigner {
  return new RequestSigner({
    keys: deviceKeysOf(device), seen: device.seen[URL_HERE], now: () => rig.clock.now() + aheadMs,
    fingerprints: new Set(device.nodes.map(({ fingerprint }) => fingerprint))
  })
}

export const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64url')
