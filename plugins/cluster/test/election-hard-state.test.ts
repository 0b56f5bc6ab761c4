import { readFileSync, readdirSync } from 'node:fs'
import t from 'tap'
import { Election } from '../election/core.js'
import { RULES } from '../election/rules.js'
import { HardState } from '../election/hard-state.js'
import { ROLE_TRANSITIONS } from '../election/elector.js'
import type { HardStateRecord, Io, Log, Role } from '../election/protocol.js'

interface Disk {
  works: boolean
  held: HardStateRecord | null
  writes: number
  persist (record: HardStateRecord): boolean
}

function disk (): Disk {
  return {
    works: true,
    held: null,
    writes: 0,
    persist (record) {
      this.writes++
      if (this.works) this.held = record
      return this.works
    }
  }
}

t.test('the hard state', (t) => {
  const store = disk()
  const state = new HardState(null, (r) => store.persist(r), RULES.writeCounts)
  t.same(store.held, { term: 0, votedFor: null, boot: 1 }, 'a start is counted')
  t.equal(state.grant({ term: 3, master: 'a' }), true)
  t.same(store.held, { term: 3, votedFor: 'a', boot: 1 }, 'on disk before the answer')
  t.equal(state.covers(3) && !state.covers(4), true)
  const { writes } = store
  t.equal(state.grant({ term: 3, master: 'a' }), true)
  t.equal(store.writes, writes, 'the same vote is not written again')

  store.works = false
  t.equal(state.grant({ term: 4, master: 'b' }), false, 'a failed write gives no vote')
  t.same(state.voted, { term: 3, master: 'a' })
  t.equal(state.storing, false)
  state.follow({ term: 6, master: 'c' })
  t.same(state.voted, { term: 6, master: 'c' }, 'following raises the floor in memory')
  t.equal(state.covers(6), false, 'and covers nothing')
  store.works = true
  state.retry()
  t.same(store.held, { term: 6, votedFor: 'c', boot: 1 }, 'the floor reaches the disk later')
  t.equal(state.storing && state.covers(6), true)

  const again = new HardState(store.held, (r) => store.persist(r), RULES.writeCounts)
  t.same([again.boot, again.voted], [2, { term: 6, master: 'c' }], 'a restart forgets nothing')
  again.follow({ term: 5, master: 'z' })
  t.same(again.voted, { term: 6, master: 'c' }, 'and nothing lowers it')
  const broken = new HardState(store.held, () => { throw new Error('EIO') }, RULES.writeCounts)
  t.same([broken.storing, broken.boot], [false, 3], 'an exception is a refusal; the start counts in memory')
  t.end()
})

t.test('votes', (t) => {
  const promised = { term: 5, master: 'b' }
  const check = (term: number, master: string, ...expected: [boolean, boolean, boolean]): void => {
    const token = { term, master }
    const [vote, available, majority] = expected
    t.equal(RULES.mayVote(promised, token), vote, `vote for ${master} in ${term}`)
    t.equal(RULES.mayFollow('available', promised, token), available, `available: ${master} in ${term}`)
    t.equal(RULES.mayFollow('majority', promised, token), majority, `majority: ${master} in ${term}`)
  }
  check(4, 'b', false, false, false)
  check(5, 'a', false, false, true)
  check(5, 'b', true, true, true)
  check(5, 'c', false, false, true)
  check(6, 'a', true, true, true)
  t.end()
})

t.test('counting votes', (t) => {
  const base = { yes: 1, needed: 2, refused: false, complete: false, expired: false }
  const check = (mode: 'available' | 'majority', change: object, result: string): void => {
    t.equal(RULES.voteResult({ mode, ...base, ...change }), result, `${mode} ${JSON.stringify(change)}`)
  }
  check('available', {}, 'open')
  check('available', { refused: true, yes: 6 }, 'lost')
  check('available', { complete: true }, 'won')
  check('available', { expired: true }, 'won')
  check('majority', {}, 'open')
  check('majority', { yes: 2 }, 'won')
  check('majority', { yes: 2, refused: true }, 'won')
  check('majority', { refused: true }, 'open')
  check('majority', { complete: true }, 'lost')
  check('majority', { expired: true }, 'lost')
  t.end()
})

