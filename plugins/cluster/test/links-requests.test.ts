import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import t from 'tap'
import { systemClock } from '../../../kernel/api/clock.js'
import { kernelError } from '../../../kernel/api/errors.js'
import { joinBinding, proofOf, readJoinToken } from '../identity/join-tokens.js'
import { join } from '../identity/join.js'
import { dial } from '../identity/tls.js'
import { memberOf } from '../../../kernel/http/forwarded.js'
import { defaultLimits } from '../links/limits.js'
import { KEEP_ALIVE_MS } from '../links/listener.js'
import { candidate } from './identity-kit.js'
import { caller, tempKey, testNode, unite, until } from './links-kit.js'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { NodeKey } from '../../../kernel/boot/node-key.js'
import type { Extra, Owner, TestNode } from './links-kit.js'

type Api = (request: IncomingMessage, response: ServerResponse) => void

const refusal = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(() => 'no refusal', (error) => error)

async function pair (t: Owner, api: Api, extra: Extra = {}): Promise<{ a: TestNode, b: TestNode }> {
  const [a, b] = [await testNode(t, extra), await testNode(t, { api })]
  unite([a, b])
  return { a, b }
}

t.test('a request reaches the other node\'s API as its caller, and connections are kept', async (t) => {
  const seen: unknown[] = []
  const sockets = new Set<object>()
  const { a, b } = await pair(t, (request, response) => {
    sockets.add(request.socket)
    const { method, url, headers } = request
    void (async () => {
      let body = ''
      for await (const part of request) body += String(part)
      const who = JSON.parse(String(headers['x-svc-caller'])) as unknown
      seen.push({ from: memberOf(request.socket), method, url, body, who, mine: headers['x-mine'] })
      response.writeHead(201, { 'x-answer': 'yes', 'content-type': 'text/plain' }).end('done')
    })()
  })
  const who = { id: 'tok_ä', mode: 'direct', authorities: ['read', 'operator'] }
  for (const body of [undefined, { text: 'hé' }]) {
    const answer = await a.links.request(b.id, {
      method: body === undefined ? 'GET' : 'POST', path: '/v1/x?y=1', body, caller,
      headers: { 'X-Mine': '1', 'X-Svc-Caller': 'forged' }
    })
    t.match(answer, { status: 201, headers: { 'x-answer': 'yes' } })
    let text = ''
    for await (const part of answer.body) text += String(part)
    t.equal(text, 'done')
    await new Promise(setImmediate)
  }
  const from = a.id
  t.strictSame(seen, [
    { from, method: 'GET', url: '/v1/x?y=1', body: '', who, mine: '1' },
    { from, method: 'POST', url: '/v1/x?y=1', body: '{"text":"hé"}', who, mine: '1' }
  ])
  t.equal(sockets.size, 1)
  t.equal(memberOf({}), undefined)
})

t.test('an idle connection is given up long before the other end closes it', async (t) => {
  const closed: string[] = []
  const { a, b } = await pair(t, (request, response) => {
    const { method, socket } = request
    socket.once('close', () => { closed.push(method!) })
    request.resume().on('end', () => { response.end('done') })
  }, { limits: { idleMs: 50 } })
  const { body } = await a.links.request(b.id, { method: 'POST', path: '/', body: {}, caller })
  await once(body.resume(), 'end')
  const began = Date.now()
  await until('closed', () => closed.length === 1)
  t.ok(Date.now() - began < KEEP_ALIVE_MS / 2, 'by the end that asks')
  t.ok(defaultLimits.idleMs <= KEEP_ALIVE_MS / 3)
})

t.test('a slow reader slows the producer, and ending the body ends the request there', async (t) => {
  let produced = 0
  let ended = false
  const block = Buffer.alloc(64 * 1024)
  const { a, b } = await pair(t, (_request, response) => {
    response.writeHead(200)
    const more = (): void => {
      while (!response.destroyed) {
        produced += block.byteLength
        if (!response.write(block)) break
      }
    }
    response.on('drain', more).on('close', () => { ended = true })
    more()
  })
  const { body } = await a.links.request(b.id, { method: 'GET', path: '/', caller })
  let last = -1
  await until('the producer waits', () => {
    const still = produced === last && produced > 0
    last = produced
    return still
  })
  const first = produced
  t.ok(first < 32 * 1024 * 1024, `${first} bytes produced unread`)
  let read = 0
  body.on('data', (part: Buffer) => { read += part.byteLength })
  await until('it goes on', () => read > first + 1024 * 1024)
  body.on('error', () => {})
  body.destroy()
  await until('ended there', () => ended)
})

