import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import {
  deadline, delay, errorBody, errorHeaders, kernelError, kernelErrors, toSvcError, unsafe, type Audit,
  type Change, type Clock, type KernelReason, type Logger, type NodeKey, type SvcError
} from '../../../kernel/cluster.js'
import { readAddress } from './addresses.js'
import {
  joinBinding, proofOf, readJoinRequest, type JoinRequest, type JoinTicket, type JoinTokens, type Maker
} from './join-tokens.js'
import { mapShapeError } from '../wire.js'
import { readMemberList, type Applicant, type MemberList } from '../members/member.js'
import { dial, peerFingerprint, type DialError } from './tls.js'
import type { TLSSocket } from 'node:tls'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { LinkLimits } from '../links/limits.js'
import type { Members } from '../members/file.js'

export const JOIN_PATH = '/join'
const DIAL_MS = 5_000
/** Time limit in ms for the inviter's answer, since the inviter may need to wait for an election. */
const ANSWER_MS = 30_000
const MAX_ANSWER_BYTES = 1024 * 1024
const MAX_MESSAGE_CHARS = 500

export interface JoinOptions {
  key: NodeKey, self: Applicant, ticket: JoinTicket, clock: Clock
  /** Time limit in ms for retries while the cluster has no master; default one minute. */
  patienceMs?: number
}

interface Answer { status: number, body: unknown }

/** Makes text from another node safe for a terminal. */
const cleaned = (text: string): string => text.replace(unsafe, ' ').slice(0, MAX_MESSAGE_CHARS)

async function readBody (response: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of response as AsyncIterable<Buffer>) {
    size += part.byteLength
    if (size > MAX_ANSWER_BYTES) throw new Error(`the response is longer than ${MAX_ANSWER_BYTES} bytes`)
    parts.push(part)
  }
  return JSON.parse(Buffer.concat(parts).toString())
}

async function post (socket: TLSSocket, body: JoinRequest, clock: Clock): Promise<Answer> {
  const text = JSON.stringify(body)
  const headers = {
    host: 'svc-members', 'content-type': 'application/json', 'content-length': Buffer.byteLength(text),
    connection: 'close'
  }
  const late = new Error(`no response within ${ANSWER_MS} ms`)
  const { signal, stop } = deadline(clock, ANSWER_MS, () => late)
  const call = request({ createConnection: () => socket, method: 'POST', path: JOIN_PATH, headers, signal })
  // The connection may break again while or after the response is read.
  call.on('error', () => {}).end(text)
  try {
    const [response] = await once(call, 'response') as [IncomingMessage]
    return { status: response.statusCode ?? 0, body: await readBody(response) }
  } catch (error) {
    throw signal.aborted ? late : error
  } finally {
    stop()
    call.destroy()
  }
}

const isReason = (reason: unknown): reason is KernelReason =>
  typeof reason === 'string' && Object.hasOwn(kernelErrors, reason)

interface ErrorFields { reason?: unknown, message?: unknown, details?: { why?: unknown } | null }

function refusal (seed: string, { status, body }: Answer): SvcError {
  const { error } = (body ?? {}) as { error?: ErrorFields | null }
  const text = typeof error?.message === 'string' ? cleaned(error.message) : `status ${status}`
  const why = error?.details?.why
  const details = typeof why === 'string' ? { seed, why: cleaned(why) } : { seed, why: `status_${status}` }
  return kernelError(isReason(error?.reason) ? error.reason : 'join_refused', `${seed}: ${text}`, details)
}

/** Checks that the inviter's answer names the token's cluster and contains both nodes. */
function readAnswer (seed: string, answer: Answer, { self, ticket }: JoinOptions): MemberList {
  const bad = (what: string): SvcError =>
    kernelError('join_refused', `${seed} accepted the token but sent an invalid response: ${what}`, {
      seed, why: 'bad_answer'
    })
  const found = mapShapeError(() => readMemberList(answer.body), ({ message }) => bad(message))
  if (found.clusterId !== ticket.clusterId) {
    throw bad(`its cluster is ${found.clusterId}, the token is for ${ticket.clusterId}`)
  }
  const has = (fingerprint: string): boolean => found.members.some((m) => m.fingerprint === fingerprint)
  if (!has(self.fingerprint)) throw bad('this node is not among the members')
  if (!has(ticket.fingerprint)) throw bad('the inviter is not among the members')
  return found
}

