import t from 'tap'
import {
  RULES, byBallot, byPosition, byScore, greatest, majorityOf, readQuorum, votesNeeded, votesOf
} from '../election/rules.js'
import { newSessionId } from '../election/campaign.js'
import { DEFAULT_TIMING, timingWith } from '../election/timing.js'
import type { Order, QuorumSetting } from '../election/rules.js'
import type { Ballot, Leader } from '../election/protocol.js'

t.test('orders', (t) => {
  const check = <T>(what: string, order: Order<T>, rising: readonly T[]): void => {
    rising.forEach((a, i) => {
      rising.forEach((b, j) => {
        t.equal(Math.sign(order(a, b)), Math.sign(i - j), `${what}: ${i} and ${j}`)
      })
    })
    t.equal(greatest([...rising].reverse(), order), rising.at(-1), `${what}: the last one is the greatest`)
  }
  const ballot = (eligible: boolean, term: number, seq: number, nodeId: string): Ballot =>
    ({ eligible, term, seq, weight: 0, nodeId })
  check('freshness', byPosition, [
    { term: 0, seq: 0 }, { term: 1, seq: 9 }, { term: 2, seq: 1 }, { term: 2, seq: 2 }, { term: 10, seq: 1 }
  ])
  check('ballot', byBallot, [
    ballot(false, 9, 9, 'z'), ballot(true, 1, 9, 'z'), ballot(true, 2, 1, 'z'),
    ballot(true, 2, 2, 'a'), ballot(true, 2, 2, 'b')
  ])
  check('standing', (a, b) => byScore(a, b, 4000), [
    { following: 2, age: 90_000, master: 'z' }, { following: 3, age: 3999, master: 'a' },
    { following: 3, age: 0, master: 'b' }, { following: 3, age: 4000, master: 'a' }
  ])
  t.equal(greatest([], byPosition), undefined, 'nothing has no greatest')
  t.end()
})

t.test('quorum', (t) => {
  const ids = (n: number): string[] => Array.from({ length: n }, (_, i) => `n${i}`)
  const check = (setting: QuorumSetting, voters: number, needed: number | null): void => {
    const what = `quorum ${setting} of ${voters}`
    if (needed === null) {
      const message = /cluster\.quorum is .*voters need/
      t.throws(() => readQuorum(setting, ids(voters)), { name: 'RangeError', message }, what)
    } else t.equal(votesNeeded(readQuorum(setting, ids(voters)), ids(voters)), needed, what)
  }
  check(1, 5, 1)
  check(1, 1, 1)
  check('majority', 1, 1)
  check('majority', 2, 2)
  check('majority', 3, 2)
  check('majority', 4, 3)
  check('majority', 5, 3)
  check('majority', 0, Infinity)
  check(3, 5, 3)
  check(4, 5, 4)
  check(5, 5, 5)
  check(2, 5, null)
  check(2, 4, null)
  check(6, 5, 5)
  check(0, 5, null)
  check(-1, 5, null)
  check(2.5, 3, null)
  t.equal(votesNeeded(readQuorum(3, ids(5)), ids(7)), 4, 'a number below a majority of a longer list rises')
  t.equal(votesOf(readQuorum('majority', ids(3)), ids(3), ['n0', 'n9']), 1, 'only voters have a vote')
  t.equal(votesOf(readQuorum(1, ids(3)), ids(3), ['n0', 'n9']), 2, 'in the available mode everyone has')
  t.same([1, 2, 3, 4, 5].map(majorityOf), [1, 2, 2, 3, 3])
  t.end()
})

t.test('changes of the voters', (t) => {
  const check = (to: string[], settled: boolean, answer: string): void => {
    const change = { master: 'a', from: ['a', 'b', 'c'], to, settled }
    t.equal(RULES.mayChangeVoters(change), answer, `${to.join()} ${settled ? 'settled' : 'open'}`)
  }
  check(['a', 'b', 'c', 'd'], true, 'yes')
  check(['a', 'b'], true, 'yes')
  check(['a', 'b'], false, 'voters_busy')
  check(['b', 'c'], true, 'voters_self')
  check(['a', 'b', 'c'], true, 'voters_invalid')
  check(['a', 'b', 'd'], true, 'voters_invalid')
  check(['a', 'b', 'c', 'd', 'e'], true, 'voters_invalid')
  check(['a', 'b', 'c', 'd', 'd'], true, 'voters_invalid')
  check([], true, 'voters_invalid')
  t.end()
})

t.test('timing', (t) => {
  t.equal(DEFAULT_TIMING.campaign, 3000)
  const { heartbeat, silence, campaign, settle, preVote, sticky, vote, stall } = DEFAULT_TIMING
  t.same([heartbeat, silence, campaign, settle, preVote, sticky, vote, stall],
    [2000, 6000, 3000, 200, 500, 2500, 1000, 1500])
  t.equal(timingWith({ campaign: 50 }).campaign, 50)
  const refused = (overrides: object, message: RegExp): void => {
    t.throws(() => timingWith(overrides), { name: 'RangeError', message })
  }
  refused({ vote: 0 }, /timing\.vote is 0/)
  refused({ settle: NaN }, /timing\.settle is NaN/)
  refused({ heartbeat: 7000 }, /timing\.heartbeat \(7000 ms\) must be below timing\.silence/)
  refused({ sticky: 1000 }, /timing\.heartbeat .* must be below timing\.sticky/)
  refused({ stall: 6000 }, /timing\.stall/)
  t.end()
})

t.test('session ids differ in each part', (t) => {
  const id = (term: number, master: string, boot: number, chance: number): string =>
    newSessionId(term, master, boot, () => chance)
  const all = [id(1, 'a', 1, 0), id(2, 'a', 1, 0), id(1, 'b', 1, 0), id(1, 'a', 2, 0), id(1, 'a', 1, 0.5)]
  t.equal(new Set(all).size, all.length)
  t.ok(all.every((sid) => /^[a-z2-7]+$/.test(sid)), 'base32')
  t.equal(id(1, 'a', 1, 0), all[0], 'and depend on nothing else')
  t.not(id(2 ** 33, 'a', 1, 0), id(2 ** 34, 'a', 1, 0), 'terms beyond 32 bits too')
  t.end()
})

t.test('who has resigned', (t) => {
  const leader: Leader = { sid: 's', master: 'm', term: 5, boot: 2 }
  const beat = {
    kind: 'heartbeat',
    count: 1,
    boot: 2,
    role: 'follower',
    leader: null,
    promised: 5,
    fresh: { term: 5, seq: 1 },
    followers: [],
    age: 0,
    durable: true
  } as const
  const check = (what: string, is: boolean, change: object): void => {
    t.equal(RULES.hasResigned(leader, { ...beat, ...change }), is, what)
  }
  check('a follower with the promise of that term', true, {})
  check('follows another one', true, { leader: { ...leader, sid: 't', master: 'x' } })
  check('a later start', true, { boot: 3, promised: 4, role: 'claim' })
  check('an earlier start', false, { boot: 1 })
  check('still master', false, { role: 'master', leader })
  check('a beat from before its promise', false, { promised: 4 })
  check('a beat from while it claimed', false, { role: 'claim' })
  t.end()
})
