import t from 'tap'
import { FAILURES_MOST, LOOK_MS, PROBE_MS, SILENCE_MS } from '../voice/liveness.js'
import { stateOf, type StatusFacts } from '../status.js'
import { wantedModels } from '../voice/choice.js'
import { card, KEPT, startVoiceRig } from './voice-kit.js'

const GUIDE = 'svc/guide'

t.test('which models will do', (t) => {
  const cards = [card(GUIDE, 9, false), card('acme/small', 1), card('acme/large', 8), card('acme/b', 1),
    { ...card('acme/voice', 20), tasks: ['tts'] }]
  const parts = {
    models: {
      cards: () => cards.map((one) => ({ card: one, origin: 'store' as const })),
      allCopies: () => new Map(cards.map(({ modelId }) => [modelId,
        [{ nodeId: 'n', nodeName: 'n', kind: 'store' as const, live: modelId !== 'acme/away' }]]))
    },
    isStopped: (id: string) => id === 'acme/b'
  }
  t.same(wantedModels(null, parts), { models: [], waits: false })
  t.same(wantedModels('acme/x', parts), { models: ['acme/x'], waits: true })
  t.same(wantedModels('acme/b', parts), { models: ['acme/b'], waits: true }, 'one that is set is meant')
  t.same(wantedModels('auto', parts), { models: ['acme/large', 'acme/small'], waits: false })
  cards.push(card('acme/away', 30))
  t.same(wantedModels('auto', parts).models, ['acme/large', 'acme/small'], 'its files are nowhere now')
  t.same(wantedModels('auto', { ...parts, models: undefined }).models, [])
  t.end()
})

t.test('the states', (t) => {
  const base: StatusFacts = { enabled: true, model: 'acme/chat', kept: KEPT, failed: 0 }
  const table: [string, Partial<StatusFacts>, string][] = [
    ['switched off', { enabled: false }, 'disabled'],
    ['without a model', { model: null, kept: null }, 'ready'],
    ['none fits', { model: 'auto', kept: null }, 'ready'],
    ['not placed yet', { kept: null }, 'starting'],
    ['waits for a place', { kept: { ...KEPT, state: 'waiting' } }, 'starting'],
    ['no place is found', { kept: { ...KEPT, state: 'waiting', problem: 'No model.' } }, 'degraded'],
    ['weights come', { kept: { ...KEPT, state: 'downloading' } }, 'downloading'],
    ['it loads', { kept: { ...KEPT, state: 'starting' } }, 'starting'],
    ['all runners are ready', {}, 'ready'],
    ['a probe failed', { failed: 1 }, 'degraded'],
    ['it cannot start', { kept: { ...KEPT, state: 'failed' } }, 'degraded']
  ]
  for (const [what, over, state] of table) t.equal(stateOf({ ...base, ...over }), state, what)
  t.end()
})

t.test('without a model nothing is placed, watched or asked', async (t) => {
  const rig = await startVoiceRig(t, { settings: { model: null } })
  await rig.clock.advance(10 * SILENCE_MS)
  t.equal(rig.keeping, null)
  t.same(rig.chats, [])
  t.same(await rig.status(), {
    enabled: true, present: false, ready: true, steward_model: null, instance_id: null, state: 'ready',
    reason: null
  })
})

t.test('switched off it keeps nothing, so that the instance goes', async (t) => {
  const rig = await startVoiceRig(t, { settings: { enabled: false } })
  t.equal(rig.keeping, null)
  t.match(await rig.status(), { enabled: false, present: false, steward_model: null, state: 'disabled' })
})

t.test('its model is kept, and who would stop it is told how', async (t) => {
  const rig = await startVoiceRig(t)
  t.same(rig.keeping!.wanted(), { models: ['acme/chat'], waits: true })
  t.match(rig.keeping!.refusal('I1'), { reason: 'steward_instance', message: /I1 is the steward's/ })
  t.same(await rig.status(), {
    enabled: true, present: true, ready: true, steward_model: 'acme/chat', instance_id: 'I1', state: 'ready',
    reason: null
  })
  rig.kept = { ...KEPT, state: 'downloading' }
  t.match(await rig.status(), { present: true, ready: false, state: 'downloading' })
  rig.kept = null
  t.match(await rig.status(), { present: false, ready: false, steward_model: 'acme/chat', instance_id: null })
})

t.test('asked for a sign of life only after a silence, with no right but to ask models', async (t) => {
  const rig = await startVoiceRig(t)
  await rig.clock.advance(SILENCE_MS - LOOK_MS)
  rig.ended({ modelId: 'acme/chat', status: 'Complete' })
  rig.ended({ modelId: 'acme/other', status: 'Complete' })
  await rig.clock.advance(SILENCE_MS - LOOK_MS)
  t.same(rig.chats, [], 'somebody was answered meanwhile')
  await rig.clock.advance(2 * LOOK_MS)
  t.match(rig.chats, [{ model: 'acme/chat', max_tokens: 1, by: 'steward', authorities: ['invoke'] }])
  await rig.clock.advance(SILENCE_MS / 2)
  t.equal(rig.chats.length, 1)
})

t.test('that others come first is a sign of life, too', async (t) => {
  const rig = await startVoiceRig(t, { script: () => 429 })
  await rig.clock.advance(3 * SILENCE_MS)
  t.match(await rig.status(), { state: 'ready' })
})

t.test('a failed probe is degraded, three in a row replace the placement', async (t) => {
  let silent = true
  const rig = await startVoiceRig(t, { script: () => silent ? null : 'pong' })
  await rig.clock.advance(SILENCE_MS + LOOK_MS + PROBE_MS)
  t.match(await rig.status(), { state: 'degraded', ready: true })
  silent = false
  await rig.clock.advance(PROBE_MS + 2 * LOOK_MS)
  t.match(await rig.status(), { state: 'ready' }, 'it is back')
  silent = true
  await rig.clock.advance(SILENCE_MS + LOOK_MS + FAILURES_MOST * (PROBE_MS + LOOK_MS))
  t.match(rig.replaced, [{ instanceId: 'I1', because: { errorCode: 'no_sign_of_life' } }])
  t.match(await rig.status(), { state: 'starting', instance_id: 'I2' })
  await rig.clock.advance(2 * LOOK_MS)
  rig.kept = { ...KEPT, instanceId: 'I2' }
  t.match(await rig.status(), { state: 'ready' }, 'the count does not follow it')
  t.equal(rig.replaced.length, 1)
})

t.test('an instance that somebody else placed is not theirs to replace', async (t) => {
  const rig = await startVoiceRig(t, { script: () => 500, kept: { ...KEPT, own: false } })
  await rig.clock.advance(SILENCE_MS + 6 * LOOK_MS)
  t.match(await rig.status(), { state: 'degraded' })
  t.same(rig.replaced, [])
})

t.test('a model without a place is a warning of the master, with the reason, until it has one', async (t) => {
  const problem = 'No model is called acme/none.'
  const rig = await startVoiceRig(t, { kept: { ...KEPT, state: 'waiting', problem } })
  await rig.clock.advance(LOOK_MS)
  t.match(await rig.status(), { state: 'degraded', present: false, reason: problem })
  t.match(rig.conflicts(), [{ code: 'steward_model_missing', severity: 'warn', message: /acme\/none/ }])
  rig.kept = KEPT
  await rig.clock.advance(LOOK_MS)
  t.match(await rig.status(), { state: 'ready', reason: null })
  t.same(rig.conflicts(), [])
})
