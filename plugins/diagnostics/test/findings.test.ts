import t from 'tap'
import { declaredBy } from '../../../kernel/cli/declared.js'
import { lacks, startPlugin, toolContext } from '../../../kernel/testing/index.js'
import { recorded } from '../../../test/recorded.js'
import { bundled } from '../../index.js'
import { findings } from '../findings.js'
import diagnostics from '../index.js'

const lost = recorded('node-lost') as Record<string, object>
const well = recorded('three-nodes') as Record<string, object>
const NOW = '2026-11-23T20:26:30.000Z'
const manifests = bundled.map(({ manifest }) => manifest)
const context = (name: string, more: object = {}): Parameters<typeof findings>[0] => ({
  ...toolContext({ ...recorded(name), '/readyz': { ready: true, checks: [] }, ...more }, NOW),
  declared: async () => declaredBy(manifests)
})

t.test('a lost node is one present finding, and its loss an ended one', async (t) => {
  const { facts } = await findings(context('node-lost'))
  t.match(facts.find(({ code }) => code === 'node_lost'), {
    level: 'fail', about: ['node3'], ended: false, cause: null, source: 'checks', since: /^2026-11-23T20:25/,
    remedy: /svc members remove/
  })
  t.match(facts.find(({ code }) => code === 'node_timed_out'),
    { ended: true, source: 'events', evidence: [{ kind: 'event', name: 'NodeTimedOut' }] })
  const rank = ['fail', 'warn', 'info', 'ok']
  t.strictSame(facts.map(({ level }) => rank.indexOf(level)),
    facts.map(({ level }) => rank.indexOf(level)).sort())
})

t.test('each caller sees only what it could read itself', async (t) => {
  const tokens = { tokens: [{ id: 'a', label: 'laptop', authorities: ['read'], revoked: false,
    lastUsedDay: null,
    created: '2026-10-01T00:00:00Z', expires: '2026-11-01T00:00:00Z' }] }
  const table: [path: string, authority: string, answer: object, code: string][] = [
    ['/v1/tokens', 'operator', tokens, 'token_expired'],
    ['/events?', 'operator', lost['/events?']!, 'node_timed_out'],
    ['/v1/diagnostics/cluster?', 'operator', well['/v1/diagnostics/cluster']!, 'clocks'],
    ['/cluster/members', 'operator', lost['/cluster/members']!, 'members_listener']
  ]
  for (const [path, authority, answer, code] of table) {
    const seen = await findings(context('node-lost', { [path]: answer }), 0)
    t.match(seen.facts.find((one) => one.code === code), { authority }, `${path} is seen`)
    const hidden = await findings(context('node-lost', { [path]: lacks(authority) }), 0)
    t.equal(hidden.facts.find((one) => one.code === code), undefined, `${path} is hidden`)
    t.match(hidden.unknown.join(' '), /authority/, `${path}: what was not read is said`)
  }
})

t.test('the route filters by subject, and refuses a time that is none', async (t) => {
  const rig = await startPlugin(t, diagnostics)
  const answer = await rig.inject({ url: '/v1/findings?subject=nobody' })
  t.match([answer.statusCode, answer.json()], [200, { findings: [], unknown: [] }])
  t.match((await rig.inject({ url: '/v1/findings?since=soon' })).json(),
    { error: { code: 400, param: 'since' } })
})