t.test('abort', async (t) => {
  let open = 0
  const { a, b } = await pair(t, (request, response) => {
    open++
    response.on('close', () => { open-- })
    if (request.url === '/stream') response.writeHead(200).write('x')
  })
  const before = AbortSignal.abort()
  const ask = (path: string, signal: AbortSignal): ReturnType<TestNode['links']['request']> =>
    a.links.request(b.id, { method: 'GET', path, caller, signal })
  t.match(await refusal(ask('/silent', before)), { reason: 'cancelled' })
  const first = new AbortController()
  const waiting = ask('/silent', first.signal)
  await until('asked', () => open === 1)
  first.abort()
  t.match(await refusal(waiting), { reason: 'cancelled' })
  await until('ended there', () => open === 0)
  const second = new AbortController()
  const { body } = await ask('/stream', second.signal)
  const failed = once(body, 'error')
  second.abort()
  t.match(await failed, [{ reason: 'cancelled' }])
  await until('ended there too', () => open === 0)
  t.match(await refusal(a.links.request(b.id, { method: 'GET', path: '/silent', caller, timeoutMs: 50 })),
    { reason: 'timeout', message: /GET \/silent within 50 ms/ })
  await until('ended after the timeout', () => open === 0)
})

t.test('unreachable, with every address and its reason', async (t) => {
  const { a, b } = await pair(t, (request) => { request.socket.destroy() })
  const ask = (to: string): Promise<unknown> =>
    a.links.request(to, { method: 'POST', path: '/', body: {}, caller })
  t.match(await refusal(ask(b.id)), { reason: 'unreachable', status: 502,
    message: new RegExp(`^Node node-${b.id.slice(0, 8)} closed the connection`) })
  t.match(await refusal(ask('nobody')), { reason: 'unreachable' })
  t.match(await refusal(ask(a.id)), { reason: 'unreachable' })
  await b.links.close()
  t.match(await refusal(ask(b.id)), {
    reason: 'unreachable', message: new RegExp(`^Node node-${b.id.slice(0, 8)} cannot be reached: `),
    details: { addresses: [{ address: b.address, reason: 'refused' }], begun: false }
  })
})

t.test('a removed member\'s requests end, both ways', async (t) => {
  let open = 0
  const api: Api = (_request, response) => {
    open++
    response.on('close', () => { open-- })
    response.writeHead(200).write('x')
  }
  const { a, b } = await pair(t, api, { api })
  const bodies = await Promise.all([[a, b], [b, a]].map(async ([from, to]) =>
    (await from!.links.request(to!.id, { method: 'GET', path: '/', caller })).body))
  const broken = Promise.all(bodies.map(async (body) => { await once(body.resume(), 'error') }))
  t.equal(open, 2)
  const current = a.members.current()
  a.members.replace({ ...current, members: current.members.filter(({ installId }) => installId === a.id) })
  await broken
  await until('ended', () => open === 0)
  t.match(await refusal(b.links.request(a.id, { method: 'GET', path: '/', caller })), {
    reason: 'unreachable'
  })
})

const dialled = async (key: NodeKey, node: TestNode): ReturnType<typeof dial> => {
  const [host, port] = node.address.split(':')
  const socket = await dial({
    key, host: host!, port: Number(port), expect: node.key.fingerprint, timeoutMs: 5000, clock: systemClock
  })
  return socket.on('error', () => {})
}

/** Sends one request over a connection authenticated by `key`; null if the connection was closed. */
async function plain (
  key: NodeKey, node: TestNode, method: string, path: string,
  make: (binding: Buffer) => unknown = () => undefined
): Promise<{ status: number, body: object } | null> {
  const socket = await dialled(key, node)
  const body = make(joinBinding(socket))
  const headers = { host: 'x', 'content-type': 'application/json' }
  const call = httpRequest({ createConnection: () => socket, method, path, headers })
  call.end(body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body))
  try {
    const [response] = await once(call, 'response') as [IncomingMessage]
    let text = ''
    for await (const part of response) text += String(part)
    return { status: response.statusCode!, body: JSON.parse(text) as object }
  } catch {
    return null
  } finally {
    socket.destroy()
  }
}

t.test('a joiner that the cluster could not let in just now asks again with its token', async (t) => {
  const answers = ['no_quorum', 'session_changed', 'no_master'] as const
  let asked = 0
  const a: TestNode = await testNode(t, {
    admit: async (member) => {
      const reason = answers[asked++]
      if (reason !== undefined) throw kernelError(reason)
      const current = a.members.current()
      return { ...current, members: [...current.members, { ...member, joinedAt: new Date(0).toISOString() }] }
    }
  })
  const invitation = { clusterId: a.members.current().clusterId, seeds: [a.address],
    fingerprint: a.key.fingerprint, ttlSeconds: 60, by: 'operator' }
  const ticket = readJoinToken(a.tokens.create(invitation).token, Date.now())
  const key = await tempKey(t)
  const joined = await join({ key, self: candidate(key), ticket, clock: systemClock })
  t.equal(asked, answers.length + 1)
  t.ok(joined.members.some(({ fingerprint }) => fingerprint === key.fingerprint))
  t.equal(a.tokens.pending, 0, 'and is used up by the one that was let in')
})

