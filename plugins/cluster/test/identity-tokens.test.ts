import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { JoinTokens, proofOf, readJoinRequest, readJoinToken } from '../identity/join-tokens.js'
import { identityFile } from '../../../kernel/boot/node-key.js'
import { kernelErrors } from '../../../kernel/api/errors.js'
import { tempHome, thrown } from './identity-kit.js'
import type { JoinTicket, Redemption } from '../identity/join-tokens.js'
import type { Owner } from './identity-kit.js'

const NOW = Date.UTC(2026, 4, 1)
const INVITER = `${'i'.repeat(42)}A`
const JOINER = `${'j'.repeat(42)}A`
const invitation = { clusterId: 'cluster-1', seeds: ['10.0.0.1:7001', '[::1]:7001'], fingerprint: INVITER }

interface Rig {
  home: string
  path: string
  /** `backMs`: how far the wall clock was set back. */
  time: { ms: number, backMs?: number }
  tokens: JoinTokens
  reopen: () => JoinTokens
}

function rig (t: Owner): Rig {
  const home = tempHome(t)
  const time: Rig['time'] = { ms: NOW }
  const reopen = (): JoinTokens => new JoinTokens({
    home, now: () => time.ms - (time.backMs ?? 0), mono: () => time.ms, stands: () => true
  })
  return { home, path: join(home, identityFile.joinTokens), time, tokens: reopen(), reopen }
}

function ticketOf ({ tokens, time }: Rig, ttlSeconds = 900): JoinTicket {
  return readJoinToken(tokens.create({ ...invitation, ttlSeconds, by: 'operator' }).token, time.ms)
}

/** An honest joiner's request over a connection with that binding. */
function redemption (ticket: JoinTicket, binding = randomBytes(32), joiner = JOINER): Redemption {
  const proof = proofOf(ticket.secret, binding, { inviter: ticket.fingerprint, joiner })
  return { tokenId: ticket.id, proof, binding, joinerFingerprint: joiner }
}

t.test('whether one waits for another machine', (t) => {
  const { tokens, time, reopen } = rig(t)
  const make = (...seeds: string[]): JoinTicket => readJoinToken(
    tokens.create({ ...invitation, seeds, ttlSeconds: 900, by: 'operator' }).token, time.ms)
  make('127.0.0.1:1', '[::1]:1')
  t.equal(tokens.awaitsRemote, false)
  const { id } = make('127.0.0.1:1', '192.0.2.1:1')
  t.equal(tokens.awaitsRemote, true)
  t.equal(reopen().awaitsRemote, true, 'also after a restart')
  tokens.revoke(id)
  t.equal(tokens.awaitsRemote, false)
  make('attic.lan:1')
  t.equal(tokens.awaitsRemote, true)
  time.ms += 901_000
  t.equal(reopen().awaitsRemote, false, 'its time is over')
  t.end()
})

t.test('a token says what it was made with', (t) => {
  const { tokens, path, time } = rig(t)
  const { token, expires } = tokens.create({ ...invitation, ttlSeconds: 900, by: 'operator' })
  t.match(token, /^svcjoin1_[\w-]+_[0-9a-f]{8}$/)
  t.equal(expires, '2026-05-01T00:15:00.000Z')
  const ticket = readJoinToken(` ${token}\n`, time.ms)
  t.match(ticket, { ...invitation, exp: NOW + 900_000, id: /^[\w-]{22}$/, secret: /^[\w-]{22}$/ })
  const stored = readFileSync(path, 'utf8')
  t.notMatch(stored, ticket.secret, 'the secret itself is nowhere on the disk')
  t.match(stored, ticket.id)
  t.equal(statSync(path).mode & 0o777, 0o600)
  const again = tokens.create({ ...invitation, ttlSeconds: 900, by: 'operator' })
  const other = readJoinToken(again.token, time.ms)
  t.not(other.secret, ticket.secret)
  t.not(other.id, ticket.id)
  t.end()
})

