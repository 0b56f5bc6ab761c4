import { randomInt } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join as joinPath } from 'node:path'
import { kernelError } from '../api/errors.js'
import { BootError } from '../api/errors.js'
import { ClusterCore } from './cluster.js'
import { clusterTiming } from './election/timing.js'
import { Gossip } from './gossip.js'
import { addressesOf, EVERYWHERE, isOutside, mayOpen, readAddress } from './identity/addresses.js'
import { readJoinToken } from './identity/join-token.js'
import { openJoinTokens } from './identity/join-tokens.js'
import { join } from './identity/join.js'
import { openNodeKey } from './identity/key.js'
import { Bandwidth } from './links/bandwidth.js'
import { createDiscovery } from './links/discovery.js'
import { closeCodes } from './links/frames.js'
import { Links } from './links/links.js'
import { openMembers } from './members/file.js'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '../api/clock.js'
import type { Logger, NodeInfo } from '../api/plugin.js'
import type { KernelConfig } from '../config/kernel-keys.js'
import type { Vitals } from '../machine/vitals.js'
import type { Bound } from './identity/addresses.js'
import type { JoinTokens } from './identity/join-tokens.js'
import type { NodeKey } from './identity/key.js'
import type { Peer } from './links/link.js'
import type { Members } from './members/file.js'
import type { Applicant } from './members/member.js'
import type { Network } from './routes.js'

export interface NodeLinksOptions {
  node: NodeInfo
  settings: KernelConfig['cluster']
  /** Where the API is going to listen. */
  api: { host: string, port: number }
  /** The API as other machines reach it; null before it listens. */
  apiUrl: () => string | null
  /** `--join`: a token, or host:port of a member. */
  join: string | undefined
  /** Whether what a caller made still counts. */
  stands: (callerId: string) => boolean
  gossip: boolean
  vitals: () => Promise<Vitals>
  clock: Clock
  log: Logger
  emit: (kind: string, payload: Record<string, unknown>) => void
}

/** A node's place among the others: its links, and the cluster over them. */
export interface NodeLinks {
  readonly cluster: ClusterCore
  readonly gossip: Gossip
  readonly network: Network
  /** The API listens: looks for the others. Requests that members pass on go to `handler`. */
  start (handler: (request: IncomingMessage, response: ServerResponse) => void): void
  stop (): Promise<void>
}

interface Opened {
  options: NodeLinksOptions
  key: NodeKey
  members: Members
  joinTokens: JoinTokens
  self: () => Applicant
  bound: Bound
}

type Handler = Parameters<NodeLinks['start']>[0]

/** What the links call; filled in step by step, since each part needs the one before. */
interface Ends { cluster?: ClusterCore, gossip?: Gossip, measuring?: Bandwidth, handler?: Handler }

/**
 * Listens for members and joins where that was asked for. A node that is alone is its own master when this
 * resolves; others elect after `start`. Throws HomeError, BootError (quorum), what listening throws,
 * `join_refused` and `unreachable`.
 */
export async function openNodeLinks (options: NodeLinksOptions): Promise<NodeLinks> {
  const { node, settings, api, clock } = options
  const key = await openNodeKey(node.home, node.installId)
  const bound = { host: settings.host ?? api.host, port: 0 }
  const self = (): Applicant => ({
    installId: node.installId,
    fingerprint: key.fingerprint,
    name: node.name,
    addresses: addressesOf(bound, settings.advertise)
  })
  const members = openMembers({ home: node.home, self: self(), now: clock.now })
  const joinTokens = openJoinTokens({ home: node.home, now: clock.now, stands: options.stands })
  const opened: Opened = { options, key, members, joinTokens, self, bound }
  if (mayOpen(bound, settings.host) && awaited(opened)) bound.host = EVERYWHERE
  const ends: Ends = {}
  const links = openLinks(opened, ends)
  try {
    const port = settings.port ?? (api.port === 0 ? 0 : api.port + 1)
    Object.assign(bound, await links.listen({ host: bound.host, port }))
    return await enter(opened, links, ends)
  } catch (error) {
    await links.close()
    throw error
  }
}

