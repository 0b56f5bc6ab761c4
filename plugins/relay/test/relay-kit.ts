import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { WebSocket } from 'ws'
import { newKeyPair, purposeBytes, signed, systemClock, type Identity } from '../../../kernel/index.js'
import { agreementOf } from '../channel/suite.js'
import { relayLimits } from '../server/limits.js'
import { startRelay, type RelayOptions } from '../server/relay.js'
import { claimBytes, paths, purposes, routeOf, socketUrl } from '../wire.js'

/** The part of tap that tests need. */
export interface Tearing { teardown (fn: () => unknown): unknown }

export async function relayFor (t: Tearing, options: Partial<RelayOptions> = {}) {
  const relay = await startRelay({
    host: '127.0.0.1', port: 0, limits: { ...relayLimits, refuseMs: 20 }, clock: systemClock,
    random: randomBytes, ...options
  })
  t.teardown(async () => { await relay.close() })
  return { ...relay, url: `http://127.0.0.1:${relay.port}` }
}

/** A connection to a relay: its received messages in order, and its close code. */
export async function knock (t: Tearing, url: string, path: keyof typeof paths, headers = {}) {
  const ws = new WebSocket(socketUrl(url, paths[path]), { headers, perMessageDeflate: false })
  t.teardown(() => { ws.terminate() })
  const heard: (string | Buffer)[] = []
  ws.on('message', (data: Buffer, binary: boolean) => { heard.push(binary ? data : data.toString()) })
  ws.on('error', () => {})
  const closed = new Promise<number>((resolve) => { ws.once('close', resolve) })
  await once(ws, 'open')
  return {
    ws, heard, closed,
    async next (): Promise<string | Buffer> {
      while (heard.length === 0) await once(ws, 'message')
      return heard.shift()!
    },
    say: (value: unknown) => { ws.send(JSON.stringify(value)) }
  }
}

export function identity (): Identity {
  const key = newKeyPair('Ed25519')
  const agreement = agreementOf(randomBytes(32))
  return {
    publicKey: key.publicKey, agreementKey: agreement.publicKey,
    sign: (purpose, message) => signed(key.privateKey, purposeBytes(purpose, message)),
    agree: (peer) => agreement.agree(peer),
    vouched: () => undefined, fingerprints: () => new Map()
  }
}

/** A hand-made node that has claimed its route. */
export async function claimed (t: Tearing, url: string, node = identity(), host = new URL(url).host) {
  const socket = await knock(t, url, 'node')
  const { challenge } = JSON.parse(String(await socket.next())) as { challenge: string }
  const route = routeOf(node.publicKey)
  socket.say({
    key: Buffer.from(node.publicKey).toString('base64url'),
    signature: Buffer.from(node.sign(purposes.claim, claimBytes(host, challenge))).toString('base64url')
  })
  return { ...socket, route, node }
}

export async function until (holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 2))
}
