import { createServer } from 'node:https'
import { createServer as createTcpServer } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import {
  joinBinding, JoinTokens, readJoinRequest, readJoinToken, type JoinRequest, type JoinTicket
} from '../identity/join-tokens.js'
import { join, type JoinOptions } from '../identity/join.js'
import { dial, peerFingerprint, serverTls } from '../identity/tls.js'
import { openMembers, type Members } from '../members/file.js'
import { systemClock } from '../../../kernel/api/clock.js'
import { errorBody } from '../../../kernel/http/error-body.js'
import { kernelError, SvcError } from '../../../kernel/api/errors.js'
import { manualClock } from '../../../kernel/testing/manual-clock.js'
import { candidate, listening, tempHome, tempKey, type Owner } from './identity-kit.js'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { NodeKey } from '../../../kernel/boot/node-key.js'
import type { MemberList } from '../members/member.js'

const AT = '2026-05-01T00:00:00.000Z'
const now = (): number => systemClock.now()

interface Inviter {
  key: NodeKey
  port: number
  members: Members
  tokens: JoinTokens
  requests: JoinRequest[]
  /** The data of a join token for this inviter; the given seeds come before its own address. */
  ticket: (...seeds: string[]) => JoinTicket
}

type Reply = (request: IncomingMessage, response: ServerResponse, inviter: Inviter) => void | Promise<void>

const honest: Reply = async (request, response, { members, tokens, requests }) => {
  const socket = request.socket as TLSSocket
  const asked = readJoinRequest(JSON.parse(await text(request)))
  requests.push(asked)
  const joinerFingerprint = peerFingerprint(socket)
  if (joinerFingerprint === undefined) throw new Error('a joiner without a key')
  const binding = joinBinding(socket)
  tokens.redeem({ tokenId: asked.token_id, proof: asked.proof, binding, joinerFingerprint })
  const { members: list, ...rest } = members.current()
  members.replace({ ...rest, members: [...list, { ...asked.member, joinedAt: AT }] })
  response.end(JSON.stringify(members.current()))
}

async function inviting (t: Owner, reply: Reply = honest): Promise<Inviter> {
  const key = await tempKey(t)
  const home = tempHome(t)
  const server = createServer(serverTls(key), (request, response) => {
    Promise.resolve().then(() => reply(request, response, inviter)).catch((error: unknown) => {
      const known = error instanceof SvcError ? error : kernelError('internal')
      response.writeHead(known.status).end(JSON.stringify(errorBody(known, 'r')))
    })
  })
  server.on('tlsClientError', () => {})
  t.teardown(() => { server.closeAllConnections() })
  const port = await listening(t, server)
  const address = `127.0.0.1:${port}`
  const members = openMembers({ home, self: candidate(key, { addresses: [address] }), now })
  const tokens = new JoinTokens({ home, now, stands: () => true })
  const ticket = (...seeds: string[]): JoinTicket => {
    const { clusterId } = members.current()
    const { fingerprint } = key
    return readJoinToken(tokens.create({
      clusterId, seeds: [...seeds, address], fingerprint, ttlSeconds: 900, by: 'operator'
    }).token, now())
  }
  const inviter: Inviter = { key, port, members, tokens, requests: [], ticket }
  return inviter
}

type Joining = Pick<JoinOptions, 'key' | 'ticket'> & Partial<JoinOptions>

const joining = (options: Joining): Promise<MemberList> =>
  join({ clock: systemClock, patienceMs: 0, self: candidate(options.key, { name: 'bob' }), ...options })

async function failing (options: Joining): Promise<SvcError> {
  return await joining(options).then(
    () => { throw new Error('it joined') },
    (error: unknown) => { if (error instanceof SvcError) return error; throw error })
}

t.test('a node joins with a token, once', async (t) => {
  const inviter = await inviting(t)
  const key = await tempKey(t)
  const ticket = inviter.ticket()
  const found = await joining({ key, ticket })
  t.same(found, inviter.members.current())
  t.same(inviter.members.byFingerprint(key.fingerprint), { ...candidate(key, { name: 'bob' }), joinedAt: AT })
  t.notMatch(JSON.stringify(inviter.requests), ticket.secret, 'the secret was not sent')
  t.match(await failing({ key: await tempKey(t), ticket }), {
    reason: 'join_refused', details: { why: 'used', seed: `127.0.0.1:${inviter.port}` },
    message: /^127\.0\.0\.1:\d+: The join token has already been used/
  })
})

