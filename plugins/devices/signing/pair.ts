/** The device's side of pairing, in browsers and on the command line. */
import { base64url, fromBase64url, purposeBytes } from '../../../kernel/net/encoding.js'
import { commitBytes, proofBytes, transcriptBytes } from './protocol.js'
import { compared, fingerprintOf, isSignedBy, newWebPair, randomBytes, sha256 } from './web.js'
import type { Grant, KnownNode, NodeHalf } from './protocol.js'
import type { DeviceIdentity, Seen } from './signer.js'

/** Poll interval in ms for the operator's confirmation. */
const ASK_MS = 500
const NONCE_BYTES = 16

/** Sends a request to the node and returns its JSON answer; throws if the node refuses. */
export type AskNode = <T>(path: string, body?: object) => Promise<T>

export interface PairOptions {
  /** New for each pairing, because a revoked key never becomes valid again. */
  keys: DeviceIdentity
  ask: AskNode
  url: string
  name: string
  /** A sign-in code; the node then confirms the device without an operator. */
  code?: string
  /** Shows the six digits and resolves to whether the node shows the same; called once. */
  compare: (digits: string, nodeName: string) => Promise<boolean>
  /** Resolves after that many ms; throws when the wait is aborted. */
  pause: (ms: number) => Promise<void>
}

/** The device's record of its pairing, not including its keys. */
export interface Paired {
  readonly grant: Grant
  readonly nodes: readonly KnownNode[]
  /** Node ids and clock offsets, by the origin of the URL at which the device reached the node. */
  readonly seen: Readonly<Record<string, Seen>>
}

/** A failed pairing, with a message for the user. */
export class PairingError extends Error { override readonly name = 'PairingError' }

interface Begun { attempt: string, node: Record<keyof NodeHalf, string>, nodeId: string, name: string }
interface Outcome { state: 'waiting' | 'paired' | 'refused', answer: string | null, mac: string | null }

/**
 * Pairs a device: commits, reveals its keys, has the digits compared and waits for the operator. Accepts only
 * an answer authenticated by the secret behind the digits. Throws PairingError, and errors from `ask` and
 * `compare`.
 */
export async function pairWith (
  { keys, ask, url, name, code, compare, pause }: PairOptions
): Promise<Paired> {
  const ephemeral = await newWebPair('X25519')
  const device = {
    key: keys.key.publicKey, agreementKey: keys.agreement.publicKey, ephemeral: ephemeral.publicKey,
    nonce: randomBytes(NONCE_BYTES), name
  }
  const commit = await sha256(commitBytes(device))
  const sent = { commit: base64url(commit), ...code === undefined ? {} : { code } }
  const begun = await ask<Begun>('/v1/devices/pair', sent)
  const node = {
    key: fromBase64url(begun.node.key), agreementKey: fromBase64url(begun.node.agreementKey),
    ephemeral: fromBase64url(begun.node.ephemeral), nonce: fromBase64url(begun.node.nonce)
  }
  const hash = await sha256(transcriptBytes(commit, node, device))
  const path = `/v1/devices/pair/${encodeURIComponent(begun.attempt)}`
  const { signature } = await ask<{ signature: string }>(path, {
    key: base64url(device.key), agreementKey: base64url(device.agreementKey),
    ephemeral: base64url(device.ephemeral), nonce: base64url(device.nonce), name,
    proof: base64url(await keys.sign(proofBytes(hash)))
  })
  if (!await isSignedBy(node.key, purposeBytes('pair', hash), fromBase64url(signature))) {
    throw new PairingError('the node did not prove its key; nothing was paired')
  }
  const secrets = await compared(ephemeral.privateKey, node.ephemeral, hash).catch(() => {
    throw new PairingError('the ephemeral key of the node is invalid; nothing was paired')
  })
  if (!await compare(secrets.digits, begun.name)) {
    // If this request is lost, the pairing still fails, because the device never asks for the outcome.
    await ask(`${path}/refuse`, {}).catch(() => {})
    throw new PairingError('the digits differ: someone is intercepting the connection, or another device ' +
      'was compared; nothing was stored')
  }
  for (;;) {
    await pause(ASK_MS)
    const { state, answer, mac } = await ask<Outcome>(path)
    if (state === 'waiting') continue
    if (state === 'refused' || answer === null) {
      throw new PairingError('the operator did not confirm in time; start again')
    }
    if (!await secrets.isAnswer(fromBase64url(mac ?? ''), answer)) {
      throw new PairingError('the answer does not come from the node; nothing was stored')
    }
    const { grant, nodes } = JSON.parse(answer) as { grant: Grant, nodes: KnownNode[] }
    const own = await fingerprintOf(node.key)
    if (grant.deviceId !== keys.deviceId || !nodes.some(({ fingerprint }) => fingerprint === own)) {
      throw new PairingError('the answer is about another device; nothing was stored')
    }
    return { grant, nodes, seen: { [new URL(url).origin]: { nodeId: begun.nodeId, aheadMs: 0 } } }
  }
}
