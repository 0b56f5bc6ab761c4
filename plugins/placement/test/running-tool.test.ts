import t from 'tap'
import { lacks, toolContext } from '../../../kernel/testing/index.js'
import { lookedAt } from '../../../kernel/cli/index.js'
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

t.test('policies that are not met', async (t) => {
  const policy = (min: number, over: object = {}) => ({ replicas: { min, max: 3, target_open: 2 }, ...over })
  const failure = (model: string, at: string) => ({ modelId: model, errorMessage: `${model} is damaged.`,
    recordedAt: at, instanceId: 'x', errorCode: 'load_failed', affectedNodeIds: [] })
  const { '/state': state } = recorded('three-nodes') as unknown as { '/state': object }
  const policies = {
    'svc/guide': policy(1), 'svc/voice-en': policy(2), 'acme/none': { demand: true }, 'acme/big': policy(1),
    'acme/bad': policy(2), 'acme/new': policy(1), 'acme/rests': policy(1, { stopped: true }),
    'acme/idle': { demand: true }, 'acme/starts': policy(1)
  }
  const instanceFailures = [failure('acme/bad', NOW), failure('acme/new', '2026-11-23T20:30:00.000Z')]
  const paths: string[] = []
  const previews: Record<string, object[]> = {
    'svc/voice-en': [{ error: 'M may not be.', reason: 'exclusions_removed_all' }],
    'acme/big': [{ error: 'It needs 9 GiB.', reason: 'insufficient_memory' }, { error: 'x', reason: 'y' }],
    'acme/bad': [{ error: 'no', reason: 'x' }, { error: null, reason: null }],
    'acme/new': [{ error: null, reason: null }], 'acme/idle': [{ error: 'no', reason: 'x' }],
    'acme/starts': [{ error: 'pending', reason: 'info_pending' }]
  }
  const context = toolContext({ '/state': { ...state, policies, instanceFailures } }, NOW)
  const { facts } = await running.run({
    ...context, look: (async (path: string) => {
      if (!path.startsWith('/instance/previews?')) return await context.look(path)
      paths.push(path)
      const rows = previews[new URLSearchParams(path.split('?')[1]).get('model_id')!]
      return lookedAt(rows === undefined ? 400 : 200, JSON.stringify(rows === undefined
        ? { error: { code: 400, reason: 'model_unknown', message: 'm' } } : { previews: rows }))
    }) as typeof context.look
  })
  const told = (model: string, n: string, why: string) =>
    `The policy of ${model} is not met: ${n}${why}.`
  const unmet = facts.filter(({ code }) => code === 'policy_unmet')
  t.strictSame(unmet.map(({ text, remedy }) => [text, remedy]), [
    [told('svc/voice-en', '1 of at least 2 instances run: ', 'no other live node can run it'),
      'Ask for fewer: `svc policy svc/voice-en --replicas 1-3`; or add memory.'],
    [told('acme/bad', '0 of at least 2 instances run: ', 'acme/bad is damaged'),
      'Find the cause with `svc why acme/bad`.'],
    [told('acme/big', '0 of at least 1 instance run: ', 'It needs 9 GiB'),
      'Ask for fewer: `svc policy acme/big --replicas 0-3`; or add memory.'],
    [told('acme/none', '', 'no model has this name'),
      'Download it: `svc pull acme/none`.']
  ])
  t.match(paths[0], /model_id=svc%2Fvoice-en.*&excluded_nodes=[^&]+/, 'not where it runs')
})

t.test('what it may not see', async (t) => {
  const { facts, unknown } = await running.run(toolContext({ '/state': lacks('read') }, NOW))
  t.same(facts, [])
  t.same(unknown, ['The state of the cluster could not be read: that needs the authority read.'])
})
