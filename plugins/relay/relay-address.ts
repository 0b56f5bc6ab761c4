import { fingerprintOfRaw, isSignedBy, KEY_BYTES, purposeBytes } from '../../kernel/index.js'
import { purposes, routeBytes, routeOf } from './wire.js'
import type { FromSchema, Identity } from '../../kernel/index.js'
import type { meetingSchema } from './routes.js'

/** A node's relay URL and the node's keys, signed by the node. */
export type RelayAddress = FromSchema<typeof meetingSchema>

const bytes = (base64url: string): Buffer => Buffer.from(base64url, 'base64url')
const text = (raw: Uint8Array): string => Buffer.from(raw).toString('base64url')

export function meetingOf (
  { publicKey, agreementKey, sign }: Identity, url: string,
  { installId, name }: { readonly installId: string, readonly name: string }
): RelayAddress {
  return {
    installId, name, url, key: text(publicKey), agreementKey: text(agreementKey),
    signature: text(sign(purposes.route, routeBytes(url, agreementKey)))
  }
}

/** Whether the node itself has signed this address with a known key, whichever node forwards it. */
export function isOwn (meeting: RelayAddress, fingerprints: ReadonlySet<string>): boolean {
  const [key, agreementKey] = [bytes(meeting.key), bytes(meeting.agreementKey)]
  if (key.length !== KEY_BYTES || agreementKey.length !== KEY_BYTES) return false
  const said = purposeBytes(purposes.route, routeBytes(meeting.url, agreementKey))
  return fingerprints.has(fingerprintOfRaw(key)) && isSignedBy(key, said, bytes(meeting.signature))
}

export const routeAt = ({ key }: RelayAddress): string => routeOf(bytes(key))
