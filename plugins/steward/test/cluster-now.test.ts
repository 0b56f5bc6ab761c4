import t from 'tap'
import { lacks, refusal, toolContext } from '../../../kernel/testing/index.js'
import { recorded } from '../../../test/recorded.js'
import clusterNow from '../tools/cluster-now.js'

const NOW = '2026-11-23T20:26:30.000Z'

t.test('who is master and since when, and that all is well', async (t) => {
  const { facts, unknown } = await clusterNow.run(toolContext(recorded('three-nodes'), NOW))
  t.same(unknown, [])
  t.match(facts, [
    {
      level: 'ok', code: 'master', about: ['vm'],
      text: 'vm is master since 20:21:37 UTC (for 4m53s), in term 1, the node that is asked.',
      evidence: [{ kind: 'event', idx: 4, name: 'MasterElected' }, { kind: 'node', name: 'vm' }]
    },
    { level: 'ok', code: 'nodes', text: '3 of 3 nodes are live: node2, node3, vm.' },
    { level: 'info', code: 'session', text: 'This session has term 1; quorum is ok.' }
  ])
  t.notOk(facts.some(({ level }) => level === 'fail' || level === 'warn'))
})

t.test('a lost node, with the commands that mend it', async (t) => {
  const { facts } = await clusterNow.run(toolContext(recorded('node-lost'), NOW))
  t.match(facts.find(({ code }) => code === 'node_lost'), {
    level: 'fail', code: 'node_lost', about: ['node3'], text: 'node3 is lost for 14s.',
    remedy: 'Start it with `svc up`; if it will not return: ' +
      '`svc members remove 4d92aaa7-d542-41ab-9a31-a971db937e17`.'
  })
  t.match(facts.find(({ code }) => code === 'nodes'),
    { level: 'info', text: /^2 of 3 nodes are live: node2, vm\.$/ })
})

t.test('another master: since its own election', async (t) => {
  const { facts } = await clusterNow.run(toolContext(recorded('master-lost'), NOW))
  t.match(facts.find(({ code }) => code === 'master'),
    { text: 'node3 is master since 20:26:00 UTC (for 30s), in term 2.', evidence: [{ idx: 16421 }, {}] })
})

t.test('no master, for which the smaller half has a cause', async (t) => {
  const { '/state': state, ...rest } = recorded('node-lost') as unknown as Record<string, { cluster: object }>
  const none = (more: object): Record<string, unknown> => ({
    ...rest, '/state': { ...state, masterNodeId: null, cluster: { ...state!.cluster, ...more } }
  })
  const half = await clusterNow.run(toolContext(none({ quorum: 'lost', liveNodes: 1 }), NOW))
  t.notOk(half.facts.some(({ code }) => code === 'no_master' || code === 'master'))
  const soon = await clusterNow.run(toolContext(none({}), NOW))
  t.ok(soon.facts.some(({ code, level }) => code === 'no_master' && level === 'fail'))
  t.same(soon.unknown, [])
})

t.test('without authority or event log it says what it does not know', async (t) => {
  const { '/state': state } = recorded('three-nodes')
  const asked = async (answers: object): Promise<readonly string[]> =>
    (await clusterNow.run(toolContext({ '/state': state, ...answers }, NOW))).unknown
  t.same(await asked({ '/events?': lacks('operator'), '/cluster/members': lacks('operator') }),
    ['The time of the last election could not be read: that needs the authority operator.'])
  const off = refusal(404, 'plugin_disabled', 'The plugin "event-log" is off.', { plugin: 'event-log' })
  t.same(await asked({ '/events?': off, '/cluster/members': lacks('operator') }),
    ['The time of the last election could not be read: the plugin event-log is off; ' +
      '`svc plugin enable event-log` switches it on.'])
  t.match(await asked({ '/events?': { events: [] }, '/cluster/members': lacks('operator') }),
    [/^Since when it is master is not known/])
})
