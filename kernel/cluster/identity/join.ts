import { request } from 'node:http'
import { delay } from '../../api/clock.js'
import { kernelError, kernelErrors } from '../../api/errors.js'
import { readAddress } from './addresses.js'
import { joinBinding, proofOf } from './join-tokens.js'
import { shaped } from '../wire.js'
import { readMemberList } from '../members/member.js'
import { dial } from './tls.js'
import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { Clock } from '../../api/clock.js'
import type { KernelReason, SvcError } from '../../api/errors.js'
import type { DialError } from './tls.js'
import type { Applicant, MemberList } from '../members/member.js'
import type { JoinRequest, JoinTicket } from './join-tokens.js'
import type { NodeKey } from './key.js'

const DIAL_MS = 5_000
/** The inviter answers when the whole cluster knows the new member, which may take an election. */
const ANSWER_MS = 30_000
const MAX_ANSWER_BYTES = 1024 * 1024
const MAX_WORDS = 500

export interface JoinOptions {
  key: NodeKey
  self: Applicant
  ticket: JoinTicket
  clock: Clock
  /** How long a cluster that has no master just now is asked again, ms; a minute when left out. */
  patienceMs?: number
}

interface Answer { status: number, body: unknown }

/** Words of another node, fit for a terminal. */
const cleaned = (text: string): string => text.replace(/\p{Cc}/gu, ' ').slice(0, MAX_WORDS)

async function readBody (response: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of response as AsyncIterable<Buffer>) {
    size += part.byteLength
    if (size > MAX_ANSWER_BYTES) throw new Error(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`)
    parts.push(part)
  }
  return JSON.parse(Buffer.concat(parts).toString())
}

/** One POST /join over an open socket, which is then closed. */
function post (socket: TLSSocket, body: JoinRequest, clock: Clock): Promise<Answer> {
  const text = JSON.stringify(body)
  const headers = {
    host: 'svc-members',
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    connection: 'close'
  }
  return new Promise<Answer>((resolve, reject) => {
    const call = request({ createConnection: () => socket, method: 'POST', path: '/join', headers })
    const stopTimer = clock.after(ANSWER_MS, () => {
      call.destroy(new Error(`no answer within ${ANSWER_MS} ms`))
    })
    const settle = (act: () => void): void => {
      stopTimer()
      act()
      call.destroy()
    }
    call.on('error', (error) => { settle(() => { reject(error) }) })
    call.on('response', (response) => {
      readBody(response).then(
        (answer) => { settle(() => { resolve({ status: response.statusCode ?? 0, body: answer }) }) },
        (error: unknown) => { settle(() => { reject(error) }) })
    })
    call.end(text)
  })
}

const isReason = (reason: unknown): reason is KernelReason =>
  typeof reason === 'string' && Object.hasOwn(kernelErrors, reason)

/** What an error body has of use here. */
interface ErrorFields { reason?: unknown, message?: unknown, details?: { why?: unknown } | null }

/** The inviter's error body as an error of ours. */
function refusal (seed: string, { status, body }: Answer): SvcError {
  const { error } = (body ?? {}) as { error?: ErrorFields | null }
  const words = typeof error?.message === 'string' ? cleaned(error.message) : `status ${status}`
  const why = error?.details?.why
  const details = typeof why === 'string' ? { seed, why: cleaned(why) } : { seed, why: `status_${status}` }
  return kernelError(isReason(error?.reason) ? error.reason : 'join_refused', `${seed}: ${words}`, details)
}

/** Checks what the inviter answered: the cluster of the token, with both of us in it. */
function readAnswer (seed: string, answer: Answer, { self, ticket }: JoinOptions): MemberList {
  const bad = (what: string): SvcError =>
    kernelError('join_refused', `${seed} took the token and answered nonsense: ${what}`, {
      seed, why: 'bad_answer'
    })
  const found = shaped(() => readMemberList(answer.body), ({ message }) => bad(message))
  if (found.clusterId !== ticket.clusterId) {
    throw bad(`cluster ${found.clusterId}, while the token is for ${ticket.clusterId}`)
  }
  const has = (fingerprint: string): boolean => found.members.some((m) => m.fingerprint === fingerprint)
  if (!has(self.fingerprint)) throw bad('this node is not among the members')
  if (!has(ticket.fingerprint)) throw bad('the inviter is not among the members')
  return found
}

interface Failure { seed: string, code: string, message: string }

function unreachable (failures: readonly Failure[]): SvcError {
  const lines = failures.map(({ message }) => message).join('; ')
  return kernelError('unreachable', `no address of the join token can be used: ${lines}`, {
    seeds: failures, remedy: 'Check the network and the firewall between the nodes, then use the token again.'
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
    throw kernelError('unreachable', `${seed} gave no answer (${message}): the token was used, or its time ` +
      'is over there, or the connection broke; make a new one with `svc join-token` and join again', {
      seeds: [{ seed, code: 'no_answer', message }],
      remedy: 'The token may be used up: make a new one with `svc join-token` and join again.'
    })
  } finally {
    socket.destroy()
  }
  if (answer.status < 200 || answer.status > 299) throw refusal(seed, answer)
  return readAnswer(seed, answer, options)
}

/**
 * Joins the cluster of a token: dials its addresses in order, checks the inviter's key before anything is
 * sent, proves to know the secret, and returns the membership with this node in it. Throws SvcError:
 * join_refused (details.why) or what else the inviter answered, unreachable (details.seeds: each with code
 * and message).
 */
export async function join (options: JoinOptions): Promise<MemberList> {
  const { clock, patienceMs = ELECTION_MS } = options
  const deadline = clock.mono() + patienceMs
  for (;;) {
    try {
      return await joinOnce(options)
    } catch (error) {
      const waiting = WAITING.has((error as SvcError).reason)
      if (!waiting || clock.mono() >= deadline) throw error
      await delay(clock, AGAIN_MS)
    }
  }
}

/**
 * A cluster that cannot decide just now is asked again for so long, ms. The token is not used up by that.
 * Where a majority decides, each node that joined a moment before has to start first.
 */
const ELECTION_MS = 60_000
const AGAIN_MS = 1000
const WAITING: ReadonlySet<string> = new Set(['no_master', 'no_quorum', 'session_changed'])

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