/** Joins if asked to, then makes the cluster over the links. */
async function enter (opened: Opened, links: Links, ends: Ends): Promise<NodeLinks> {
  const { options, members } = opened
  const { clock, log, settings } = options
  const joining = await joinBy(opened, links)
  const cluster = ends.cluster = openCluster(opened, links, joining)
  const gossip = ends.gossip = new Gossip({
    clock, log, enabled: options.gossip, sample: options.vitals, periodMs: settings.heartbeat_ms,
    publish: (body) => ({ peers: links.broadcast('telemetry', body), bytes: JSON.stringify(body).length })
  })
  const measuring = ends.measuring = new Bandwidth({
    self: options.node.installId, clock, random: randomShare,
    request: async (to, request) => await links.request(to, request)
  })
  // Links that opened before the cluster existed.
  for (const peer of links.peers()) meet(ends, peer)
  const alone = !joining && members.current().members.length <= 1
  if (alone) cluster.start()
  const network = networkOf(opened, links, ends, measuring)
  const letOthersIn = (): void => {
    if (!awaited(opened)) return
    openOutside(opened, links, ends).catch((err: unknown) => {
      log.error({ err }, 'members on other machines do not reach this node')
    })
  }
  letOthersIn()
  const stopWatching = members.onChange(letOthersIn)
  let discovery: { stop (): Promise<void> } | undefined
  return {
    cluster,
    gossip,
    network,
    start (handler) {
      ends.handler = handler
      if (!alone) cluster.start()
      links.start()
      for (const address of settings.peers) links.hint(address)
      gossip.start()
      if (settings.discovery) discovery = lookAround(opened, links)
    },
    async stop () {
      stopWatching()
      cluster.resign()
      gossip.close()
      measuring.close()
      await discovery?.stop()
      await links.close()
      cluster.stop()
    }
  }
}

const awaited = ({ members, joinTokens, options: { node: { installId }, join } }: Opened): boolean =>
  awaitsOthers({ members, joinTokens, installId, join })

/**
 * Has the members' listener on every address from now on, where svc.yaml does not say where it is to be. The
 * others are told before this resolves, since a new member goes by what they know. Throws `loopback_only`.
 */
async function openOutside ({ options, bound }: Opened, links: Links, ends: Ends): Promise<void> {
  const { settings, log } = options
  if (!mayOpen(bound, settings.host)) return
  const { host, port } = bound
  bound.host = EVERYWHERE
  try {
    await links.listen({ host: EVERYWHERE, port })
  } catch (error) {
    bound.host = host
    throw kernelError('loopback_only', `This node listens for members on ${host}:${port} only, and cannot ` +
      `listen on ${EVERYWHERE}:${port}: ${(error as Error).message}.`, { addresses: [`${host}:${port}`] })
  }
  log.info({ host: EVERYWHERE, port }, 'members are listened for on every address, for other machines')
  await ends.cluster?.moved()
}

function openLinks (opened: Opened, ends: Ends): Links {
  const { options: { node, clock, log, apiUrl }, key, members, joinTokens, self } = opened
  const links: Links = new Links({
    key, members, joinTokens, clock, log,
    random: randomShare,
    hello: () => ({
      installId: node.installId,
      nodeId: node.nodeId,
      name: node.name,
      version: node.version,
      clusterId: members.current().clusterId,
      apiUrl: apiUrl(),
      address: self().addresses[0] ?? null
    }),
    events: {
      up (peer) { meet(ends, peer) },
      down (installId, reason) {
        ends.gossip?.forget(installId)
        ends.measuring?.down(installId)
        ends.cluster?.down(installId, reason)
      },
      frame (from, kind, body) {
        if (kind === 'telemetry') {
          ends.cluster?.heard(from)
          ends.gossip?.receive(from, body)
        } else if (ends.cluster?.frame(from, kind, body) === false) {
          links.drop(from, closeCodes.off_protocol, 'off_protocol')
        }
      },
      violation (installId, reason) { ends.cluster?.violation(installId, reason) }
    },
    api (request, response) {
      if (ends.handler === undefined) response.writeHead(503).end()
      else ends.handler(request, response)
    },
    mayAdmit: () => { mayAdmit(ends.cluster) },
    admit: async (candidate) => await ends.cluster!.membership.admit(candidate)
  })
  return links
}

/** Throws `no_master` or `no_quorum` while the cluster cannot decide. */
function mayAdmit (cluster: ClusterCore | undefined): void {
  const status = cluster?.status()
  if (status?.quorum === 'lost') throw kernelError('no_quorum')
  if (status === undefined || status.stale) throw kernelError('no_master')
}

/** A peer of the links as the cluster and `/state` know it. */
function asNode ({ hello: { name, apiUrl, version }, ...peer }: Peer): ReturnType<Network['peers']>[number] {
  return { ...peer, name, apiUrl, version }
}