t.test('any one wrong character of a token is found before anything is sent', (t) => {
  const { tokens, time } = rig(t)
  const { token } = tokens.create({ ...invitation, ttlSeconds: 900, by: 'operator' })
  const passed: number[] = []
  for (let i = 0; i < token.length; i++) {
    const typo = token.slice(0, i) + (token[i] === 'x' ? 'y' : 'x') + token.slice(i + 1)
    try {
      readJoinToken(typo, time.ms)
      passed.push(i)
    } catch (error) {
      if ((error as { reason?: string }).reason !== 'invalid_request') throw error
    }
  }
  t.same(passed, [])
  t.end()
})

t.test('a bad token is refused in words, without its secret', (t) => {
  const all = rig(t)
  const { token } = all.tokens.create({ ...invitation, ttlSeconds: 900, by: 'operator' })
  const { secret } = readJoinToken(token, NOW)
  const check = (text: string, message: RegExp, nowMs = NOW): void => {
    try {
      readJoinToken(text, nowMs)
      t.fail(`${text} was taken`)
    } catch (error) {
      t.match(error, { reason: 'invalid_request', param: 'token', message })
      t.notMatch((error as Error).message, secret)
    }
  }
  check('', /does not begin with svcjoin1_; `svc join-token` on a member creates one/)
  check('svc_op_x', /does not begin with svcjoin1_/)
  check(token.slice(0, 40), /is truncated/)
  check(token.replace('_', '_ '), /has invalid characters/)
  check(token.slice(0, -1), /is truncated/)
  check(token.replace(/.{8}$/, '00000000'), /mistyped \(its checksum does not match\)/)
  readJoinToken(token, NOW + 899_999)
  check(token, /expired at 2026-05-01T00:15:00\.000Z, this node's clock says 2026-05-01T00:15:00\.000Z/,
    NOW + 900_000)
  t.end()
})

t.test('a token that would not be readable is not made', (t) => {
  const all = rig(t)
  const check = (more: object, message: RegExp): void => {
    t.match(thrown(() => all.tokens.create({ ...invitation, ttlSeconds: 900, by: 'operator', ...more })), {
      reason: 'invalid_request', message
    })
  }
  check({ seeds: [] }, /seeds must have at least one address/)
  check({ seeds: ['box'] }, /seeds\[0\] must be host:port/)
  check({ fingerprint: 'x' }, /fingerprint must be/)
  for (const ttlSeconds of [0, -1, 1.5, NaN, 86_401]) check({ ttlSeconds }, /ttl_seconds is .* 1 to 86400/)
  t.equal(all.tokens.pending, 0)
  t.end()
})

