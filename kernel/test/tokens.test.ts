import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { homeFile, prepareHome } from '../boot/home.js'
import { checksum, openTokens, wellFormed, type TokenStore } from '../http/tokens.js'
import { kernelManifest } from '../plugins/kernel-manifest.js'
import { manualClock } from '../testing/index.js'
import type { Caller } from '../api/plugin.js'
import { requireAuthority, requireModel } from '../http/access.js'

const known = new Set(Object.keys(kernelManifest.authorities))
const OPERATOR: Caller = { id: 'operator', mode: 'direct', authorities: known }

function rig (t: { teardown (fn: () => void): void }): {
  home: string, clock: ReturnType<typeof manualClock>, reopen: () => TokenStore } {
  const home = mkdtempSync(join(tmpdir(), 'svc-tokens-'))
  t.teardown(() => { rmSync(home, { recursive: true, force: true }) })
  prepareHome(home)
  const clock = manualClock()
  return { home, clock, reopen: () => openTokens({ home, clock, known: () => known, operator: 'svc_op_x' }) }
}

async function make (tokens: TokenStore, by: Caller, authorities: string[], expiresAt: string | null = null):
Promise<{ caller: Caller, token: string }> {
  const { token, record } = await tokens.create({ label: 'x', authorities, expiresAt, by })
  return { token, caller: { id: record.id, mode: 'direct', authorities: new Set(authorities) } }
}

t.test('a token gives no more than its maker has', async (t) => {
  const tokens = rig(t).reopen()
  const { caller } = await make(tokens, OPERATOR, ['operator', 'read'])
  for (const authority of known) {
    const minted = make(tokens, caller, ['read', authority])
    if (caller.authorities.has(authority)) await t.resolves(minted, authority)
    else await t.rejects(minted, { reason: 'missing_grant', details: { authority } } as never)
  }
  await t.rejects(make(tokens, caller, ['fly']),
    { reason: 'invalid_request', details: { param: 'authorities' } } as never)
  t.equal(tokens.list().length, 3, 'what is refused is not kept')
})

t.test('a token ends no later than its maker', async (t) => {
  const { clock, reopen } = rig(t)
  const tokens = reopen()
  const at = (ms: number): string => new Date(clock.now() + ms).toISOString()
  const { caller } = await make(tokens, OPERATOR, ['operator'], at(1000))
  await t.rejects(make(tokens, caller, ['operator'], at(1001)),
    { reason: 'invalid_request', details: { param: 'expires' } } as never)
  const made = await make(tokens, caller, ['operator'])
  t.same(tokens.list().map(({ by, expires }) => ({ by, expires })),
    [{ by: 'operator', expires: at(1000) }, { by: caller.id, expires: at(1000) }])
  await clock.advance(1000)
  t.equal(tokens.check(made.token), undefined)
  t.notOk(tokens.stands(made.caller.id))
})

t.test('a revoked token takes along what was made with it, after a restart too', async (t) => {
  const { reopen } = rig(t)
  const tokens = reopen()
  const first = await make(tokens, OPERATOR, ['operator'])
  const second = await make(tokens, first.caller, ['operator'])
  const third = await make(tokens, second.caller, ['operator'])
  const other = await make(tokens, OPERATOR, ['operator'])
  await tokens.revoke(first.caller.id)
  for (const now of [tokens, reopen()]) {
    t.same([first, second, third, other].map(({ token }) => now.check(token)?.id),
      [undefined, undefined, undefined, other.caller.id])
    t.same(now.list().map(({ revoked }) => revoked), [true, true, true, false])
    t.same(['operator', 'local', other.caller.id, third.caller.id, 'app_gone'].map(now.stands),
      [true, true, true, false, false])
  }
})

