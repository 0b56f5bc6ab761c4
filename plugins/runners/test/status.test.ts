import t from 'tap'
import { cli, sendError, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import diagnostics from '../../diagnostics/index.js'
import runners from '../index.js'

const instance = (modelId: string, runner: string): object =>
  ({ RingInstance: { shardAssignments: { modelId, runnerToShard: { [runner]: {} } } } })

const state = {
  masterNodeId: 'n1', localNodeId: 'n1', nodeCapabilities: {}, nodeHealth: {},
  nodeIdentities: { n1: { friendlyName: 'attic', svcVersion: '0.1.0', apiUrl: null } },
  instances: {
    i1: instance('acme/ready', 'r1'), i2: instance('acme/loads', 'r2'), i3: instance('acme/loads', 'r2'),
    i4: instance('acme/older', 'r2'), i5: instance('acme/again', 'r2')
  },
  runners: { r1: { RunnerReady: {} }, r2: { RunnerLoading: {} } },
  waitingInstances: { w1: { modelId: 'acme/waits' } }
}

t.test('status: what does not serve, with the link that is broken and what mends it', async (t) => {
  const answer = (model_id: string, message: string): object =>
    ({ model_id, available: false, broken_link: 'placement', message, remedy: 'Do this.', links: [] })
  const { url, asked } = await standIn(t, {
    'GET /state': (response) => { sendJson(response, state) },
    'GET /readyz': (response) => { sendJson(response, { checks: [] }) },
    'GET /models/acme/loads/availability': (response) => {
      sendJson(response, answer('acme/loads', 'it\u001bloads'))
    },
    'GET /models/acme/waits/availability': (response) => {
      sendJson(response, answer('acme/waits', 'it waits for a node: too small'))
    },
    'GET /models/acme/older/availability': (response) => { sendError(response, 404, 'not_found') },
    'GET /models/acme/again/availability': (response) => {
      sendJson(response, { ...answer('acme/again', ''), available: true })
    }
  })
  const { status, out } = await cli(['status', '--url', url], { plugins: [diagnostics, runners] })
  t.equal(status, 0)
  t.match(out, 'acme/loads: it loads [placement]\n  Do this.\n' +
  'acme/waits: it waits for a node: too small [placement]\n  Do this.\n')
  t.notMatch(out, /acme\/(ready|older|again):/)
  t.equal(asked.filter((one) => one.url === '/models/acme/loads/availability').length, 1, 'each model once')
  t.match(out, /\nInstances: 1 of 5 ready\n/)
  const answered = await cli(['status', '--json', '--url', url], { plugins: [diagnostics, runners] })
  const { instances, unavailable } = JSON.parse(answered.out)
  t.match(instances.slice(0, 2), [
    { instanceId: 'i1', modelId: 'acme/ready', ready: true }, { ready: false }
  ])
  const said = [['acme/loads', 'it\u001bloads'], ['acme/waits', 'it waits for a node: too small']]
  t.strictSame(unavailable, said.map(([modelId, message]) =>
    ({ modelId, brokenLink: 'placement', message, remedy: 'Do this.' })))
})