t.test('a token lets one node in, which may ask again', (t) => {
  const all = rig(t)
  const ticket = ticketOf(all)
  t.equal(all.tokens.pending, 1)
  t.equal(all.tokens.mayJoin(JOINER), true)
  all.tokens.redeem(redemption(ticket))
  t.equal(all.tokens.pending, 0)
  t.notMatch(readFileSync(all.path, 'utf8'), /"key": "/, 'what checks proofs is gone with it')
  const other = `${'k'.repeat(42)}A`
  for (const tokens of [all.tokens, all.reopen()]) {
    t.match(thrown(() => { tokens.redeem(redemption(ticket, randomBytes(32), other)) }), {
      reason: 'join_refused', status: 403, details: { why: 'used' }
    })
    t.equal(tokens.mayJoin(other), false)
    t.equal(tokens.mayJoin(JOINER), true)
    tokens.redeem(redemption(ticket))
    t.equal(tokens.pending, 0)
  }
  all.time.ms += 900_000
  t.match(thrown(() => { all.tokens.redeem(redemption(ticket)) }), { details: { why: 'used' } })
  t.equal(all.tokens.mayJoin(JOINER), false, 'not for ever')
  t.equal(kernelErrors.join_refused.retryable, false)
  t.end()
})

t.test('open tokens are listed without their secrets, and end with a revocation or with their maker', (t) => {
  const { home, time } = rig(t)
  const gone = new Set<string>()
  const open = (): JoinTokens =>
    new JoinTokens({ home, now: () => time.ms, mono: () => time.ms, stands: (by) => !gone.has(by) })
  const tokens = open()
  const made = ['operator', 'app_1', 'app_2'].map((by) => {
    const authorities = by === 'operator' ? undefined : ['read', 'operator']
    const { token, expires } = tokens.create({ ...invitation, ttlSeconds: 900, by, authorities })
    return { by, expires, ticket: readJoinToken(token, time.ms) }
  })
  const shown = made.map(({ by, expires, ticket: { id } }) => ({ id, expires, by }))
  t.same(tokens.list(), shown)
  t.equal(tokens.revoke(shown[0]!.id), true)
  t.equal(tokens.revoke(shown[0]!.id), false, 'not twice')
  gone.add('app_1')
  for (const now of [tokens, open()]) {
    t.same(now.list(), [shown[2]])
    t.equal(now.pending, 1)
    for (const { ticket } of made.slice(0, 2)) {
      t.match(thrown(() => { now.redeem(redemption(ticket)) }), { reason: 'join_refused' })
    }
  }
  t.match(tokens.redeem(redemption(made[2]!.ticket)), { by: 'app_2', authorities: ['read', 'operator'] })
  t.same(tokens.list(), [])
  t.end()
})

t.test('of the open tokens of the previous release only the operator\'s still let a node in', (t) => {
  const all = rig(t)
  const [own, other] = ['operator', 'app_1'].map((by) => readJoinToken(
    all.tokens.create({ ...invitation, ttlSeconds: 900, by, authorities: undefined }).token, all.time.ms))
  const after = all.reopen()
  t.match(after.list(), [{ id: own!.id }])
  t.match(thrown(() => { after.redeem(redemption(other!)) }), { reason: 'join_refused' })
  t.equal(after.redeem(redemption(own!)).authorities, undefined, 'with everything')
  t.end()
})

t.test('a proof that does not fit is refused and leaves the token open', (t) => {
  const all = rig(t)
  const ticket = ticketOf(all)
  const good = redemption(ticket)
  const other = ticketOf(all)
  const check = (title: string, request: Redemption, why: string): void => {
    const error = thrown(() => { all.tokens.redeem(request) })
    t.match(error, { reason: 'join_refused', details: { why } }, title)
    t.equal(all.tokens.pending, 2)
  }
  check('another connection: a replay', { ...good, binding: randomBytes(32) }, 'wrong_proof')
  check('another joiner\'s key', { ...good, joinerFingerprint: `${'k'.repeat(42)}A` }, 'wrong_proof')
  check('made for another inviter', redemption({ ...ticket, fingerprint: JOINER }), 'wrong_proof')
  check('another token\'s secret', redemption({ ...ticket, secret: other.secret }), 'wrong_proof')
  check('the secret itself', { ...good, proof: ticket.secret }, 'wrong_proof')
  check('nothing', { ...good, proof: '' }, 'wrong_proof')
  check('an id nobody made', { ...good, tokenId: 'A'.repeat(22) }, 'unknown')
  t.throws(() => { all.tokens.redeem({ ...good, binding: Buffer.alloc(0) }) }, RangeError,
    'no binding at all is a mistake of the caller')
  all.tokens.redeem(good)
  t.equal(all.tokens.pending, 1, 'the right one is still good')
  t.end()
})

t.test('an expired token is refused, and forgotten in time', (t) => {
  const all = rig(t)
  const ticket = ticketOf(all)
  all.time.ms += 900_000
  t.equal(all.tokens.pending, 0)
  const redeem = (): void => { all.tokens.redeem(redemption(ticket)) }
  t.match(thrown(redeem), { reason: 'join_refused', details: { why: 'expired' } })
  ticketOf(all)
  t.equal(readFileSync(all.path, 'utf8').match(/"key": "/g)?.length, 1, 'only the open one has its key')
  for (let i = 0; i < 300; i++) {
    ticketOf(all, 1)
    all.time.ms += 1000
  }
  const stored = JSON.parse(readFileSync(all.path, 'utf8')) as { tokens: unknown[] }
  t.ok(stored.tokens.length <= 202, `${stored.tokens.length} are kept`)
  t.match(thrown(redeem), { details: { why: 'unknown' } })
  t.end()
})

t.test('a wall clock that is set back prolongs no token', (t) => {
  const all = rig(t)
  const ticket = ticketOf(all)
  all.time.backMs = 3_600_000
  all.time.ms += 899_000
  t.equal(all.tokens.pending, 1)
  all.time.ms += 1000
  t.match(thrown(() => { all.tokens.redeem(redemption(ticket)) }), { details: { why: 'expired' } })
  t.end()
})

t.test('so many may be open', (t) => {
  const all = rig(t)
  for (let i = 0; i < 100; i++) ticketOf(all)
  t.equal(all.tokens.pending, 100)
  t.match(thrown(() => ticketOf(all)), { reason: 'overloaded', message: /100 join tokens are open/ })
  all.time.ms += 900_000
  ticketOf(all)
  t.equal(all.tokens.pending, 1)
  t.end()
})

t.test('a mark that cannot be written lets nobody in and costs nothing', (t) => {
  const all = rig(t)
  const ticket = ticketOf(all)
  rmSync(join(all.home, 'state'), { recursive: true })
  t.throws(() => { all.tokens.redeem(redemption(ticket)) }, { code: 'ENOENT' })
  t.throws(() => ticketOf(all), { code: 'ENOENT' })
  t.equal(all.tokens.pending, 1)
  mkdirSync(join(all.home, 'state'))
  all.tokens.redeem(redemption(ticket))
  t.equal(all.tokens.pending, 0)
  t.end()
})

t.test('open tokens survive a restart; a file others can read or nobody can is refused', (t) => {
  const all = rig(t)
  const ticket = ticketOf(all)
  const again = all.reopen()
  t.equal(again.pending, 1)
  chmodSync(all.path, 0o644)
  t.throws(all.reopen, {
    name: 'HomeError', message: /join-tokens\.json can be read by others; run: chmod 600/
  })
  chmodSync(all.path, 0o600)
  again.redeem(redemption(ticket))
  for (const [text, message] of [
    ['{"format":1,"tokens":{}}', /is no valid list of join tokens; run: rm /],
    ['{"format":1,"tokens":[null]}', /is no valid list of join tokens/],
    ['{"format":1,"tokens":[{"id":"x","exp":"soon"}]}', /is no valid list of join tokens/],
    ['{"format":2,"tokens":[]}', /has format 2/],
    ['{', /not valid JSON/]
  ] as const) {
    writeFileSync(all.path, text)
    t.throws(all.reopen, { name: 'HomeError', message }, text)
  }
  t.end()
})

t.test('a request to join is read field by field', (t) => {
  const member = { installId: 'id-1', fingerprint: JOINER, name: 'ada', addresses: ['box:1'] }
  const good = { token_id: 'A'.repeat(22), proof: 'p'.repeat(43), member }
  t.same(readJoinRequest({ ...good, more: 1 }), good)
  const check = (body: unknown, param: string): void => {
    t.match(thrown(() => readJoinRequest(body)), { reason: 'invalid_request', param })
  }
  check(null, '')
  check([], '')
  check({ ...good, token_id: 'x' }, 'token_id')
  check({ ...good, proof: 1 }, 'proof')
  check({ ...good, member: undefined }, 'member')
  check({ ...good, member: { ...member, addresses: ['box'] } }, 'member.addresses[0]')
  check({ ...good, member: { ...member, fingerprint: '' } }, 'member.fingerprint')
  t.end()
})
