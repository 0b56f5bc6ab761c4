import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { diskError } from '../api/errors.js'
import {
  HomeError, dropStale, homeFile, installId, lockHome, releaseReserve, noRoom, prepareHome, readVersioned,
  startTicks, writeVersioned
} from '../boot/home.js'
import { newToken, openTokens, operatorToken, wellFormed } from '../http/tokens.js'
import { manualClock } from '../testing/index.js'
import { noSmallDisk, smallDisk } from '../../test/tools/small-disk.js'

function home (t: { teardown (fn: () => void): void }): string {
  const path = mkdtempSync(join(tmpdir(), 'svc-home-'))
  t.teardown(() => { rmSync(path, { recursive: true, force: true }) })
  prepareHome(path)
  return path
}

t.test('a home is locked by one process', (t) => {
  const path = home(t)
  const release = lockHome(path)
  t.throws(() => lockHome(path), {
    name: 'HomeError', message: new RegExp(`in use by process ${process.pid} `)
  })
  release()
  lockHome(path)()
  t.end()
})

t.test('of two that take over a dead one\'s lock, none removes the other\'s', (t) => {
  const path = home(t)
  const lock = join(path, homeFile.lock)
  for (const stale of ['', '{"format":1,"pid":4194301,"startTicks":"1","since":"x"}']) {
    writeFileSync(lock, stale)
    const release = lockHome(path)
    const taken = readFileSync(lock, 'utf8')
    const aside = `${lock}.late`
    writeFileSync(aside, 'late')
    t.equal(dropStale(lock, aside, stale), false, 'one that looked before it was taken')
    t.equal(readFileSync(lock, 'utf8'), taken)
    rmSync(aside)
    writeFileSync(lock, 'of another')
    release()
    t.equal(readFileSync(lock, 'utf8'), 'of another', 'only one\'s own is given back')
    rmSync(lock)
    t.strictSame(readdirSync(join(path, 'run')), [], 'nothing is left beside it')
  }
  t.end()
})

t.test('a home that cannot be made is refused at once', (t) => {
  t.throws(() => { prepareHome('/proc/nowhere/svc') },
    { name: 'HomeError', message: /cannot create the home/ })
  const deep = join(home(t), 'a', 'b', 'c')
  prepareHome(deep)
  t.ok(statSync(join(deep, 'run')).isDirectory())
  t.end()
})

t.test('a lock left by a dead process is taken over', (t) => {
  const path = home(t)
  writeVersioned(join(path, homeFile.lock), 1, { pid: 2 ** 22 - 3, startTicks: '1', since: 'x' })
  lockHome(path)()
  t.comment('the same pid with another start time is another process')
  writeVersioned(join(path, homeFile.lock), 1, {
    pid: process.pid, startTicks: `${startTicks(process.pid)}0`, since: 'x'
  })
  lockHome(path)()
  t.end()
})

t.test('a file of a newer format is refused, a broken one too', (t) => {
  const path = join(home(t), 'x.json')
  t.equal(readVersioned(path, 1), undefined)
  writeVersioned(path, 2, { a: 1 })
  t.throws(() => readVersioned(path, 1), {
    name: 'HomeError', message: /has format 2, this svc supports up to 1/
  })
  writeFileSync(path, '{')
  t.throws(() => readVersioned(path, 1), { message: /not valid JSON/ })
  writeFileSync(path, '{}')
  t.throws(() => readVersioned(path, 1), HomeError)
  t.end()
})

t.test('a full disk is told with the path', { skip: noSmallDisk }, (t) => {
  const disk = smallDisk(t, '64k')
  disk.fill()
  t.throws(() => { writeVersioned(join(disk.path, 'x.json'), 1, { a: 1 }) }, {
    status: 507, reason: 'insufficient_storage',
    message: /^\/.*\/x\.json \(\d+ bytes\) cannot be written: the disk is full \(ENOSPC\)\.$/
  })
  t.end()
})

