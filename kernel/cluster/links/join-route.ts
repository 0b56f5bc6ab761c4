import { randomUUID } from 'node:crypto'
import { kernelError, toSvcError } from '../../api/errors.js'
import { errorBody, errorHeaders } from '../../http/error-body.js'
import { joinBinding, readJoinRequest } from '../identity/join-tokens.js'
import { peerFingerprint } from '../identity/tls.js'
import type { TLSSocket } from 'node:tls'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Logger } from '../../api/plugin.js'
import type { JoinTokens } from '../identity/join-tokens.js'
import type { Members } from '../members/file.js'
import type { Applicant, MemberList } from '../members/member.js'
import type { LinkLimits } from './limits.js'

export interface JoinRouteOptions {
  members: Members
  joinTokens: JoinTokens
  limits: LinkLimits
  log: Logger
  /** Throws when nobody can be admitted just now, e.g. `no_master`; asked before a token is used up. */
  mayAdmit?: () => void
  /** After token and proof of POST /join were found right: adds the member, answers the membership. */
  admit: (member: Applicant) => Promise<MemberList>
}

export const JOIN_PATH = '/join'

/** POST /join: the one thing a key may do that is no member's yet, and that only with an open token. */
export function addJoinRoute (app: FastifyInstance, options: JoinRouteOptions): void {
  app.post(JOIN_PATH, { bodyLimit: options.limits.joinBodyBytes }, async (request, reply) => {
    try {
      return await admitted(request.raw.socket as TLSSocket, request.body, options)
    } catch (error) {
      answer(reply, error, options.log)
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
    throw kernelError('join_refused', 'This key was removed from the cluster.', { why: 'removed' })
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
  // Before the token is used up for nothing.
  options.mayAdmit?.()
  const reopen = joinTokens.redeem({
    tokenId, proof, binding: joinBinding(socket), joinerFingerprint: fingerprint
  })
  try {
    return await admit(member)
  } catch (error) {
    // The node asks again, which a used token would not let it: another one that joined a moment before may
    // count for the majority already and be slow to start.
    if (toSvcError(error).retryable) reopen()
    throw error
  }
}

function answer (reply: FastifyReply, error: unknown, log: Logger): void {
  const known = toSvcError(error)
  if (known.reason === 'internal') log.error({ err: error }, 'a node could not be admitted')
  else log.warn({ reason: known.reason, why: known.details['why'] }, 'a node was not let in')
  void reply.code(known.status).headers(errorHeaders(known)).send(errorBody(known, randomUUID()))
}
