import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { json, text } from 'node:stream/consumers'
import t from 'tap'
import WebSocket from 'ws'
import { systemClock, type Clock } from '../../../kernel/index.js'
import { openForwarder, type ForwarderOptions } from '../device/forwarder.js'
import { CANARY, connected, knownFrom, lineOf, nodeAt, paired, PART_BYTES, PARTS } from './cluster-kit.js'
import { relayFor, until, type Tearing } from './relay-kit.js'

interface Clocks { readonly node?: Clock, readonly device?: Clock }

/** A relay, a node, a device paired with it, and a forwarded port on the device's machine. */
async function throughRelay (
  t: Tearing, choice: object = {}, forwarding: Partial<ForwarderOptions> = {}, clocks: Clocks = {}
) {
  const relay = await relayFor(t)
  const { rig, done, view } = await nodeAt(t, relay.url, clocks.node)
  const device = await paired(rig, choice)
  await connected(view)
  const known = await knownFrom(rig, rig.home, device)
  const line = lineOf(t, device, known, clocks.device)
  const forwarder = await openForwarder({ line, port: 0, token: null, ...forwarding })
  t.teardown(async () => { await forwarder.close() })
  return { relay, rig, done, view, device, known, line, url: `http://127.0.0.1:${forwarder.port}` }
}

/** Sends a request as a client on the device's machine. */
async function ask (url: string, path: string, body?: object, headers: Record<string, string> = {}) {
  const call = request(new URL(path, url), {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...body === undefined ? {} : { 'content-type': 'application/json' }, ...headers }
  })
  call.end(body === undefined ? undefined : JSON.stringify(body))
  const [response] = await once(call, 'response') as [IncomingMessage]
  return response
}

t.test('a device does through the relay what its grant leaves to relays, and no more', async (t) => {
  const { device, done, url } = await throughRelay(t, {
    authorities: ['read', 'invoke', 'operator', 'plugin:manage'],
    viaRelay: ['read', 'invoke', 'plugin:manage']
  })
  t.same(await json(await ask(url, '/who')), {
    id: device.deviceId, mode: 'relay', authorities: ['read', 'invoke', 'plugin:manage']
  })
  t.equal((await ask(url, '/act', { word: 'x' })).statusCode, 200)
  t.equal((await ask(url, '/manage', {})).statusCode, 200, 'granted for the relay by name')
  const refused = await ask(url, '/operate', {})
  t.equal(refused.statusCode, 403)
  t.match(await json(refused), { error: { reason: 'missing_grant', details: { authority: 'operator' } } })
  t.same(done, ['x', 'manage'])
})

t.test('what reaches far is done for nobody through a relay, unless granted for it by name', async (t) => {
  const far = ['operator', 'plugin:manage', 'approve']
  const actions = [['/operate', 'operator'], ['/manage', 'plugin:manage'], ['/approve', 'approve']] as const
  const usual = await throughRelay(t, { authorities: ['read', 'invoke', ...far] })
  t.equal((await ask(usual.url, '/state')).statusCode, 200, 'reads succeed')
  for (const [path, authority] of actions) {
    const answer = await ask(usual.url, path, {})
    t.equal(answer.statusCode, 403, path)
    t.match(await json(answer), { error: { reason: 'missing_grant', details: { authority } } })
  }
  t.same(usual.done, [])
  for (const [path, authority] of actions) {
    const named = await throughRelay(t, { authorities: ['read', ...far], viaRelay: ['read', authority] })
    const answers = await Promise.all(actions.map(async ([one]) => await ask(named.url, one, {})))
    t.same(answers.map(({ statusCode }) => statusCode), actions.map(([one]) => one === path ? 200 : 403),
      `${authority} by name`)
  }
})

t.test('nobody is paired through the connection of a device', async (t) => {
  const { rig, url } = await throughRelay(t, { authorities: ['read', 'invoke', 'operator'] })
  t.equal((await ask(url, '/v1/devices/pairing', {})).statusCode, 403, 'it cannot open the window')
  t.equal((await rig.inject({ method: 'POST', url: '/v1/devices/pairing', payload: {} })).statusCode, 200)
  const begin = { commit: 'A'.repeat(43) }
  const refused = await ask(url, '/v1/devices/pair', begin)
  t.equal(refused.statusCode, 403)
  t.match(await json(refused), { error: { reason: 'pairing_failed', message: /not over a relay/ } })
  const here = await rig.inject({ method: 'POST', url: '/v1/devices/pair', payload: begin })
  t.equal(here.statusCode, 200, 'the window is open, and lost no try')
  const { attempt } = here.json() as { attempt: string }
  const word = 'A'.repeat(43)
  const shown = { key: word, agreementKey: word, ephemeral: word, nonce: 'A'.repeat(22), name: 'x',
    proof: 'A'.repeat(86) }
  t.equal((await ask(url, `/v1/devices/pair/${attempt}`, shown)).statusCode, 403)
  t.match((await rig.inject({ url: '/v1/devices/pairing' })).json(), { open: true, triesLeft: 24 })
})

t.test('clocks that are off by minutes, either way, are no matter', async (t) => {
  const off = (minutes: number): Clock =>
    ({ ...systemClock, now: () => systemClock.now() + minutes * 60_000 })
  for (const [node, device] of [[-10, 0], [0, 10], [10, -10]] as const) {
    const { url } = await throughRelay(t, {}, {}, { node: off(node), device: off(device) })
    t.equal((await ask(url, '/who')).statusCode, 200, `node ${node} min, device ${device} min`)
    t.equal((await ask(url, '/act', { word: 'x' })).statusCode, 200)
  }
})

