import { randomUUID } from 'node:crypto'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { formatAddress, readAddress } from '../identity/addresses.js'
import { identityFile } from '../../../kernel/boot/node-key.js'
import { openMembers, type Members } from '../members/file.js'
import { writeVersioned } from '../../../kernel/boot/home.js'
import { candidate, tempHome, tempKey, thrown, type Owner } from './identity-kit.js'
import type { Applicant, Member, MemberList } from '../members/member.js'

const NOW = Date.UTC(2026, 4, 1)
const AT = '2026-05-01T00:00:00.000Z'
const now = (): number => NOW

/** A member with a made-up fingerprint: 42 times the letter, then `A`. */
function member (letter: string, more: Partial<Member> = {}): Member {
  return {
    installId: `id-${letter}`,
    fingerprint: `${letter.repeat(42)}A`,
    name: letter,
    addresses: ['[fd00::1]:7001', 'box.local:7001'],
    joinedAt: AT,
    ...more
  }
}

interface Rig { home: string, self: Applicant, members: Members, own: Member }

async function rig (t: Owner): Promise<Rig> {
  const home = tempHome(t)
  const self = candidate(await tempKey(t))
  return { home, self, members: openMembers({ home, self, now }), own: { ...self, joinedAt: AT } }
}

t.test('a fresh home is a cluster of one, and stays it', async (t) => {
  const { home, self, members, own } = await rig(t)
  const { clusterId } = members.current()
  t.match(clusterId, /^[0-9a-f-]{36}$/)
  t.same(members.current(), { clusterId, members: [own], removed: [] })
  t.same(members.find(self.installId), own)
  t.same(members.byFingerprint(self.fingerprint), own)
  t.equal(members.find('another'), undefined)
  t.equal(members.byFingerprint('another'), undefined)
  t.equal(members.isRemoved(self.fingerprint), false)
  t.same(openMembers({ home, self, now: () => 0 }).current(), members.current(), 'opened again')
  t.equal(statSync(join(home, identityFile.members)).mode & 0o777, 0o600)
  t.not((await rig(t)).members.current().clusterId, clusterId, 'another home is another cluster')
})

t.test('the whole is replaced, on disk first, and told when it differs', async (t) => {
  const { home, self, members, own } = await rig(t)
  const seen: MemberList[] = []
  const stop = members.onChange(() => {
    t.same(openMembers({ home, self, now }).current(), members.current(), 'already on the disk')
    seen.push(members.current())
  })
  const next = { clusterId: randomUUID(), members: [own, member('b')], removed: [] }
  members.replace(next)
  t.same(seen, [next])
  t.same(members.find('id-b'), member('b'))
  members.replace(structuredClone(next))
  t.equal(seen.length, 1, 'the same again is no news')
  next.members.push(member('c'))
  t.equal(members.current().members.length, 2, 'what was handed in may change afterwards')
  t.throws(() => { (members.current().members as Member[]).pop() }, TypeError, 'what is handed out may not')
  stop()
  members.replace(next)
  t.equal(seen.length, 1, 'told no more')
  t.same(members.current(), next)
})

t.test('a removed key is never found', async (t) => {
  const { home, self, members, own } = await rig(t)
  const { clusterId } = members.current()
  const gone = member('b')
  members.replace({ clusterId, members: [own, gone], removed: [] })
  t.same(members.byFingerprint(gone.fingerprint), gone)
  const removed = [{ installId: gone.installId, fingerprint: gone.fingerprint, at: AT }]
  members.replace({ clusterId, members: [own], removed })
  for (const file of [members, openMembers({ home, self, now })]) {
    t.equal(file.byFingerprint(gone.fingerprint), undefined)
    t.equal(file.find(gone.installId), undefined)
    t.equal(file.isRemoved(gone.fingerprint), true)
  }
  t.match(thrown(() => { members.replace({ clusterId, members: [own, gone], removed }) }), {
    reason: 'invalid_request', param: 'members[1].fingerprint', message: /is also under removed/
  })
  t.equal(members.byFingerprint(gone.fingerprint), undefined)
})

t.test('a failed write changes nothing', async (t) => {
  const { home, members, own } = await rig(t)
  const before = members.current()
  let told = 0
  members.onChange(() => { told++ })
  rmSync(join(home, 'state'), { recursive: true })
  t.throws(() => {
    members.replace({ ...before, members: [own, member('b')] })
  }, { code: 'ENOENT' })
  t.equal(members.current(), before)
  t.equal(members.find('id-b'), undefined)
  t.equal(told, 0)
})

