import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '../../api/clock.js'
import type { Logger } from '../../api/plugin.js'
import type { DialReport, MemberRequest, MemberResponse } from '../../api/services.js'
import type { JoinTokens, Member, Members, Membership, NodeKey } from '../identity/index.js'

export type { MemberRequest, MemberResponse } from '../../api/services.js'

/** How a node introduces itself, the first frame of every link. */
export interface Hello {
  readonly installId: string
  readonly nodeId: string
  readonly name: string
  readonly version: string
  readonly clusterId: string
  readonly apiUrl: string | null
  /** Its own members' listener as advertised, host:port. */
  readonly address: string | null
}

/** A member that a link is up to; a picture of the moment it was asked for. */
export interface Peer {
  readonly installId: string
  readonly nodeId: string
  readonly hello: Hello
  /** The other end, ip:port. */
  readonly address: string
  /** This node dialled. */
  readonly outgoing: boolean
  /** Of the newest answered ping, in milliseconds. */
  readonly rttMs: number | null
  /** When the connection opened, by the monotonic clock. */
  readonly since: number
  bytesIn: number
  bytesOut: number
  framesIn: number
  framesOut: number
  /** Bytes that wait to be sent. */
  buffered: number
}

/** An address and how dialling it goes. */
export type Dial = DialReport

export type FrameKind = 'election' | 'document' | 'telemetry' | 'channel'

export interface LinkEvents {
  /** The first link to a member is up: both hellos were exchanged. */
  up (peer: Peer): void
  /** The last link to a member is gone. */
  down (installId: string, reason: string): void
  frame (installId: string, kind: FrameKind, body: unknown): void
  /** A member broke the protocol; `reason` is the name of the close code. Told once in a back-off. */
  violation (installId: string, reason: string): void
}

export interface Links {
  /**
   * Opens the members' listener, or moves it. Rejects as node does (EADDRINUSE, EADDRNOTAVAIL, EACCES); one
   * that was open is then where it was.
   */
  listen (options: { host: string, port: number }): Promise<{ host: string, port: number }>
  /** Begins dialling. */
  start (): void
  /**
   * False: no link, the frame is larger than the limit, or too much waits already. Documents and channels
   * wait for the other end's credit, all else passes them; more than the socket may hold closes the link
   * (4429).
   */
  send (to: string, kind: FrameKind, body: unknown): boolean
  /** Encodes once; the number of peers it went to. */
  broadcast (kind: FrameKind, body: unknown): number
  peers (): readonly Peer[]
  peer (installId: string): Peer | undefined
  dials (): readonly Dial[]
  /** An address (host:port) to try; any member's key is accepted there. Ignored when it is not an address. */
  hint (address: string): void
  /** Ends the link to a member and every request to and from it. */
  drop (installId: string, code: number, reason: string): void
  /**
   * One HTTP request to a member. Throws SvcError `unreachable` (no address answers, the connection broke),
   * `timeout` (no response head in time), `cancelled` (by `signal`).
   */
  request (installId: string, request: MemberRequest): Promise<MemberResponse>
  close (): Promise<void>
}

/** Sizes in bytes, times in milliseconds. */
export interface LinkLimits {
  /** Largest frame. */
  frameBytes: number
  /** Documents and channels that may wait for credit together; channels get half of it. */
  bulkBufferedBytes: number
  /** Bytes in the socket's own buffer that close a link. */
  bufferedBytes: number
  /** Documents and channels on their way that the other end has not given credit for. */
  windowBytes: number
  /** How much of documents and channels one peer gets credit for; beyond it, it waits. */
  bytesPerSecond: number
  burstBytes: number
  framesPerSecond: number
  burstFrames: number
  /** For the WebSocket handshake and both hellos together. */
  helloMs: number
  /** For TCP and TLS to one address. */
  dialMs: number
  /** Between pings; a link on which nothing comes while three were sent is closed. */
  pingMs: number
  backoffMinMs: number
  backoffMaxMs: number
  /** Back-off before a member that broke the protocol is linked again: the first, and the longest. */
  violationMinMs: number
  violationMaxMs: number
  /** How long a closed link may take to say so before it is cut. */
  closeMs: number
  /** Connections of keys that are no members', at once, while a join token is open. */
  strangers: number
  /** How long such a connection may live. */
  strangerMs: number
  joinBodyBytes: number
  connections: number
  /** Default of MemberRequest.timeoutMs. */
  requestHeadMs: number
  /** Connections for requests to one member. */
  requestSockets: number
}

export interface LinksOptions {
  key: NodeKey
  members: Members
  joinTokens: JoinTokens
  hello: () => Hello
  clock: Clock
  log: Logger
  /** Uniform in [0, 1). */
  random: () => number
  events: LinkEvents
  /** The API server's handler; gets members' requests for /api/<path> with the url rewritten to /<path>. */
  api: (request: IncomingMessage, response: ServerResponse) => void
  /** Throws when nobody can be admitted just now, e.g. `no_master`; asked before a token is used up. */
  mayAdmit?: () => void
  /** After token and proof of POST /join were found right: adds the member, answers the membership. */
  admit: (member: Omit<Member, 'joinedAt'>) => Promise<Membership>
  limits?: Partial<LinkLimits>
}
