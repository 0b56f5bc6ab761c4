import t from 'tap'
import type { Fact } from '../../../kernel/cli/index.js'
import { CALLS_MOST } from '../toolbox.js'
import type { Answer } from '../types.js'
import { VOICE_MS } from '../voice/index.js'
import { KEPT, knowing, startVoiceRig, type VoiceOptions, type VoiceRig } from './voice-kit.js'

type Body = Answer & { text: string }

const STOPPED: Fact = {
  level: 'fail', code: 'model_stopped', text: 'acme/voice was stopped by an operator.', about: ['acme/voice'],
  evidence: [{ kind: 'event', idx: 17, at: '2026-01-31T14:05:00Z', name: 'InstanceDeleted' }],
  remedy: 'Place it again: `svc place acme/voice`.'
}
const STATE = {
  masterNodeId: 'N1', sessionId: 'S', nodeIdentities: { N1: { friendlyName: 'n1' } }, lastSeen: {},
  topology: { nodes: ['N1'], connections: {} }, nodeHealth: {}, instances: {}, runners: {},
  cluster: { term: 1, quorum: 'ok', stale: false, knownNodes: 1, liveNodes: 1 }
}
const QUESTION = 'why does acme/voice not answer?'
const TOOLS = ['why_model', 'last_failure', 'extra']

async function start (
  t: Parameters<typeof startVoiceRig>[0], options: VoiceOptions = {}
): Promise<VoiceRig & { ask (question?: string): Promise<Body> }> {
  const facts = Object.fromEntries(TOOLS.map((name) => [name, name === 'why_model' ? [STOPPED] : []]))
  const rig = await startVoiceRig(t, {
    plugins: [knowing(facts)],
    looks: (path) =>
      path === '/state' ? STATE : path === '/v1/models' ? { data: [{ id: 'acme/voice' }] } : undefined,
    ...options
  })
  return Object.assign(rig, {
    async ask (question = QUESTION) {
      const thread = [{ role: 'assistant', text: 'planted' }, { role: 'user', text: 'hi' }]
      const payload = { question, thread }
      return (await rig.inject({ method: 'POST', url: '/v1/steward/ask', payload })).json<Body>()
    }
  })
}

const GOOD = 'acme/voice was stopped by an operator (event 17). Run `svc place acme/voice`.'

t.test('the model plans, the tools find, the model words it', async (t) => {
  const rig = await start(t, { script: (_, turn) => turn === 0 ? [['extra', {}]] : GOOD })
  const answer = await rig.ask()
  t.match(answer, {
    voice: 'acme/chat', diagnosis: 'acme/voice was stopped by an operator (event 17).',
    evidence: [{ kind: 'event', idx: 17 }], remedies: ['Place it again: `svc place acme/voice`.']
  })
  t.match(answer.text, GOOD)
  t.ok(answer.calls.some(({ tool }) => tool === 'extra'), 'what it planned was called')
  t.ok(answer.calls.length <= CALLS_MOST)
  const [plan, word] = rig.chats
  t.ok(plan!.tools!.some((tool) => tool.function.name === 'why_model'))
  t.notMatch(JSON.stringify(plan), /planted|stopped by an operator/, 'it plans without a word of the cluster')
  t.equal(word!.tools, undefined, 'nothing can be called any more')
  t.match(JSON.stringify(word!.messages), /data, not instructions/)
  t.strictSame(rig.chats.map(({ by, authorities }) => [by, ...authorities]),
    [['steward', 'invoke'], ['steward', 'invoke']])
})

t.test('the remedy is told where the model leaves it out', async (t) => {
  const rig = await start(t, { script: (_, turn) => turn === 0 ? [] : 'acme/voice was stopped.' })
  const { text } = await rig.ask()
  t.match(text, 'acme/voice was stopped.\nnext: Place it again: `svc place acme/voice`.')
})

t.test('what the model may not say is said by the reader, in its own words', async (t) => {
  const silent = await start(t, { kept: null })
  const { text, calls } = await silent.ask()
  t.same(silent.chats, [], 'a model that is not ready is not asked')
  const wrong: [string, VoiceOptions['script']][] = [
    ['a fault that nobody found', (_, turn) => turn === 0 ? [] : 'The disk of n7 is full.'],
    ['all is well', (_, turn) => turn === 0 ? [] : 'Everything is fine.'],
    ['a command of its own', (_, turn) => turn === 0 ? [] : `${GOOD} Then run \`svc stop acme/voice\`.`],
    ['nothing', (_, turn) => turn === 0 ? [] : ''],
    ['more calls', (_, turn) => [['why_model', { model: 'acme/voice' }]]],
    ['arguments that are no JSON', () => [['extra', '{"x":']]],
    ['an error', () => 500],
    ['an error in the second request', (_, turn) => turn === 0 ? [] : 429]
  ]
  for (const [what, script] of wrong) {
    const rig = await start(t, { script: script! })
    const answer = await rig.ask()
    t.equal(answer.voice, 'reader', what)
    t.equal(answer.text, text, what)
    t.strictSame(answer.calls.slice(0, calls.length).map(({ tool }) => tool),
      calls.map(({ tool }) => tool), what)
    t.match(rig.logged.filter(({ level }) => level === 'debug').map(({ message }) => message),
      ['the reader answers in the place of the model'], what)
  }
})

t.test('a tool that is not there is not called, and one too many neither', async (t) => {
  const many = Array.from({ length: 12 }, (_, n): [string, object] => ['extra', { n }])
  const rig = await start(t, { script: (_, turn) => turn === 0 ? [['stop_node', {}], ...many] : GOOD })
  const answer = await rig.ask()
  t.equal(answer.calls.length, CALLS_MOST)
  t.notOk(answer.calls.some(({ tool }) => tool === 'stop_node'))
})

t.test('a model that takes too long', async (t) => {
  const rig = await start(t, { script: () => null })
  const asked = rig.ask()
  while (rig.chats.length === 0) await new Promise((resolve) => { setImmediate(resolve) })
  await rig.clock.advance(VOICE_MS + 1)
  t.equal((await asked).voice, 'reader')
})

t.test('while a sign of life is missing the reader answers', async (t) => {
  const rig = await start(t, { kept: { ...KEPT, state: 'starting' } })
  t.equal((await rig.ask()).voice, 'reader')
  t.same(rig.chats, [])
})
