import t from 'tap'
import { decide, MOVES_MAX } from '../keeper/decide.js'
import type { Situation } from '../keeper/roles.js'
import { entry, instance, intent, judge, ready, short, situation } from './keeper-kit.js'
import { bodyOf } from '../../runners/service.js'

const A = instance('a', ['id-n1'])
const failure = (over: object = {}) => ({
  instanceId: 'a', errorCode: 'insufficient_memory', errorMessage: 'Too little', affectedNodeIds: ['id-n1'],
  ...over
})
const auto = intent({ origin: 'autoplace' })
const gone = new Set(['id-n1'])
const failedOn = (...nodes: string[]) => instance('a', ['id-n1'], { placement: intent({ failedOn: nodes }) })
const drained = instance('a', ['id-n1'], { drainUntil: '2026-01-01T00:00:10.000Z' })
const drain = new Set(['id-n1'])
const replica = instance('a', ['id-n1'], { placement: intent({ replica: '2026-01-01T00:00:00.000Z' }) })
const policies = new Set(['acme/chat'])
const moving = intent({ moves: 'a' })
const next = instance('b', ['id-n2'], { placement: moving })
const waits = (...entries: [string, Parameters<typeof entry>[0]?][]) =>
  new Map(entries.map(([id, over]) => [id, entry(over)]))

const table: [string, Partial<Situation>, string[], (() => boolean)?][] = [
  ['nothing to do', {}, []],
  ['all is well', { instances: [A], runners: ready(A) }, []],
  ['a node that is gone', { instances: [A], gone }, ['lose a', 'place a']],
  ['one node of two that is gone', { instances: [instance('a', ['id-n2', 'id-n1'])], gone },
    ['lose a', 'place a']],
  ['a link that is cut', { instances: [A], cut: new Map([['a', 'The link is cut.']]) },
    ['lose a', 'place a'], () => false],
  ['a link that is cut, told late: it serves', {
    instances: [A], runners: ready(A), cut: new Map([['a', 'The link is cut.']])
  }, []],
  ['another node that is gone', { instances: [A], gone: new Set(['id-n2']) }, []],
  ['a node that is going to stop', { instances: [A], runners: ready(A), leaving: gone },
    ['move a', 'place a']],
  ['a node that is going to stop, with no other place', { instances: [A], leaving: gone }, [], () => false],
  ['a master died after it entered the move', {
    instances: [A], leaving: gone, waiting: waits(['a'])
  }, ['remove a', 'place a']],
  ['what moves is placed while it ends', { instances: [drained], leaving: gone, waiting: waits(['a']) },
    ['place a']],
  ['what was moved ends by itself', {
    instances: [drained, instance('b', ['id-n2'], { placement: intent({ replaces: 'a' }) })],
    leaving: gone, waiting: waits(['a'])
  }, ['forget a']],
  ['a node that was going to stop and is gone', { instances: [A], leaving: gone, gone },
    ['lose a', 'place a']],
  ['what is being stopped is not placed again', { instances: [drained], gone }, ['remove a']],
  ['a node that is drained: another one first', { instances: [A], runners: ready(A), drained: drain },
    ['wait new-0', 'place new-0']],
  ['what is to take over has no place yet', { instances: [A], drained: drain,
    waiting: waits(['w', { intent: moving }]) }, ['place w']],
  ['it starts', { instances: [A, next], runners: ready(A), drained: drain }, []],
  ['it serves', { instances: [A, next], runners: ready(next), drained: drain }, ['drain a']],
  ['it serves, and the one before ends', { instances: [drained, next], runners: ready(next), drained: drain },
    []],
  ['it failed, and goes elsewhere', {
    instances: [A, next], drained: drain, failures: [failure({ instanceId: 'b', affectedNodeIds: ['id-n2'] })]
  }, ['lose b', 'place b']],
  ['the drained node is lost meanwhile', { instances: [A, next], gone, drained: drain }, ['remove a']],
  ['the drained node is lost before there was a place', { instances: [A], gone, drained: drain,
    waiting: waits(['w', { intent: moving }]) }, ['remove a', 'place w']],
  ['it is drained no more', { instances: [A, next], runners: ready(A) }, ['remove b']],
  ['it is drained no more, before there was a place', { instances: [A],
    waiting: waits(['w', { intent: moving }]) }, ['forget w']],
  ['a model that is placed by itself moves too', {
    instances: [instance('a', ['id-n1'], { placement: auto })], drained: drain, autoplace: ['acme/chat'],
    waiting: waits(['w', { intent: { ...auto, moves: 'a' } }])
  }, ['place w']],
  ['another node is drained', { instances: [A], drained: new Set(['id-n2']) }, []],
  ['what is kept for a role is one: it ends first', {
    instances: [instance('a', ['id-n1'], { placement: intent({ systemRole: 'x' }) })], drained: drain,
    roles: new Map([['x', { models: ['acme/chat'], waits: false }]])
  }, ['move a', 'place a']],
  ['a failure, with a place elsewhere', { instances: [A], failures: [failure()] }, ['lose a', 'place a']],
  ['a failure, with none', { instances: [A], failures: [failure()] }, [], () => false],
  ['a failure of long ago: it serves', { instances: [A], runners: ready(A), failures: [failure()] }, []],
  ['a failure of something else', { instances: [A], failures: [failure({ instanceId: 'b' })] }, []],
  ['a failure of what is being stopped', { instances: [drained], failures: [failure()] }, []],
  ['the second move', { instances: [failedOn('x')], failures: [failure()] }, ['lose a', 'place a']],
  ['no third move', { instances: [failedOn('x', 'y')], failures: [failure()] }, []],
  ['after the moves a lost node still counts', { instances: [failedOn('x', 'y')], gone },
    ['lose a', 'place a']],
  ['a replica without a policy is moved after a failure', { instances: [replica], failures: [failure()] },
    ['lose a', 'place a']],
  ['with one, the policy replaces it', { instances: [replica], failures: [failure()], policies },
    ['retire a']],
  ['what waits is placed', { waiting: waits(['a']) }, ['place a']],
  ['a master died after it entered the loss', { instances: [A], waiting: waits(['a']) },
    ['remove a', 'place a']],
  ['a master died after it placed', {
    instances: [instance('b', ['id-n2'], { placement: intent({ replaces: 'a' }) })], waiting: waits(['a'])
  }, ['forget a']],
  ['a master died, and what it placed is lost by now', {
    instances: [instance('b', ['id-n1'], { placement: intent({ replaces: 'a' }) })], gone,
    waiting: waits(['a'])
  }, ['forget a', 'lose b', 'place b']],
  ['an entry that has a successor is done', { waiting: waits(['a'], ['b', { replaces: 'a' }]) },
    ['forget a', 'place b']],
  ['what was replaced and is there again goes', {
    instances: [A, instance('b', ['id-n2'], { placement: intent({ replaces: 'a' }) })]
  }, ['remove a']],
  ['a model that is placed by itself', { autoplace: ['acme/chat', 'acme/x'], instances: [A] },
    ['wait new-0', 'place new-0']],
  ['a model that is placed by itself, and waits', { autoplace: ['acme/chat'], waiting: waits(['a']) },
    ['place a']],
  ['a model that is placed by itself, and is just lost', { autoplace: ['acme/chat'], instances: [A], gone },
    ['lose a', 'place a']],
  ['a model that is placed by itself, and was stopped', {
    autoplace: ['acme/chat'], stopped: new Set(['acme/chat'])
  }, []],
  ['it waits for a place by itself and is there by now', {
    instances: [A], waiting: waits(['w', { intent: auto }])
  }, ['forget w']],
  ['it waits for a place by itself and was stopped', {
    waiting: waits(['w', { intent: auto }]), stopped: new Set(['acme/chat'])
  }, ['forget w']],
  ['two masters had it placed by itself', {
    waiting: waits(['w', { intent: auto }], ['v', { intent: auto }])
  }, ['forget w', 'place v']],
  ['what somebody asked for twice is wanted twice', { waiting: waits(['w'], ['v']) }, ['place w', 'place v']],
  ['what is stopped by hand is no matter of the stopped models', {
    waiting: waits(['w']), stopped: new Set(['acme/chat'])
  }, ['place w']]
]
for (const [what, over, expected, fits] of table) {
  t.test(what, (t) => {
    t.strictSame(short(decide(situation(over), judge(fits))), expected)
    t.end()
  })
}