t.test('whoever made a credential is followed through devices, each once', async (t) => {
  const { home, clock, reopen } = rig(t)
  const first = await make(reopen(), OPERATOR, ['operator'])
  const letIn = new Map([['dev-a', first.caller.id], ['dev-b', 'dev-a'], ['dev-c', 'dev-c']])
  const ended = new Set<string>()
  const others = {
    stands: (id: string) => ended.has(id) ? false : undefined, makerOf: (id: string) => letIn.get(id)
  }
  const tokens = openTokens({ home, clock, known: () => known, operator: 'svc_op_x', others })
  const made = await make(tokens, { ...OPERATOR, id: 'dev-b' }, ['operator'])
  t.same(tokens.makers(made.caller.id), [made.caller.id, 'dev-b', 'dev-a', first.caller.id, 'operator'])
  t.same(tokens.makers('dev-c'), ['dev-c'], 'paired once more with a token of its own making')
  t.ok(tokens.stands(made.caller.id))
  ended.add('dev-a')
  t.notOk(tokens.stands(made.caller.id), 'it ends with a device further up')
})

t.test('a token for some models makes none for others', async (t) => {
  const { reopen } = rig(t)
  const tokens = reopen()
  const by: Caller = { ...OPERATOR, models: ['a', 'b'] }
  const make = { label: 'x', authorities: ['read'], expiresAt: null, by }
  await t.rejects(tokens.create({ ...make, models: ['c'] }), { reason: 'model_not_allowed' } as never)
  const { token } = await tokens.create({ ...make, models: ['b'] })
  const holder = reopen().check(token)!
  t.same(holder.models, ['b'])
  t.throws(() => { requireModel({ ...holder, mode: 'direct' }, 'a') },
    { reason: 'model_not_allowed', details: { models: ['b'] } } as never)
  t.same((await tokens.create(make)).record.models, ['a', 'b'])
})

t.test('a stored hash finds one token and none that is like it', async (t) => {
  const { home, reopen } = rig(t)
  const tokens = reopen()
  const { token, caller } = await make(tokens, OPERATOR, ['read'])
  t.equal(tokens.check(token)?.id, caller.id)
  for (let at = 'svc_app_'.length; at < token.lastIndexOf('_'); at++) {
    const letter = token[at] === 'a' ? 'b' : 'a'
    const near = token.slice(0, at) + letter + token.slice(at + 1)
    t.equal(tokens.check(near), undefined, 'the checksum does not fit')
    const body = near.slice(0, near.lastIndexOf('_'))
    const fitting = `${body}_${checksum(body)}`
    t.equal(wellFormed(fitting), true)
    t.equal(tokens.check(fitting), undefined, 'and where it does, the hash is another')
  }
  // The file reveals no token: neither a stored hash nor anything derived from one works as a token.
  const text = readFileSync(join(home, homeFile.tokens), 'utf8')
  t.notOk(text.includes(token.slice('svc_app_'.length, 30)))
  const hash = /[0-9a-f]{64}/.exec(text)![0]
  for (const claim of [hash, `svc_app_${hash}`]) t.equal(tokens.check(claim), undefined)
  writeFileSync(join(home, homeFile.tokens), text.replace(hash, hash.slice(0, 40)))
  t.equal(reopen().check(token), undefined, 'a hash that was cut is nobody\'s')
})

t.test('tokens of a file that does not say who made them are the operator\'s', async (t) => {
  const { home, reopen } = rig(t)
  const { token } = await make(reopen(), OPERATOR, ['read'])
  const path = join(home, homeFile.tokens)
  const file = JSON.parse(readFileSync(path, 'utf8')) as { tokens: { by?: string }[] }
  delete file.tokens[0]!.by
  writeFileSync(path, JSON.stringify(file), { mode: 0o600 })
  t.not(reopen().check(token), undefined)
  t.equal(reopen().list()[0]?.by, 'operator')
})

t.test('the token that a refusal advises is enough for the request and its reads', (t) => {
  const callerOf = (id: string, authorities: string[]): Caller =>
    ({ id, mode: 'direct', authorities: new Set(authorities) })
  for (const authority of ['read', 'invoke', 'operator', 'cluster:write', 'plugin:manage']) {
    for (const id of ['local', 'tok_1']) {
      try {
        requireAuthority(callerOf(id, []), authority)
        t.fail(authority)
      } catch (error) {
        const advice = /`svc token create NAME(?: --authority ([^`]+))?`/
        const [, words = ''] = advice.exec((error as Error).message)!
        const made = callerOf('tok_2', words === '' ? ['read', 'invoke'] : words.split(' '))
        for (const one of [authority, 'read']) t.doesNotThrow(() => { requireAuthority(made, one) }, one)
      }
    }
  }
  t.end()
})