t.test('a device that opens connections without end keeps eight', async (t) => {
  const { device, known, view } = await throughRelay(t)
  let over = 0
  for (let i = 0; i < 30; i++) {
    const { channel } = await lineOf(t, device, known).transport()
    void channel.ended.then(() => { over++ })
  }
  await until(() => over === 22)
  t.match(await view(), { connections: 8 })
})

t.test('nothing that a client says of itself counts', async (t) => {
  const { device, url } = await throughRelay(t)
  const said = {
    'x-forwarded-for': '127.0.0.1',
    'x-svc-caller': '{"id":"operator","mode":"direct","authorities":["operator"]}',
    'x-svc-own': 'x', 'authorization': 'Bearer svc_op_x', 'forwarded': 'for=127.0.0.1'
  }
  t.match(await json(await ask(url, '/who', undefined, said)), { id: device.deviceId, mode: 'relay' })
  t.equal((await ask(url, '/operate', {}, said)).statusCode, 403)
})

t.test('the port is as careful as a node\'s own', async (t) => {
  const { url } = await throughRelay(t, {}, { token: 'secret' })
  const bearer = { authorization: 'Bearer secret' }
  const rows: [title: string, headers: Record<string, string>, status: number][] = [
    ['with the token', bearer, 200],
    ['with the token where Anthropic\'s clients have it', { 'x-api-key': 'secret' }, 200],
    ['without', {}, 401],
    ['with another', { authorization: 'Bearer secrex' }, 401],
    ['by another name', { ...bearer, host: 'evil.example' }, 421],
    ['from a page of its own', { ...bearer, origin: url }, 200],
    ['from a page of another', { ...bearer, origin: 'https://evil.example' }, 403],
    ['from a page that hides', { ...bearer, 'sec-fetch-site': 'cross-site' }, 403]
  ]
  for (const [title, headers, status] of rows) {
    t.equal((await ask(url, '/who', undefined, headers)).statusCode, status, title)
  }
})

t.test('WebSockets and streams go through', async (t) => {
  const { url, rig } = await throughRelay(t)
  const at = `${url.replace('http', 'ws')}/v1`
  const session = new WebSocket(`${at}/capabilities/session`, ['svc', 'svc.bearer.any'])
  await once(session, 'open')
  t.equal(session.protocol, 'svc')
  // The node closes a session after an invalid message, with a private code.
  session.send('nonsense')
  t.match(await once(session, 'close'), [/^4\d{3}|100[0-9]$/])
  const odd = new WebSocket(`${at}/none`)
  const [error] = await once(odd, 'error') as [Error]
  t.match(error.message, '404')
  const direct = await rig.inject({ url: '/large' })
  const large = Buffer.concat(await (await ask(url, '/large')).toArray() as Buffer[])
  t.ok(large.equals(direct.rawPayload), `${large.length} bytes`)
})

t.test('a reader that takes nothing stops what is made for it, and nothing else', async (t) => {
  const { done, url } = await throughRelay(t)
  const slow = await ask(url, '/large')
  let before = -1
  // The node stops producing when all buffers up to the slow reader are full.
  for (let still = 0; still < 5; still = before === done.length ? still + 1 : 0) {
    before = done.length
    for (let i = 0; i < 3; i++) t.equal((await ask(url, '/who')).statusCode, 200)
  }
  t.ok(done.length < PARTS, `${done.length} of ${PARTS} parts were made`)
  const rest = Buffer.concat(await slow.toArray() as Buffer[])
  t.equal(rest.length, PARTS * PART_BYTES)
})

t.test('a client that leaves ends its work at the node', async (t) => {
  const { url, view } = await throughRelay(t)
  const open = await ask(url, '/follow')
  t.match(String((await once(open, 'data'))[0]), CANARY)
  t.match(await view(), { connections: 1, streams: 1 })
  open.destroy()
  let streams = 1
  await until(() => {
    void view().then((now) => { streams = now['streams'] as number })
    return streams === 0
  })
})

t.test('a revoked device is cut off at once and does not come back', async (t) => {
  const { device, rig, url, view } = await throughRelay(t)
  const open = await ask(url, '/follow')
  const ended = new Promise((resolve) => { open.once('close', resolve) })
  open.on('error', () => {}).resume()
  t.equal((await rig.inject({ method: 'DELETE', url: `/v1/devices/${device.deviceId}` })).statusCode, 200)
  await ended
  let connections = 1
  await until(() => {
    void view().then((now) => { connections = now['connections'] as number })
    return connections === 0
  })
  const after = await ask(url, '/who')
  t.equal(after.statusCode, 502)
  t.match(await text(after), /No node answers/)
})

t.test('a relay that comes back is found again, by node and device', async (t) => {
  const { relay, rig, url, view } = await throughRelay(t)
  t.equal((await ask(url, '/who')).statusCode, 200)
  await relay.close()
  await until(() => rig.events.some(({ kind }) => kind === 'RelayLost'))
  t.equal((await ask(url, '/who')).statusCode, 502)
  t.match(await view(), { connected: false, connections: 0 })
  await relayFor(t, { port: relay.port })
  await connected(view)
  t.equal((await ask(url, '/who')).statusCode, 200)
  t.equal(rig.events.filter(({ kind }) => kind === 'RelayConnected').length, 2)
})
