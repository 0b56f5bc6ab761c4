import t from 'tap'
import { lacks, toolContext } from '../../../kernel/testing/index.js'
import { recorded } from '../../../test/recorded.js'
import node from '../tools/node.js'
import plugins from '../tools/plugins.js'
import settings from '../tools/settings.js'

const NOW = '2026-11-23T20:58:00.000Z'
const texts = ({ facts }: { facts: readonly { text: string }[] }): string[] => facts.map(({ text }) => text)

t.test('one node: there, its machine, what runs there, its links', async (t) => {
  const finding = await node.run(toolContext(recorded('three-nodes'), NOW), { node: 'VM' })
  t.same(finding.unknown, [])
  t.match(finding.facts, [
    {
      level: 'ok', code: 'node_live', about: ['vm'],
      text: 'vm is live, version 0.1.0, the master and the node that is asked.'
    },
    { code: 'machine', text: /^vm has .* of memory free, .* of disk free, its processors \d+ % busy\.$/ },
    { code: 'runs', about: ['vm', 'svc/guide', String], text: 'svc/guide is placed on vm (RunnerReady).' },
    { code: 'runs', text: 'svc/voice-en is placed on vm (RunnerReady).' },
    { code: 'links', text: /^vm is [\d.]+ ms from node2, [\d.]+ ms from node3\.$/ }
  ])
  const idle = await node.run(toolContext(recorded('three-nodes'), NOW), { node: 'node2' })
  t.ok(texts(idle).includes('No model is placed on node2.'))
})

t.test('a lost node, and one that nobody knows', async (t) => {
  const lost = await node.run(toolContext(recorded('node-lost'), NOW), { node: 'node3' })
  t.match(lost.facts[0], {
    level: 'fail', code: 'node_lost', text: 'node3 is lost for 14s.', remedy: /`svc members remove 4d92aaa7-/
  })
  const near = await node.run(toolContext(recorded('three-nodes'), NOW), { node: 'nodee3' })
  t.match(near.facts,
    [{ code: 'node_unknown', text: 'No node is called nodee3; node3 is. There are node2, node3, vm.' }])
})

t.test('settings: those that are set, one by its path or its end, secrets as they come', async (t) => {
  const ask = async (path?: string): Promise<string[]> => texts(await settings.run(
    toolContext(recorded('request-failed'), NOW), path === undefined ? {} : { path }))
  t.same(await ask(), ['name is "node2" (from command line).', 'api.port is 47130 (from command line).'])
  t.same(await ask('cluster.quorum'), ['cluster.quorum is 1 (the default).'])
  t.same(await ask('heartbeat_ms'), ['cluster.heartbeat_ms is 2000 (the default).'])
  t.equal((await ask('cluster')).length, 5)
  t.same(await ask('tracing.otlp_headers'), ['tracing.otlp_headers is "********" (the default).'])
  t.same(await ask('cluster.qorum'),
    ['There is no setting cluster.qorum in force; the nearest is cluster.quorum.'])
  const { '/config': config } = recorded('request-failed') as unknown as Record<string, object>
  const edited = toolContext({ '/config': { ...config, restart_needed: true } }, NOW)
  t.match((await settings.run(edited, { path: 'name' })).facts, [
    {
      level: 'warn', code: 'restart_needed', text: /^\/srv\/svc2\/svc.yaml has changed since/,
      remedy: /`svc restart`/
    },
    { text: 'name is "node2" (from command line).' }
  ])
  const none = await settings.run(toolContext({ '/config': lacks('operator') }, NOW), {})
  t.same(none, { facts: [], unknown: ['The settings could not be read: that needs the authority operator.'] })
})

t.test('plugins that are on, and the commands that bring back those that are off', async (t) => {
  const { '/v1/plugins': list } = recorded('three-nodes') as unknown as
    Record<string, { plugins: { name: string }[] }>
  const all = list!.plugins
  t.match(texts(await plugins.run(toolContext({ '/v1/plugins': list }, NOW))),
    [/^11 of 11 plugins are on: access, tracing, event-log, .*diagnostics\.$/])
  const why: Readonly<Record<string, string>> = {
    'event-log': 'plugin "event-log" is disabled; `svc plugin enable event-log` brings it back',
    staging: 'plugin "staging" is off because it requires "event-log", which is disabled; `svc …`'
  }
  const some = all.map((one) => one.name in why ? { ...one, enabled: false, why: why[one.name] } : one)
  const { facts } = await plugins.run(toolContext({ '/v1/plugins': { plugins: some } }, NOW))
  t.match(facts, [
    { text: /^9 of 11 plugins are on/ },
    {
      code: 'plugin_off', about: ['event-log'],
      text: 'The plugin event-log is off: somebody switched it off.',
      remedy: 'Switch it on with `svc plugin enable event-log` and restart the node.'
    },
    { text: 'The plugin staging is off: it needs event-log, which is off.', remedy: /enable event-log/ }
  ])
  const none = await plugins.run(toolContext({ '/v1/plugins': lacks('plugin:read') }, NOW))
  t.same(none.unknown, ['The plugins could not be read: that needs the authority plugin:read.'])
})