interface Failure { seed: string, code: string, message: string }

function unreachable (failures: readonly Failure[]): SvcError {
  const lines = failures.map(({ message }) => message).join('; ')
  return kernelError('unreachable', `no address of the join token is reachable: ${lines}`, {
    seeds: failures,
    remedy: 'Check the network and the firewall between the nodes, then retry with the same token.'
  })
}

async function ask (seed: string, socket: TLSSocket, options: JoinOptions): Promise<MemberList> {
  const { key, self, ticket, clock } = options
  const fingerprints = { inviter: ticket.fingerprint, joiner: key.fingerprint }
  const proof = proofOf(ticket.secret, joinBinding(socket), fingerprints)
  let answer: Answer
  try {
    answer = await post(socket, { token_id: ticket.id, proof, member: self }, clock)
  } catch (error) {
    const { message } = error as Error
    throw kernelError('unreachable', `${seed} did not respond (${message}): the token was used or has ` +
      'expired there, or the connection broke; create a new one with `svc join-token` and join again', {
      seeds: [{ seed, code: NO_ANSWER, message }],
      remedy: 'The token may have been used: create a new one with `svc join-token` and join again.'
    })
  } finally { socket.destroy() }
  if (answer.status < 200 || answer.status > 299) throw refusal(seed, answer)
  return readAnswer(seed, answer, options)
}

/**
 * Joins a cluster by a token: dials its addresses in order, checks the inviter's key first, proves the
 * secret, and returns the membership with this node in it. Throws SvcError: join_refused (details.why), the
 * inviter's other refusals, unreachable (details.seeds: each with code and message).
 */
export async function join (options: JoinOptions): Promise<MemberList> {
  const { clock, patienceMs = ELECTION_MS } = options
  const deadline = clock.mono() + patienceMs
  let repeats = BROKEN_REPEATS
  for (;;) {
    try {
      return await joinOnce(options)
    } catch (error) {
      const again = WAITING.has((error as SvcError).reason) || (brokeOff(error as SvcError) && repeats-- > 0)
      if (!again || clock.mono() >= deadline) throw error
      await delay(clock, AGAIN_MS)
    }
  }
}

/** Time limit in ms for retries without a quorum, which may need nodes that are still starting. */
const ELECTION_MS = 60_000
const AGAIN_MS = 1000
/** Maximum retries if the connection breaks before the answer; the token stays valid for the same key. */
const BROKEN_REPEATS = 2
const NO_ANSWER = 'no_answer'
const WAITING: ReadonlySet<string> = new Set(['no_master', 'no_quorum', 'session_changed'])

const brokeOff = ({ details }: SvcError): boolean =>
  (details['seeds'] as Failure[] | undefined)?.some(({ code }) => code === NO_ANSWER) === true

async function joinOnce (options: JoinOptions): Promise<MemberList> {
  const { key, ticket, clock } = options
  const failures: Failure[] = []
  for (const seed of ticket.seeds) {
    const address = readAddress(seed)
    if (address === undefined) throw new TypeError(`"${seed}" is not host:port`)
    let socket: TLSSocket
    try {
      socket = await dial({ key, ...address, expect: ticket.fingerprint, timeoutMs: DIAL_MS, clock })
    } catch (error) {
      const { code, message } = error as DialError
      failures.push({ seed, code, message })
      continue
    }
    return await ask(seed, socket, options)
  }
  throw unreachable(failures)
}

export interface JoinRouteOptions {
  members: Members, joinTokens: JoinTokens, limits: LinkLimits, log: Logger
  /** Throws, e.g. `no_master`, while admission is impossible; called before a token is used. */
  mayAdmit?: () => void
  /** Called after the proof is verified: adds the member and returns the membership. */
  admit: (member: Applicant, maker: Maker) => Promise<MemberList>
  /** Called when a connection has proven that it holds a valid token. */
  tokenShown?: (socket: TLSSocket) => void
  audit?: (() => Audit | undefined) | undefined
}