t.test('the table of roles', (t) => {
  const reachable = new Set<Role>(['follower'])
  for (const role of reachable) for (const next of ROLE_TRANSITIONS[role]) reachable.add(next)
  t.same([...reachable].sort(), Object.keys(ROLE_TRANSITIONS).sort(), 'every role can be reached')
  for (const [role, next] of Object.entries(ROLE_TRANSITIONS)) t.ok(next.includes('follower'),
    `${role} to follower`)
  t.same(Object.entries(ROLE_TRANSITIONS).filter(([, next]) => next.includes('master')).map(([role]) => role),
    ['claim'],
    'only a claim makes a master')
  t.end()
})

t.test('a lone node', (t) => {
  const said: string[] = []
  const entries: { id: string, sid: string, term: number }[] = []
  const log: Log = {
    last: () => ({ term: entries.at(-1)?.term ?? 0, seq: entries.length }),
    voters: () => ['a'],
    append: ({ id, sid, term }) => { entries.push({ id, sid, term }); return true },
    find: (id) => {
      const i = entries.findIndex((entry) => entry.id === id)
      return i < 0 ? undefined : { sid: entries[i]!.sid, term: entries[i]!.term, seq: i + 1 }
    },
    body: () => null,
    adopt: () => 'adopted'
  }
  const io: Io = {
    send: () => {},
    persist: () => true,
    random: () => 0,
    terminal: (stream, why) => { said.push(`${stream} ${why}`) },
    commandResult: (id, outcome) => { said.push(`${id} ${outcome.ok ? outcome.seq : outcome.code}`) },
    becameMaster: ({ term }) => { said.push(`master ${term}`) },
    sessionChanged: () => {},
    storageChanged: () => {},
    staleRefused: ({ sid, term }, promised) => { said.push(`refused ${sid} ${term} < ${promised.term}`) }
  }
  const core = new Election({ id: 'a', quorum: 'majority', stored: null }, io, log)
  core.start(0)
  core.openStream('early')
  core.command('c1', null, 0)
  t.equal(core.status(0).stale, true)
  t.equal(core.receive('x', { kind: 'probe', nonce: 1 }, 1), false, 'strangers are ignored')
  for (let now = 200; now <= 2000; now += 200) core.tick(now)
  core.command('c1', null, 2100)
  core.openStream('open')
  core.openStream('closed')
  core.closeStream('closed')
  t.match(core.status(2100), { role: 'master', term: 1, stale: false, quorum: 'ok', liveNodes: ['a'] })
  core.resign(2200)
  t.same(said, ['early no_master', 'master 1', 'c1 2', 'c1 2', 'open session_changed'])
  t.throws(() => new Election({ id: 'a', quorum: 0, stored: null }, io, log), { name: 'RangeError' })
  t.end()
})

t.test('a master below the term voted in is refused, and told of once for each term of its session', (t) => {
  const said: string[] = []
  const none = (): void => {}
  const log: Log = {
    last: () => ({ term: 4, seq: 1 }), voters: () => ['a', 'b'], append: () => true, find: () => undefined,
    body: () => null, adopt: () => { said.push('adopted'); return 'adopted' }
  }
  const io: Io = {
    send: none, persist: () => true, random: () => 0, terminal: none, commandResult: none, becameMaster: none,
    sessionChanged: none, storageChanged: none,
    staleRefused: ({ sid, term, master }, { term: promised }) => {
      said.push(`${master} ${sid} ${term} < ${promised}`)
    }
  }
  const stored = { term: 5, votedFor: 'c', boot: 1 }
  const core = new Election({ id: 'a', quorum: 1, stored }, io, log)
  core.start(0)
  core.up('b', 0)
  const append = (term: number): void => {
    core.receive('b', {
      kind: 'append', leader: { sid: 's1', term, master: 'b', boot: 1 }, fresh: { term, seq: 2 }, body: null
    }, 10)
  }
  append(3)
  append(3)
  append(4)
  t.same(said, ['b s1 3 < 5', 'b s1 4 < 5'], 'nothing of it was adopted')
  append(6)
  t.same(said.slice(2), ['adopted'])
  t.end()
})

t.test('the core has no clock, no socket, no chance and no file of its own', (t) => {
  const folder = new URL('../election/', import.meta.url)
  for (const name of readdirSync(folder)) {
    const text = readFileSync(new URL(name, folder), 'utf8')
    const banned = /\b(Date\.|performance\.|process\.|Math\.random|set(Timeout|Interval)|fetch\()|from 'node:/
    const found = banned.exec(text)
    t.equal(found?.[0], undefined, name)
  }
  t.end()
})