function meet ({ cluster, measuring }: Ends, peer: Peer): void {
  cluster?.up(asNode(peer))
  measuring?.up(peer.installId)
}

/** Throws BootError for a quorum or times that cannot work. */
function openCluster (opened: Opened, links: Links, joining: boolean): ClusterCore {
  try {
    return clusterOver(opened, links, joining)
  } catch (error) {
    throw error instanceof RangeError ? new BootError([error.message]) : error
  }
}

function clusterOver (opened: Opened, links: Links, joining: boolean): ClusterCore {
  const { options: { node, clock, log, settings, apiUrl, emit }, members, self } = opened
  return new ClusterCore({
    node, clock, log, members, joining, self, apiUrl, emit,
    random: randomShare,
    quorum: settings.quorum as 1,
    timing: clusterTiming(settings),
    folder: joinPath(node.home, 'state'),
    transport: {
      send: (to, kind, body) => links.send(to, kind, body),
      broadcast: (kind, body) => links.broadcast(kind, body),
      peers: () => links.peers().map(asNode),
      request: async (to, request) => await links.request(to, request),
      drop: (id) => { links.drop(id, closeCodes.not_member, 'not_member') }
    }
  })
}

function networkOf (opened: Opened, links: Links, ends: Ends, measuring: Bandwidth): Network {
  const { members, joinTokens, key, self, bound } = opened
  return {
    members,
    peers: () => links.peers().map(asNode),
    dials: () => links.dials(),
    links: () => links.peers().map(({ installId, framesIn, framesOut, bytesIn, bytesOut, buffered }) =>
      ({ installId, framesIn, framesOut, bytesIn, bytesOut, buffered })),
    addresses: () => bound.port === 0 ? [] : self().addresses,
    joinTokens,
    openOutside: async () => { await openOutside(opened, links, ends) },
    invite: (ttlSeconds, by) => joinTokens.create({
      ttlSeconds,
      by,
      clusterId: members.current().clusterId,
      fingerprint: key.fingerprint,
      seeds: self().addresses
    }),
    bytesPerSecond: (installId) => measuring.bytesPerSecond(installId)
  }
}

function lookAround (
  { options: { node, log }, members, bound }: Opened, links: Links
): { stop (): Promise<void> } {
  return createDiscovery({
    port: bound.port, installId: node.installId, clusterHash: members.current().clusterId, log,
    found: (address) => { links.hint(address) }
  })
}

/** True when this home has joined just now. A home that is a member already starts as it is. */
async function joinBy ({ options, key, members, self }: Opened, links: Links): Promise<boolean> {
  if (options.join === undefined) return false
  if (readAddress(options.join) !== undefined) {
    if (members.current().members.length <= 1) {
      throw kernelError('join_refused', `This home belongs to no cluster yet, so ${options.join} would not ` +
        'know it: run `svc join-token` on a member and start with --join TOKEN.', { why: 'no_member' })
    }
    links.hint(options.join)
    return false
  }
  // The same line may stand in a unit file: it is no error at the second start, when its time is over.
  if (members.current().clusterId === readJoinToken(options.join, 0).clusterId) return false
  const ticket = readJoinToken(options.join, options.clock.now())
  const membership = await join({ key, self: self(), ticket, clock: options.clock })
  // What this home decided alone, and whom it voted for, means nothing in its new cluster.
  for (const file of ['control.json', 'promise.json']) {
    rmSync(joinPath(options.node.home, 'state', file), { force: true })
  }
  members.replace(membership)
  return true
}

/** 0 (inclusive) to 1, from the system's generator. */
function randomShare (): number { return randomInt(2 ** 32) / 2 ** 32 }

export interface Awaited {
  members: Pick<Members, 'current'>
  joinTokens: Pick<JoinTokens, 'awaitsOthers'>
  installId: string
  /** `--join`: a token, or host:port of a member. */
  join: string | undefined
}

/**
 * Whether another machine has to reach the members' listener: a member is there, an open join token invites
 * one, or this node joins one. Throws `invalid_request` for what is no join token.
 */
export function awaitsOthers ({ members, joinTokens, installId, join }: Awaited): boolean {
  const seedsOf = (text: string): readonly string[] =>
    readAddress(text) === undefined ? readJoinToken(text, 0).seeds : [text]
  const joins = join !== undefined && seedsOf(join).some(isOutside)
  return joins || joinTokens.awaitsOthers || members.current().members.some((member) =>
    member.installId !== installId && member.addresses.some(isOutside))
}
