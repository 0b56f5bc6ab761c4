import { randomUUID } from 'node:crypto'
import { WebSocket } from 'ws'
import { systemClock } from '../../../kernel/api/clock.js'
import { Links, type LinksOptions } from '../links/links.js'
import { formatAddress } from '../identity/addresses.js'
import { JoinTokens } from '../identity/join-tokens.js'
import { openNodeKey, type NodeKey } from '../../../kernel/boot/node-key.js'
import { dial } from '../identity/tls.js'
import { openMembers, type Members } from '../members/file.js'
import { encodeFrame, type Hello } from '../links/frames.js'
import { tempHome, tempKey } from './identity-kit.js'
import type { Caller, Logger } from '../../../kernel/api/plugin.js'
import type { Peer } from '../links/link.js'
import type { MemberList } from '../members/member.js'

export { tempKey }
export interface Owner { teardown (fn: () => unknown): unknown }

const quiet = (): void => {}
export const log: Logger = { debug: quiet, info: quiet, warn: quiet, error: quiet, fatal: quiet }

export const caller: Caller = { id: 'tok_ä', mode: 'direct', authorities: new Set(['read', 'operator']) }

/** Resolves when the condition holds; fails after 20 s with the description. */
export async function until (what: string, condition: () => boolean): Promise<void> {
  const end = Date.now() + 20_000
  while (!condition()) {
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`)
    await new Promise((resolve) => { setTimeout(resolve, 5) })
  }
}

export interface TestNode {
  id: string
  key: NodeKey
  members: Members
  tokens: JoinTokens
  links: Links
  /** The events in order: `up ID`, `down ID REASON`, `KIND ID BODY`. */
  told: string[]
  address: string
  hello: Hello
}

export type Extra = Partial<Omit<LinksOptions, 'key' | 'members' | 'joinTokens'>> & {
  id?: string
  /** Host to listen on; null: do not listen. */
  host?: string | null
}

/** A node with its links, listening on loopback but not started. */
export async function testNode (t: Owner, extra: Extra = {}): Promise<TestNode> {
  const { id = randomUUID(), host = '127.0.0.1', limits, ...more } = extra
  const home = tempHome(t)
  const key = await openNodeKey(home, id)
  const self = { installId: id, fingerprint: key.fingerprint, name: `node ${id}`, addresses: [] as string[] }
  const members = openMembers({ home, self, now: Date.now })
  const tokens = new JoinTokens({ home, now: Date.now, stands: () => true })
  const told: string[] = []
  const hello: Hello = {
    installId: id, nodeId: randomUUID(), name: self.name, version: '0.0.0', apiUrl: null, address: null,
    clusterId: members.current().clusterId
  }
  const node = { id, key, members, tokens, told, address: '', hello }
  const links = new Links({
    key, members, joinTokens: tokens, clock: systemClock, log, random: Math.random,
    hello: () => ({ ...node.hello, clusterId: members.current().clusterId }),
    events: {
      up: (peer) => { told.push(`up ${peer.installId}`) },
      down: (installId, reason) => { told.push(`down ${installId} ${reason}`) },
      frame: (from, kind, body) => { told.push(`${kind} ${from} ${JSON.stringify(body)}`) },
      copied: (address, known) => { told.push(`copied ${address} ${known}`) },
      violation: (from, reason) => { told.push(`violation ${from} ${reason}`) }
    },
    // No back-off, because some tests break the protocol repeatedly with the same key.
    limits: { violationMinMs: 0, ...limits },
    api: (_request, response) => { response.end('{}') },
    admit: async () => members.current(),
    ...more
  })
  t.teardown(() => links.close())
  if (host !== null) {
    const at = await links.listen({ host, port: 0 })
    node.address = formatAddress(at.host, at.port)
  }
  return Object.assign(node, { links })
}

/** Makes the given nodes members of one cluster; addresses default to their own. */
export function unite (
  nodes: readonly { id: string, key: NodeKey, members?: Members, address?: string, addresses?: string[] }[]
): MemberList {
  const membership: MemberList = {
    clusterId: randomUUID(),
    removed: [],
    members: nodes.map(({ id, key, address, addresses }) => ({
      installId: id, fingerprint: key.fingerprint, name: `node-${id.slice(0, 8)}`,
      joinedAt: new Date(0).toISOString(),
      addresses: addresses ?? (address === undefined || address === '' ? [] : [address])
    }))
  }
  for (const { members } of nodes) members?.replace(membership)
  return membership
}

/** A node's link events, leaving out frames. */
export const updown = (node: TestNode): string[] => node.told.filter((line) => /^(up|down) /.test(line))

export const peerOf = (node: TestNode, installId: string): Peer | undefined =>
  node.links.peers().find((peer) => peer.installId === installId)

/** A WebSocket of a hand-made peer with the given key. */
export async function rawSocket (
  t: Owner, key: NodeKey, node: TestNode
): Promise<{ ws: WebSocket, code: Promise<number> }> {
  const [, host, port] = /^\[?(.*?)\]?:(\d+)$/.exec(node.address)!
  const socket = await dial({
    key, host: host!, port: Number(port), expect: node.key.fingerprint, timeoutMs: 5000, clock: systemClock
  })
  const options = { createConnection: () => socket, perMessageDeflate: false }
  const ws = new WebSocket('ws://svc-members/cluster', options)
  const code = new Promise<number>((resolve) => { ws.on('close', (it) => { resolve(it) }) })
  ws.on('error', () => {})
  t.teardown(() => { ws.terminate() })
  await new Promise<void>((resolve) => {
    ws.once('open', () => { resolve() }).once('close', () => { resolve() })
  })
  return { ws, code }
}

export function helloFrame (
  node: TestNode, installId: string, change: Partial<Hello> = {}, serial = 1
): Uint8Array {
  const { clusterId } = node.members.current()
  const hello = { ...node.hello, clusterId, installId, nodeId: 'raw', ...change }
  return encodeFrame('hello', { hello, serial, alone: true })
}
