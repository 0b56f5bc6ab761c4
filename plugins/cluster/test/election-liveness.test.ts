import t from 'tap'
import { Liveness } from '../election/liveness.js'
import { readMessage, type Heartbeat } from '../election/protocol.js'

const SILENCE = 6000
const beat = (boot: number, count: number): Heartbeat => ({
  kind: 'heartbeat',
  count,
  boot,
  role: 'follower',
  leader: null,
  promised: 0,
  fresh: { term: 0, seq: 0 },
  followers: [],
  age: 0,
  durable: true
})

t.test('who is alive', (t) => {
  type Step = readonly ['up' | 'down' | 'recordContact' | 'forgive', string, number]
  const closed: Step[] = [['up', 'a', 0], ['down', 'a', 10]]
  const check = (what: string, steps: readonly Step[], now: number, alive: string[]): void => {
    const liveness = new Liveness(SILENCE)
    for (const [act, id, at] of steps) {
      if (act === 'forgive') liveness.resetTimers(at)
      else liveness[act](id, at)
    }
    t.same(liveness.alive(now), alive, what)
  }
  check('nobody known', [], 0, [])
  check('connected', [['up', 'a', 0]], 5999, ['a'])
  check('silent', [['up', 'a', 0]], 6000, [])
  check('heard', [['up', 'a', 0], ['recordContact', 'a', 5000]], 10_999, ['a'])
  check('one of two silent', [['up', 'a', 0], ['up', 'b', 0], ['recordContact', 'b', 5000]], 7000, ['b'])
  check('closed is news at once', [['up', 'a', 0], ['down', 'a', 10]], 10, [])
  check('words on a closed connection do not open it', [...closed, ['recordContact', 'a', 11]], 12, [])
  check('open again', [...closed, ['up', 'a', 20]], 21, ['a'])
  check('own sleep is no silence of others', [['up', 'a', 0], ['forgive', '', 9000]], 10_000, ['a'])
  check('nor does it open what is closed', [...closed, ['forgive', '', 9000]], 9000, [])
  check('strangers do not count', [['recordContact', 'x', 0]], 1, [])
  t.end()
})

t.test('reports', (t) => {
  const liveness = new Liveness(SILENCE)
  liveness.up('a', 0)
  const check = (boot: number, count: number, taken: boolean): void => {
    t.equal(liveness.report('a', beat(boot, count)), taken, `boot ${boot}, count ${count}`)
  }
  check(1, 5, true)
  check(1, 5, false)
  check(1, 4, false)
  check(2, 1, true)
  check(1, 99, false)
  t.equal(liveness.latest('a')?.boot, 2)
  liveness.resetTimers(100)
  t.equal(liveness.latest('a'), null, 'what was heard before a sleep is old')
  check(2, 1, false)
  liveness.up('a', 200)
  check(2, 1, false)
  check(2, 2, true)
  t.equal(liveness.report('x', beat(1, 1)), false, 'nothing from strangers')
  liveness.forget('a')
  t.same(liveness.known(), [])
  t.end()
})

t.test('reading messages', (t) => {
  const leader = { sid: 's', master: 'a', term: 1, boot: 1 }
  const check = (what: string, value: unknown, fine: boolean): void => {
    t.equal(readMessage(value), fine ? value : null, what)
  }
  check('heartbeat', beat(1, 1), true)
  check('a field that is not known here', { ...beat(1, 1), colour: 'green' }, true)
  check('a kind that is not known here', { kind: 'census' }, false)
  check('a kind from the prototype', { kind: 'constructor' }, false)
  check('no kind', {}, false)
  check('null', null, false)
  check('a word', 'heartbeat', false)
  check('a list', [], false)
  check('a negative count', beat(1, -1), false)
  check('a term that is no whole number', { kind: 'stale', term: 1.5 }, false)
  check('a term beyond what numbers hold', { kind: 'stale', term: 2 ** 53 }, false)
  const fresh = { term: 0, seq: 0 }
  check('a claim', { kind: 'claim', leader, fresh }, true)
  check('a claim without a master', { kind: 'claim', leader: { ...leader, master: '' }, fresh }, false)
  check('a claim without freshness', { kind: 'claim', leader }, false)
  check('a vote that is none', { kind: 'claim-answer', sid: 's', vote: 'maybe', promised: 1 }, false)
  check('no master known', { kind: 'probe-answer', nonce: 1, leader: null, promised: 1 }, true)
  check('a command', { kind: 'command', id: 'c', sid: 's', change: { kind: 'command', payload: 1 } }, true)
  check('a command of no kind', { kind: 'command', id: 'c', sid: 's', change: { kind: 'sudo' } }, false)
  const answer = (outcome: object): object => ({ kind: 'command-answer', id: 'c', sid: 's', outcome })
  check('an answer', answer({ ok: true, sid: 's', term: 1, seq: 1 }), true)
  check('half an answer', answer({ ok: true, sid: 's' }), false)
  check('a refusal', answer({ ok: false, code: 'no_master' }), true)
  t.end()
})

t.test('whom a node follows is known from its heartbeat and from what it acknowledges', (t) => {
  const mine = { sid: 's2', term: 2, master: 'b', boot: 1 }
  const liveness = new Liveness(SILENCE)
  const leader = (now: number): string | null => liveness.recent('a', now)?.leader?.sid ?? null
  liveness.follows('a', mine)
  t.equal(liveness.recent('a', 0), null, 'an unknown node follows nobody')
  liveness.up('a', 0)
  liveness.follows('a', mine)
  t.equal(leader(0), null, 'nor does one that has not spoken')
  liveness.recordContact('a', 100)
  liveness.report('a', { ...beat(1, 1), leader: { sid: 's1', term: 1, master: 'c', boot: 1 } })
  t.equal(leader(100), 's1')
  liveness.recordContact('a', 200)
  liveness.follows('a', mine)
  t.equal(leader(200), 's2', 'what it acknowledged is newer than its heartbeat')
  liveness.recordContact('a', 200 + SILENCE)
  t.equal(leader(200 + SILENCE), null, 'after a silence its old words say nothing, whatever else was heard')
  liveness.report('a', { ...beat(1, 2), leader: { sid: 's3', term: 3, master: 'c', boot: 1 } })
  t.equal(leader(200 + SILENCE), 's3')
  t.end()
})