t.test('a request that was overheard is worth nothing on another connection', async (t) => {
  const overheard: string[] = []
  const inviter = await inviting(t, async (request, response, self) => {
    if (overheard.length > 0) return await honest(request, response, self)
    overheard.push(await text(request))
    request.socket.destroy()
  })
  const key = await tempKey(t)
  t.match(await failing({ key, ticket: inviter.ticket() }), {
    reason: 'unreachable', details: { seeds: [{ code: 'no_answer' }] }
  })
  const [body] = overheard
  t.type(body, 'string')
  const socket = await dial({
    key,
    host: '127.0.0.1',
    port: inviter.port,
    expect: inviter.key.fingerprint,
    timeoutMs: 20_000,
    clock: systemClock
  })
  socket.write('POST /join HTTP/1.1\r\nhost: x\r\nconnection: close\r\n' +
    `content-length: ${Buffer.byteLength(body!)}\r\n\r\n${body}`)
  const answer = await text(socket)
  t.match(answer, /^HTTP\/1\.1 403 /, 'the very bytes, from the same key')
  t.match(answer, /"reason":"join_refused".*"why":"wrong_proof"/)
  t.equal(inviter.tokens.pending, 1)
  t.equal(inviter.members.byFingerprint(key.fingerprint), undefined)
})

t.test('addresses are tried in order, and no wrong key is told anything', async (t) => {
  const inviter = await inviting(t)
  const other = await inviting(t)
  const closed = createTcpServer()
  const port = await listening(t, closed)
  await new Promise((resolve) => { closed.close(resolve) })
  const [dead, wrong] = [`127.0.0.1:${port}`, `127.0.0.1:${other.port}`]
  const key = await tempKey(t)
  await joining({ key, ticket: inviter.ticket(dead, wrong) })
  t.equal(other.requests.length, 0)
  t.equal(inviter.requests.length, 1)
  const ticket = { ...inviter.ticket(), seeds: [dead, wrong] }
  const error = await failing({ key: await tempKey(t), ticket })
  t.match(error, {
    reason: 'unreachable',
    status: 502,
    details: { seeds: [{ seed: dead, code: 'ECONNREFUSED' }, { seed: wrong, code: 'wrong_key' }] }
  })
  t.match(error.message, /ECONNREFUSED.*; 127\.0\.0\.1 port \d+ has the key /)
  t.equal(other.requests.length, 0)
  t.equal(inviter.tokens.pending, 1, 'the token is still good')
})

interface Bad { title: string, reply: Reply, is: object }

const json = (change: (found: MemberList) => object): Reply => (_, response, { members }) => {
  response.end(JSON.stringify(change(members.current())))
}
const withJoiner: (id: string, key: string) => MemberList['members'][number] = (installId, fingerprint) =>
  ({ installId, fingerprint, name: 'x', addresses: [], joinedAt: AT })

const badAnswers: Bad[] = [
  { title: 'no JSON', reply: (_, response) => { response.end('hello') },
    is: { reason: 'unreachable', details: { seeds: [{ code: 'no_answer' }], remedy: /create a new one/ } } },
  { title: 'a connection cut', reply: (request) => { request.socket.destroy() },
    is: { reason: 'unreachable', message: /did not respond/ } },
  { title: 'more than a megabyte', reply: (_, response) => { response.end(' '.repeat(1024 * 1024 + 1)) },
    is: { reason: 'unreachable', message: /longer than 1048576 bytes/ } },
  { title: 'null', reply: (_, response) => { response.end('null') },
    is: { reason: 'join_refused', details: { why: 'bad_answer' } } },
  { title: 'another cluster', reply: json((found) => ({ ...found, clusterId: 'other' })),
    is: { reason: 'join_refused', message: /its cluster is other, the token is for/ } },
  { title: 'a cluster without the joiner', reply: json((found) => found),
    is: { message: /this node is not among the members/, details: { why: 'bad_answer' } } },
  { title: 'a cluster without the inviter',
    reply: async (request, response, { members }) => {
      const { member } = readJoinRequest(JSON.parse(await text(request)))
      const list = [withJoiner(member.installId, member.fingerprint)]
      response.end(JSON.stringify({ ...members.current(), members: list }))
    },
    is: { message: /the inviter is not among the members/ } },
  { title: 'an error without a body', reply: (_, response) => { response.writeHead(500).end('null') },
    is: { reason: 'join_refused', details: { why: 'status_500' } } },
  { title: 'an error of a kind it knows', reply: () => { throw kernelError('no_master') },
    is: { reason: 'no_master', status: 503, retryable: true } },
  { title: 'an error of a kind it does not know',
    reply: (_, response) => {
      const error = { reason: 'constructor', message: 'bad\u001b[2J', details: null }
      response.writeHead(400).end(JSON.stringify({ error }))
    },
    is: { reason: 'join_refused', message: /: bad \[2J$/ } }
]

for (const { title, reply, is } of badAnswers) {
  t.test(`an inviter that answers ${title}`, async (t) => {
    const inviter = await inviting(t, reply)
    t.match(await failing({ key: await tempKey(t), ticket: inviter.ticket() }), is)
  })
}

t.test('an inviter that never answers is given up', async (t) => {
  let asked = (): void => {}
  const arrived = new Promise<void>((resolve) => { asked = resolve })
  const inviter = await inviting(t, async (request) => { await text(request); asked() })
  const clock = manualClock()
  const outcome = failing({ key: await tempKey(t), ticket: inviter.ticket(), clock })
  await arrived
  await clock.advance(30_000)
  t.match(await outcome, { reason: 'unreachable', message: /no response within 30000 ms/ })
})
