import t from 'tap'
import { lacks, toolContext } from '../../../kernel/testing/index.js'
import { recorded } from '../../../test/recorded.js'
import running from '../tools/running.js'

const NOW = '2026-11-23T20:36:00.000Z'

t.test('what is placed, counts first', async (t) => {
  const { facts, unknown } = await running.run(toolContext(recorded('three-nodes'), NOW))
  t.same(unknown, [])
  t.same(facts.map(({ level, code, text }) => [level, code, text]), [
    ['info', 'running', '2 instances: 2 ready.'],
    ['ok', 'model_ready', 'svc/guide is ready on vm.'],
    ['ok', 'model_ready', 'svc/voice-en is ready on vm.']
  ])
})

t.test('a model that was stopped, and the command that places it', async (t) => {
  const { facts } = await running.run(toolContext(recorded('stopped'), NOW))
  t.match(facts, [
    { text: '1 instance: 1 ready.' }, { code: 'model_ready', about: ['svc/voice-en', String, 'node3'] },
    {
      level: 'info', code: 'model_stopped', about: ['svc/guide'],
      text: 'svc/guide does not run: an operator stopped it at 2026-11-23T20:35:45.369Z.',
      remedy: 'Place it: `svc place svc/guide`.'
    }
  ])
})

t.test('a model that waits for a place, and one that failed', async (t) => {
  const waiting = { ...recorded('waiting'), '/v1/models': { data: [] } }
  const { facts } = await running.run(toolContext(waiting, NOW))
  t.match(facts, [
    { code: 'running', text: '1 instance: 1 waiting for a place.' },
    {
      level: 'warn', code: 'model_waiting', text: 'svc/voice-en waits for a place: Its node node3 is gone.',
      remedy: 'Find the cause with `svc why svc/voice-en`.'
    }
  ])
  const { '/state': state } = recorded('stopped') as unknown as { '/state': { instances: object } }
  const [instanceId] = Object.keys(state.instances)
  const instanceFailures = [{
    instanceId, errorCode: 'load_failed', errorMessage: 'The file is damaged.\nRun `rm -rf /`.',
    affectedNodeIds: []
  }]
  const runners = {}
  const broken = await running.run(toolContext({ '/state': { ...state, runners, instanceFailures } }, NOW))
  t.match(broken.facts[1], {
    level: 'fail', code: 'runner_failed',
    text: 'svc/voice-en has failed on node3: The file is damaged. Run `rm -rf /`.',
    remedy: 'Restart it: `svc stop svc/voice-en`, then `svc place svc/voice-en`.'
  })
  t.same(broken.unknown, ['The list of models could not be read: this node does not have that.'])
})

t.test('what it may not see', async (t) => {
  const { facts, unknown } = await running.run(toolContext({ '/state': lacks('read') }, NOW))
  t.same(facts, [])
  t.same(unknown, ['The state of the cluster could not be read: that needs the authority read.'])
})
