import { randomBytes } from 'node:crypto'
import {
  agreed, answerMac, commitBytes, deviceFileOf, fingerprintOfRaw, isSignedBy, newDeviceKeys, newKeyPair,
  pairSecrets, proofBytes, purposeBytes, sha256, signed, transcriptBytes
} from '../../kernel/index.js'
import { NONCE_BYTES } from './pairing.js'
import type { DeviceFile, Grant, KnownNode, NodeHalf } from '../../kernel/index.js'

/** How often the device asks whether the operator has confirmed, ms. */
const ASK_MS = 500

/** Asks the node and reads its JSON answer; throws what it refuses with. */
export type AskNode = <T>(path: string, body?: object) => Promise<T>

export interface PairOptions {
  ask: AskNode
  /** Where the node is. */
  url: string
  /** What the device calls itself. */
  name: string
  /** Shows the six digits; called once. */
  show: (digits: string, nodeName: string) => void
  /** Resolves after that many ms; throws when the wait is given up. */
  pause: (ms: number) => Promise<void>
}

/** Why a pairing came to nothing, for people. */
export class PairingError extends Error {
  override readonly name = 'PairingError'
}

interface Begun { attempt: string, node: Record<keyof NodeHalf, string>, nodeId: string, name: string }
interface Outcome { state: 'waiting' | 'paired' | 'refused', answer: string | null, mac: string | null }

const bytes = (base64url: string): Buffer => Buffer.from(base64url, 'base64url')
const text = (raw: Uint8Array): string => Buffer.from(raw).toString('base64url')

/**
 * The device's side of pairing, with fresh keys: commits itself, shows its keys, shows the digits and waits
 * for the operator. The answer is believed only with the secret that the digits are made of. Throws
 * PairingError, and what `ask` throws.
 */
export async function pairDevice ({ ask, url, name, show, pause }: PairOptions): Promise<DeviceFile> {
  const keys = newDeviceKeys()
  const ephemeral = newKeyPair('X25519')
  const device = {
    key: keys.key.publicKey, agreementKey: keys.agreement.publicKey, ephemeral: ephemeral.publicKey,
    nonce: randomBytes(NONCE_BYTES), name
  }
  const commit = sha256(commitBytes(device))
  const begun = await ask<Begun>('/v1/devices/pair', { commit: text(commit) })
  const node: NodeHalf = {
    key: bytes(begun.node.key), agreementKey: bytes(begun.node.agreementKey),
    ephemeral: bytes(begun.node.ephemeral), nonce: bytes(begun.node.nonce)
  }
  const hash = sha256(transcriptBytes(commit, node, device))
  const path = `/v1/devices/pair/${encodeURIComponent(begun.attempt)}`
  const { signature } = await ask<{ signature: string }>(path, {
    key: text(device.key), agreementKey: text(device.agreementKey), ephemeral: text(device.ephemeral),
    nonce: text(device.nonce), name, proof: text(signed(keys.key.privateKey, proofBytes(hash)))
  })
  if (!isSignedBy(node.key, purposeBytes('pair', hash), bytes(signature))) {
    throw new PairingError('the node could not show that its key is its own; nothing was paired')
  }
  const { digits, answerKey } = pairSecrets(agreed(ephemeral.privateKey, node.ephemeral), hash)
  show(digits, begun.name)
  for (;;) {
    await pause(ASK_MS)
    const { state, answer, mac } = await ask<Outcome>(path)
    if (state === 'waiting') continue
    if (state === 'refused' || answer === null) {
      throw new PairingError('the operator did not confirm, or the time was over; run it again to try anew')
    }
    if (mac !== answerMac(answerKey, answer)) {
      throw new PairingError('the answer is not the node\'s; nothing was kept')
    }
    const { grant, nodes } = JSON.parse(answer) as { grant: Grant, nodes: KnownNode[] }
    const own = nodes.some(({ fingerprint }) => fingerprint === fingerprintOfRaw(node.key))
    if (grant.deviceId !== keys.deviceId || !own) {
      throw new PairingError('the answer is about another device; nothing was kept')
    }
    const seen = { [new URL(url).origin]: { nodeId: begun.nodeId, aheadMs: 0 } }
    return deviceFileOf(keys, { grant, nodes, seen })
  }
}