t.test('what an entry says', (t) => {
  const excluded = intent({ minNodes: 1, excluded: ['install-n3'], replaces: 'before' })
  const one = instance('a', ['id-n1'], { placement: excluded })
  const [lost] = decide(situation({ instances: [one], gone }), judge())
  t.strictSame(lost, { do: 'lose', id: 'a', entry: {
    modelId: 'acme/chat', intent: excluded, replaces: 'before', since: '2026-01-01T00:00:00.000Z',
    reason: 'node_lost', message: 'Its node n1 was lost.'
  } })
  const asked: unknown[] = []
  const [moved] = decide(situation({ instances: [one], failures: [failure()] }), judge((modelId, what) => {
    asked.push([modelId, what.failedOn])
    return true
  }))
  t.match(moved, { entry: { reason: 'insufficient_memory', message: 'Too little',
    intent: { failedOn: ['install-n1'] } } })
  t.strictSame(asked, [['acme/chat', ['install-n1']]])
  const [all] = decide(situation({
    instances: [instance('a', ['id-n1', 'id-n2'])], failures: [failure({ affectedNodeIds: [] })]
  }), judge())
  t.match(all, { entry: { intent: { failedOn: ['install-n1', 'install-n2'] } } }, 'no node is named')
  const given = instance('a', ['id-n1'])
  delete bodyOf(given).placement
  const [simple] = decide(situation({ instances: [given], gone }), judge())
  t.match(simple, { entry: { intent: intent(), replaces: null } }, 'one that was given as it is')
  t.equal(MOVES_MAX, 2)
  t.end()
})

t.test('an entry keeps a message of a length that the document takes', (t) => {
  const [step] = decide(situation({
    instances: [A], failures: [failure({ errorMessage: 'x'.repeat(5000) })]
  }), judge())
  t.equal((step as { entry: { message: string } }).entry.message.length, 500)
  t.end()
})