t.test('T-A16: who may join', async (t) => {
  let admitted = 0
  const kept: unknown[] = []
  let full = true
  const a: TestNode = await testNode(t, {
    audit: () => ({
      async begin ({ who, what, detail }) {
        if (full) throw kernelError('audit_unavailable')
        kept.push([who, what, detail])
        return async ({ status }) => { kept.push(status) }
      },
      refused: ({ who, detail: { why } }, { status, reason }) => { kept.push([who, why, status, reason]) }
    }),
    admit: async (member) => {
      admitted++
      const current = a.members.current()
      const members = [...current.members, { ...member, joinedAt: new Date(0).toISOString() }]
      a.members.replace({ ...current, members })
      return a.members.current()
    }
  })
  const joiner = await tempKey(t)
  const id = 'A'.repeat(22)
  const proof = 'A'.repeat(43)
  const early = (): unknown => ({ token_id: id, proof, member: candidate(joiner) })
  t.equal(await plain(joiner, a, 'POST', '/join', early), null, 'no token is open')
  const { clusterId } = a.members.current()
  const { token } = a.tokens.create({
    clusterId, seeds: [a.address], fingerprint: a.key.fingerprint, ttlSeconds: 60, by: 'operator'
  })
  const ticket = readJoinToken(token, Date.now())
  const fingerprints = { inviter: a.key.fingerprint, joiner: joiner.fingerprint }
  const right = (binding: Buffer): string => proofOf(ticket.secret, binding, fingerprints)
  const check = async (
    what: string, body: (binding: Buffer) => unknown, status: number, reason: string, why?: string
  ): Promise<void> => {
    const answer = await plain(joiner, a, 'POST', '/join', body)
    t.match(answer, { status, body: { error: { reason, details: why === undefined ? {} : { why } } } }, what)
  }
  for (const path of ['/cluster', '/api/state', '/join', '/join?x']) {
    t.equal(await plain(joiner, a, 'GET', path), null, `GET ${path} of a stranger`)
  }
  const member = candidate(joiner)
  await check('wrong proof', () => ({ token_id: ticket.id, proof, member }), 403,
    'join_refused', 'wrong_proof')
  await check('unknown token', (b) => ({ token_id: id, proof: right(b), member }), 403,
    'join_refused', 'unknown')
  await check('another\'s key', (b) => ({
    token_id: ticket.id, proof: right(b), member: candidate(a.key)
  }), 400, 'invalid_request')
  await check('a taken install id', (b) => ({
    token_id: ticket.id, proof: right(b), member: { ...member, installId: a.id }
  }), 403, 'join_refused', 'taken')
  await check('not JSON', () => '{', 400, 'invalid_request')
  await check('too long', () => ({ pad: 'x'.repeat(20_000) }), 413, 'payload_too_large')
  await check('what cannot be recorded', (b) => ({ token_id: ticket.id, proof: right(b), member }), 507,
    'audit_unavailable')
  t.equal(admitted, 0)
  t.same(kept, ['wrong_proof', 'unknown', 'taken'].map((why) => ['anonymous', why, 403, 'join_refused']))
  full = false
  const joined = await join({ key: joiner, self: member, ticket, clock: systemClock })
  t.match(kept.slice(3),
    [[joiner.installId, 'POST /join', { member, token: ticket.id, by: 'operator' }], 200])
  t.notMatch(JSON.stringify(kept), ticket.secret)
  t.equal(joined.clusterId, clusterId)
  t.equal(admitted, 1)
  const again = (b: Buffer): unknown => ({ token_id: ticket.id, proof: right(b), member })
  t.match(await plain(joiner, a, 'POST', '/join', again), { status: 200, body: joined }, 'a lost answer')
  t.equal(admitted, 1, 'it is a member already')

  a.tokens.create({
    clusterId, seeds: [a.address], fingerprint: a.key.fingerprint, ttlSeconds: 60, by: 'operator'
  })
  const other = await tempKey(t)
  const late = (): unknown => ({ token_id: ticket.id, proof, member: candidate(other) })
  t.match(await plain(other, a, 'POST', '/join', late),
    { status: 403, body: { error: { details: { why: 'used' } } } }, 'a second node with one token')
  const current = a.members.current()
  a.members.replace({
    ...current,
    members: current.members.filter(({ installId }) => installId !== joiner.installId),
    removed: [{ installId: joiner.installId, fingerprint: joiner.fingerprint, at: new Date(0).toISOString() }]
  })
  await check('removed', again, 403, 'join_refused', 'removed')
  t.equal(await plain(joiner, a, 'GET', '/api/state'), null, 'nothing else')
})