t.test('a home that refuses writes is told from a full one', (t) => {
  const path = home(t)
  const refused = (code: string): Error => Object.assign(new Error(`${code}: refused`), { code })
  const readOnly = noRoom(path, diskError(refused('EROFS'), join(path, 'run/x'), 1))
  t.match(readOnly, { name: 'HomeError',
    message: /run\/x \(1 bytes\) cannot be written: the file system is read-only \(EROFS\)\. Make / })
  t.match(noRoom(path, refused('EACCES')), { message: /^EACCES: refused\. Make / })
  t.match(noRoom(path, diskError(refused('ENOSPC'), path, 1)), { message: /KiB to start: free/ })
  t.end()
})

t.test('a home on a disk that is read-only', { skip: noSmallDisk }, async (t) => {
  const disk = smallDisk(t, '64k')
  prepareHome(disk.path)
  writeFileSync(join(disk.path, homeFile.reserve), 'x')
  t.equal(spawnSync('mount', ['-o', 'remount,ro', disk.path]).status, 0)
  await t.rejects(releaseReserve(disk.path), { name: 'HomeError', message: /read-only \(EROFS\)\. Make / })
})

t.test('the install id is kept', (t) => {
  const path = home(t)
  t.equal(installId(path), installId(path))
  t.end()
})

t.test('tokens have a form that shows typos', (t) => {
  const token = newToken('app')
  t.match(token, /^svc_app_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/)
  t.ok(wellFormed(token))
  const typo = token.slice(0, 20) + (token[20] === 'a' ? 'b' : 'a') + token.slice(21)
  t.notOk(wellFormed(typo))
  for (const bad of ['', 'svc_app_', token + 'x', token.replace('svc_app', 'svc_xyz')]) {
    t.notOk(wellFormed(bad), bad)
  }
  t.end()
})

t.test('the operator token is only its owner\'s', (t) => {
  const path = home(t)
  const token = operatorToken(path)
  t.equal(operatorToken(path), token)
  const file = join(path, homeFile.operatorToken)
  t.equal(statSync(file).mode & 0o777, 0o600)
  chmodSync(file, 0o644)
  t.throws(() => operatorToken(path), { name: 'HomeError', message: /chmod 600/ })
  chmodSync(file, 0o600)
  for (const text of ['', 'x', token.slice(0, -1), `${token}x`]) {
    writeFileSync(file, text)
    t.throws(() => operatorToken(path), { message: /operator\.token is damaged.*remove it/ }, text)
  }
  t.end()
})

t.test('application tokens: made, checked, revoked, expired, kept as hashes only', async (t) => {
  const path = home(t)
  const clock = manualClock()
  const known = new Set(['read', 'invoke', 'operator'])
  const open = (): ReturnType<typeof openTokens> =>
    openTokens({ home: path, clock, known: () => known, operator: operatorToken(path) })
  const tokens = open()
  const by = { id: 'operator', mode: 'direct', authorities: known } as const
  t.same(tokens.check(operatorToken(path))?.authorities, known)
  t.equal(tokens.check(newToken('app')), undefined)
  await t.rejects(tokens.create({ label: 'x', authorities: ['root'], expiresAt: null, by }),
    { reason: 'invalid_request' } as never)
  const { token, record } = await tokens.create({ label: 'ci', authorities: ['read'], expiresAt: null, by })
  t.same([...tokens.check(token)!.authorities], ['read'])
  t.same([...open().check(token)!.authorities], ['read'], 'after a restart')
  t.notMatch(readFileSync(join(path, homeFile.tokens), 'utf8'), token)
  t.equal(await tokens.revoke(record.id), true)
  t.equal(tokens.check(token), undefined)
  t.equal(open().check(token), undefined, 'revoked for good')
  t.equal(await tokens.revoke('nobody'), false)
  const expiresAt = new Date(clock.now() + 1000).toISOString()
  const soon = await tokens.create({ label: 'soon', authorities: ['read'], expiresAt, by })
  t.ok(tokens.check(soon.token))
  await clock.advance(1001)
  t.equal(tokens.check(soon.token), undefined)
})