/** Adds POST /join, the only request that a non-member's key may send, and only while a token is open. */
export function addJoinRoute (app: FastifyInstance, options: JoinRouteOptions): void {
  app.post(JOIN_PATH, { bodyLimit: options.limits.joinBodyBytes }, async (request, reply) => {
    try {
      return await admitted(request.raw.socket as TLSSocket, request.body, options)
    } catch (error) {
      answer(reply, error, options.log)
      auditRefused(request.raw.socket as TLSSocket, error, options)
      return reply
    }
  })
  app.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) => {
    const large = error.statusCode === 413
    answer(reply, large
      ? kernelError('payload_too_large', `The body is larger than ${options.limits.joinBodyBytes} bytes.`)
      : kernelError('invalid_request', 'The body is not valid JSON.'), options.log)
  })
}

async function admitted (socket: TLSSocket, body: unknown, options: JoinRouteOptions): Promise<MemberList> {
  const { members, joinTokens, admit } = options
  const { token_id: tokenId, proof, member } = readJoinRequest(body)
  const fingerprint = peerFingerprint(socket)
  if (fingerprint === undefined || members.isRemoved(fingerprint)) {
    throw kernelError('join_refused', 'This node was removed from the cluster, and its key stays ' +
      'refused. Move its home aside (mv HOME HOME.removed) and start it again with a new token of ' +
      '`svc join-token`: it joins as a new node.', { why: 'removed' })
  }
  if (member.fingerprint !== fingerprint) {
    throw kernelError('invalid_request', 'member.fingerprint is not the key of this connection.',
      { param: 'member.fingerprint' })
  }
  const holder = members.find(member.installId)
  if (holder !== undefined && holder.fingerprint !== fingerprint) {
    throw kernelError('join_refused', `The install id ${member.installId} belongs to another member; ` +
      'run: svc members remove on a member first, if that one is gone.', { why: 'taken' })
  }
  // This is a retry of a joiner that did not receive the answer.
  if (members.byFingerprint(fingerprint)?.installId === member.installId) return members.current()
  // Check whether admission is possible before using up the token.
  options.mayAdmit?.()
  const { by, authorities, reopen } = joinTokens.redeem({
    tokenId, proof, binding: joinBinding(socket), joinerFingerprint: fingerprint
  })
  options.tokenShown?.(socket)
  const change = changeOf(member.installId, socket, { member, token: tokenId, by })
  try {
    return await recorded(options.audit?.(), change, async () => await admit(member, { by, authorities }))
  } catch (error) {
    // The joiner retries, so reopen the token. The quorum may be missing only because a node that has just
    // joined counts for the majority and is still starting.
    if (toSvcError(error).retryable) reopen()
    throw error
  }
}

/** The audit entry of a join; `who` is the joining node, or `anonymous` if it has no valid token. */
function changeOf (who: string, socket: TLSSocket, detail: Record<string, unknown>): Change {
  const from = socket.remoteAddress ?? ''
  return { who, how: 'direct', what: `POST ${JOIN_PATH}`, detail: { from, ...detail } }
}

/** Makes a change and audits its start and end. Throws errors from the change and from the audit. */
async function recorded<T> (audit: Audit | undefined, change: Change, make: () => Promise<T>): Promise<T> {
  const end = await audit?.begin(change)
  try {
    const result = await make()
    await end?.({ status: 200, reason: null, detail: {} })
    return result
  } catch (error) {
    const { status, reason } = toSvcError(error)
    await end?.({ status, reason, detail: {} })
    throw error
  }
}

function auditRefused (socket: TLSSocket, error: unknown, { audit }: JoinRouteOptions): void {
  const { status, reason, details: { why } } = toSvcError(error)
  if (reason !== 'join_refused') return
  const fingerprint = peerFingerprint(socket) ?? null
  audit?.()?.refused(changeOf('anonymous', socket, { fingerprint, why }), { status, reason, detail: {} })
}

function answer (reply: FastifyReply, error: unknown, log: Logger): void {
  const known = toSvcError(error)
  if (known.reason === 'internal') log.error({ err: error }, 'a node could not be admitted')
  else log.warn({ reason: known.reason, why: known.details['why'] }, 'a node was not admitted')
  void reply.code(known.status).headers(errorHeaders(known)).send(errorBody(known, randomUUID()))
}
