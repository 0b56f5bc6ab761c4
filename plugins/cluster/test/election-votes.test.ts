/** Single messages to one node's election, for cases that the simulator's random runs may miss. */
import t from 'tap'
import { Election } from '../election/core.js'
import { RULES } from '../election/rules.js'
import { DEFAULT_TIMING } from '../election/timing.js'
import type { Leader, LogPosition, Message, MessageKind, MessageOf } from '../election/protocol.js'

const leader = (master: string, term: number, sid = `${master}${term}`): Leader =>
  ({ sid, term, master, boot: 1 })
const at = (term: number, seq: number): LogPosition => ({ term, seq })

/** The node `me` of three connected voters; `sent` holds the messages that it sent. */
function node (stores = true) {
  const sent: { to: string, message: Message }[] = []
  let last = at(0, 0)
  const none = (): void => {}
  const election = new Election({ id: 'me', quorum: 'majority', stored: null }, {
    send: (to, message) => { sent.push({ to, message }) },
    persist: () => stores, random: () => 0, terminal: none, commandResult: none, becameMaster: none,
    sessionChanged: none, storageChanged: none, staleRefused: none
  }, {
    last: () => last,
    voters: () => ['me', 'a', 'b'],
    append: ({ term }) => { last = at(term, last.seq + 1); return true },
    find: () => undefined,
    body: () => null,
    adopt: (body) => { last = body as LogPosition; return 'adopted' }
  })
  election.start(0)
  for (const peer of ['a', 'b']) election.up(peer, 0)
  sent.length = 0
  const of = <K extends MessageKind>(kind: K): MessageOf<K>[] =>
    sent.flatMap(({ message }) => message.kind === kind ? [message as unknown as MessageOf<K>] : [])
  return { election, of, position: () => last }
}

const follow = (election: Election, master: Leader, now: number): void => {
  const fresh = at(master.term, 1)
  election.receive(master.master, { kind: 'append', leader: master, fresh, body: fresh }, now)
}

t.test('a node that hears a master votes for no other', async (t) => {
  const { election, of } = node()
  follow(election, leader('a', 1), 10)
  election.receive('b', { kind: 'claim', leader: leader('b', 2), fresh: at(9, 9) }, 20)
  t.match(of('claim-answer'), [{ vote: 'no' }])
  t.equal(election.leader?.master, 'a')
  const later = 20 + DEFAULT_TIMING.silence
  election.receive('b', { kind: 'claim', leader: leader('b', 3), fresh: at(9, 9) }, later)
  t.match(of('claim-answer')[1], { vote: 'yes' }, 'and for another once it hears none')
})

t.test('an append of an older term of the same session changes nothing', async (t) => {
  const { election, position } = node()
  follow(election, leader('a', 3, 's'), 10)
  follow(election, leader('a', 5, 's'), 20)
  t.equal(election.leader?.term, 5)
  election.receive('a', { kind: 'append', leader: leader('a', 5, 's'), fresh: at(5, 2), body: at(5, 2) }, 30)
  election.receive('a', { kind: 'append', leader: leader('a', 3, 's'), fresh: at(9, 9), body: at(9, 9) }, 40)
  t.equal(election.leader?.term, 5)
  t.same(position(), at(5, 2))
})

t.test('nor on a disk that keeps no votes', async (t) => {
  const { election, position } = node(false)
  follow(election, leader('a', 5, 's'), 10)
  const old = { kind: 'append', leader: leader('a', 3, 's'), fresh: at(9, 9), body: at(9, 9) }
  election.receive('a', old, 20)
  t.equal(election.leader?.term, 5)
  t.same(position(), at(5, 1))
})

t.test('votes count for the session that asked for them', async (t) => {
  const { election, of } = node()
  let now = 0
  const until = (done: () => boolean): void => {
    while (!done()) {
      if (now > 60_000) throw new Error('it never came so far')
      now += 100
      election.tick(now)
      for (const peer of ['a', 'b']) election.recordContact(peer, now)
      const [question] = of('pre-vote').slice(-1)
      if (question !== undefined) {
        const grant = { kind: 'pre-vote-answer', round: question.round, grant: true, leader: null }
        for (const peer of ['a', 'b']) election.receive(peer, grant, now)
      }
    }
  }
  until(() => of('claim').length > 0)
  const { leader: mine } = of('claim').at(-1)!
  election.receive('a', { kind: 'claim-answer', sid: 'another', vote: 'yes', promised: mine.term }, now)
  t.equal(election.role, 'claim', 'a late vote of an earlier session')
  election.receive('a', { kind: 'claim-answer', sid: mine.sid, vote: 'yes', promised: mine.term }, now)
  t.equal(election.role, 'master')
})

t.test('when a master may go on without answers to its probe', async (t) => {
  const { silence } = DEFAULT_TIMING
  const cases = [
    ['a majority always asks', 'majority', silence + 1, 0, 0, false],
    ['alone from the start', 'available', 0, 0, 0, true],
    ['peers may only have closed their links', 'available', silence, 0, 2, false],
    ['and are gone after the silence', 'available', silence + 1, 0, 2, true],
    ['a live peer has to answer', 'available', silence + 1, 1, 2, false]
  ] as const
  for (const [what, mode, waited, alive, known, may] of cases) {
    t.equal(RULES.trustsSilence({ mode, waited, alive, known }, DEFAULT_TIMING), may, what)
  }
})
