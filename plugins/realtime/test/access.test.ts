/** Access to sessions, and their number. */
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { ClientSecrets } from '../client-secrets.js'
import { defaultSession } from '../session-config.js'
import { bench, connect, sound } from './kit.js'
import type { Caller } from '../../../kernel/index.js'

const session = { type: 'realtime', instructions: 'Be brief.', output_modalities: ['text'] }

t.test('a client secret opens the session it was made for, and nothing else', async (t) => {
  const clock = manualClock()
  const { rig, url, open, script } = await bench(t, { clock })
  const make = async (payload: object, headers = {}) => await rig.inject({
    method: 'POST', url: '/v1/realtime/client_secrets', payload, headers })
  const made = await make({ session, expires_after: { anchor: 'created_at', seconds: 60 } })
  t.match(made.json(), { value: /^ek_/, expires_at: Math.floor(clock.now() / 1000) + 60,
    session: { type: 'realtime', instructions: 'Be brief.', id: /^sess_/ } })
  const { value } = made.json<{ value: string }>()
  const client = await open('', 'realtime', `openai-insecure-api-key.${value}`, 'openai-agents-sdk.0.1')
  t.equal(client.socket.protocol, 'realtime')
  t.match(client.events[0], { session: { instructions: 'Be brief.', output_modalities: ['text'] } })
  const authorization = `Bearer ${value}`
  t.equal((await make({}, { authorization })).statusCode, 401, 'it creates no other')
  for (const path of ['/state', '/v1/models', '/v1/realtime']) {
    const answer = await rig.inject({ url: path, headers: { authorization } })
    t.equal(answer.statusCode, path === '/v1/realtime' ? 404 : 401, `${path} as a request`)
  }
  t.equal((await make({ expires_after: { anchor: 'created_at', seconds: 7201 } })).statusCode, 400)
  const refused = async (): Promise<void> => {
    const late = connect(`${url.replace('http', 'ws')}/v1/realtime`, [], { authorization })
    await t.rejects(late.next('session.created'), /401/)
  }
  script.stands = () => false
  await refused()
  script.stands = () => true
  await clock.advance(61_000)
  await refused()
  t.equal(client.socket.readyState, client.socket.OPEN, 'an open session may continue')
})

t.test('valid secrets are bounded, in all and for each creator; expired ones are forgotten', async (t) => {
  const clock = manualClock()
  const secrets = new ClientSecrets({ clock, tokens: { stands: () => true } })
  const caller = (id: number): Caller => ({ id: `app_${id}`, mode: 'direct', authorities: new Set() })
  const make = (id: number): string => secrets.create(caller(id), 60, defaultSession('m')).value
  const arrival = { route: '/v1/realtime', device: null }
  const value = make(0)
  const { caller: user } = secrets.check(arrival as never, value)!
  for (let i = 1; i < 100; i++) make(0)
  t.throws(() => make(0), { message: /Too many/ })
  for (let i = 100; i < 1000; i++) make(Math.floor(i / 100))
  t.throws(() => make(10), { message: /Too many/ })
  await clock.advance(60_000)
  t.throws(() => secrets.check(arrival as never, value), { message: /has ended/ })
  t.equal(secrets.sessionOf(user), undefined)
  t.same([secrets.stands(user.id), secrets.makerOf(user.id)], [true, 'app_0'])
  t.ok(make(0))
  await clock.advance(2 * 3_600_000)
  t.equal(secrets.stands(user.id), false)
})

t.test('a secret needs the authority that it carries', async (t) => {
  const { rig } = await bench(t, { allow: ['read'] })
  const answer = await rig.inject({ method: 'POST', url: '/v1/realtime/client_secrets', payload: {} })
  t.equal(answer.statusCode, 401)
})

t.test('the number of sessions is bounded; WebRTC is refused in words', async (t) => {
  const { rig, url, open } = await bench(t, { config: { sessions: 1 } })
  const first = await open()
  t.equal(await connect(`${url.replace('http', 'ws')}/v1/realtime`).closed, 1013)
  const refused = [['calls', 'application/sdp', 'v=0'], ['sessions', 'application/json', '{"model":"x"}']]
  for (const [path, type, payload] of refused) {
    const answer = await rig.inject({
      method: 'POST', url: `/v1/realtime/${path}`, payload, headers: { 'content-type': type! } })
    const remedy = /\/v1\/realtime\?model=/
    t.match(answer.json(), { error: { reason: 'websocket_only', details: { remedy } } })
    t.equal(answer.statusCode, 400)
  }
  first.socket.close()
  await first.closed
  await new Promise((resolve) => setTimeout(resolve, 50))
  await open()
})

t.test('a node that stops closes the sessions', async (t) => {
  const { rig, open } = await bench(t)
  const client = await open()
  client.send('input_audio_buffer.append', { audio: sound(100) })
  await rig.stop()
  t.equal(await client.closed, 1001)
})