t.test('a removal counts though the disk refuses it', async (t) => {
  const { home, members, own } = await rig(t)
  const { clusterId } = members.current()
  const gone = member('b')
  members.replace({ clusterId, members: [own, gone], removed: [] })
  let told = 0
  members.onChange(() => { told++ })
  rmSync(join(home, 'state'), { recursive: true })
  const removed = [{ installId: gone.installId, fingerprint: gone.fingerprint, at: AT }]
  t.throws(() => { members.replace({ clusterId, members: [own, member('c')], removed }) }, { code: 'ENOENT' })
  t.equal(members.isRemoved(gone.fingerprint), true)
  t.same(members.current(), { clusterId, members: [own], removed }, 'and nothing else')
  t.equal(told, 1)
})

const nonsense: ReadonlyArray<readonly [title: string, change: object, param: string]> = [
  ['no cluster', { clusterId: undefined }, 'clusterId'],
  ['a path as cluster', { clusterId: '../x' }, 'clusterId'],
  ['members that are no list', { members: {} }, 'members'],
  ['a member that is no object', { members: [null] }, 'members[0]'],
  ['no install id', { members: [member('b', { installId: '' })] }, 'members[0].installId'],
  ['a short fingerprint', { members: [member('b', { fingerprint: 'b' })] }, 'members[0].fingerprint'],
  ['a fingerprint of 33 bytes', { members: [member('b', { fingerprint: 'b'.repeat(44) })] },
    'members[0].fingerprint'],
  ['no name', { members: [member('b', { name: '' })] }, 'members[0].name'],
  ['an escape in a name', { members: [member('b', { name: '\u001b[2J' })] }, 'members[0].name'],
  ['an address without a port', { members: [member('b', { addresses: ['a:1', 'box'] })] },
    'members[0].addresses[1]'],
  ['17 addresses', { members: [member('b', { addresses: Array<string>(17).fill('a:1') })] },
    'members[0].addresses'],
  ['a joining without a time', { members: [member('b', { joinedAt: 'soon' })] }, 'members[0].joinedAt'],
  ['one id twice', { members: [member('b'), member('c', { installId: 'id-b' })] }, 'members[1].installId'],
  ['one key twice', { members: [member('b'), member('b', { installId: 'id-c' })] },
    'members[1].fingerprint'],
  ['a removed key without a time', { removed: [{ installId: 'x', fingerprint: member('b').fingerprint }] },
    'removed[0].at'],
  ['513 members', { members: Array<Member>(513).fill(member('b')) }, 'members']
]

t.test('nonsense is refused by its field, in a call and in the file', async (t) => {
  const { home, self, members } = await rig(t)
  const before = members.current()
  for (const [title, change, param] of nonsense) {
    const bad = { ...before, ...change } as MemberList
    t.match(thrown(() => { members.replace(bad) }), { reason: 'invalid_request', status: 400, param }, title)
    t.equal(members.current(), before)
    writeVersioned(join(home, identityFile.members), 1, bad)
    t.throws(() => openMembers({ home, self, now }), {
      name: 'HomeError', message: new RegExp(`members\\.json: ${param.replace(/[[\].]/g, '\\$&')} `)
    }, `${title}, in the file`)
  }
})

t.test('a file that cannot be used is refused', async (t) => {
  const { home, self, members, own } = await rig(t)
  const path = join(home, identityFile.members)
  const good = readFileSync(path, 'utf8')
  const check = (text: string, message: RegExp): void => {
    writeFileSync(path, text)
    t.throws(() => openMembers({ home, self, now }), { name: 'HomeError', message })
    t.equal(readFileSync(path, 'utf8'), text, 'and left as it is')
  }
  check(good.slice(0, -20), /members\.json is not valid JSON/)
  check(good.replace('"format": 1', '"format": 2'), /has format 2, this svc supports up to 1/)
  check(good.replace(self.fingerprint, member('b').fingerprint), new RegExp(
    `lists this node with key b+A, but node\\.key is ${self.fingerprint}; .* run: rm .*members\\.json`))
  writeFileSync(path, good.replace('"clusterId"', '"later": [1], "clusterId"'))
  t.same(openMembers({ home, self, now }).current(), members.current(), 'a field it does not know is no harm')
  t.same(members.find(self.installId), own)
})

t.test('addresses', (t) => {
  const rows: ReadonlyArray<readonly [string, string, number]> = [
    ['10.0.0.1:1', '10.0.0.1', 1], ['box-1.local:65535', 'box-1.local', 65_535],
    ['[::1]:7001', '::1', 7001], ['[fe80::1%eth0]:7001', 'fe80::1%eth0', 7001]
  ]
  for (const [text, host, port] of rows) {
    t.same(readAddress(text), { host, port }, text)
    t.equal(formatAddress(host, port), text)
  }
  const wrong = ['', 'box', 'box:', ':1', 'box:0', 'box:65536', '::1:7001', '[::1]', '[box]:1', '[::1]:1 ',
    'https://box:1', 'a b:1', 'box:1/x', 'me@box:1', 'box:-1', '-x:1']
  for (const text of wrong) {
    t.equal(readAddress(text), undefined, text)
  }
  t.end()
})
