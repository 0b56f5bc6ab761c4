import t from 'tap'
import { startPlugin } from '../../../kernel/testing/index.js'
import diagnostics from '../../diagnostics/index.js'
import steward from '../index.js'

const ask = (question: string, more: object = {}): { method: string, url: string, payload: object } =>
  ({ method: 'POST', url: '/v1/steward/ask', payload: { question, ...more } })

t.test('a question gets an answer with what it stands on', async (t) => {
  const rig = await startPlugin(t, steward, { plugins: [diagnostics] })
  const { statusCode, body } = await rig.inject(ask('is everything fine?'))
  t.equal(statusCode, 200)
  t.match(JSON.parse(body), { voice: 'reader', calls: [{ tool: 'doctor' }], unknown: [] })
})

t.test('it sees no more than who asks', async (t) => {
  const rig = await startPlugin(t, steward, { allow: ['read'] })
  t.equal((await rig.inject({ url: '/config' })).statusCode, 401)
  const forged = await rig.inject({ url: '/config', headers: { 'x-svc-own': 'guess' } })
  t.equal(forged.statusCode, 401)
})

t.test('switched off, it answers nothing and says so', async (t) => {
  const rig = await startPlugin(t, steward, { settings: { steward: { enabled: false } } })
  const answer = await rig.inject(ask('is everything fine?'))
  t.equal(answer.statusCode, 404)
  t.match(JSON.parse(answer.body), { error: { reason: 'steward_disabled' } })
  t.match(JSON.parse((await rig.inject({ url: '/v1/steward' })).body), { enabled: false, state: 'disabled' })
})
