import { once } from 'node:events'
import { get, request, type IncomingMessage } from 'node:http'
import { networkInterfaces } from 'node:os'
import { json } from 'node:stream/consumers'
import t from 'tap'
import { ListenerService } from '../../../kernel/index.js'
import { duplexPair } from '../../../kernel/test/duplex-pair.js'
import { pair, signerOf } from './devices-kit.js'
import { running, send, sign, type Sent } from './probe-kit.js'
import type { DeviceFile } from '../signing/device.js'

t.test('a bearer is the device\'s, for ten minutes, and takes no signature to come by another', async (t) => {
  const rig = await running(t)
  const device = await pair(rig)
  const session = await send(rig, await sign(signerOf(rig, device), '/v1/devices/session', 'POST', '{}'))
  const { token } = session.body as unknown as { token: string }
  t.match(token, /^svc_dev_/)
  const authorization = `Bearer ${token}`
  t.match(await send(rig, { url: '/who', authorization }), { status: 200, body: { id: device.deviceId } })
  const again = { method: 'POST', url: '/v1/devices/session', payload: '{}', authorization }
  t.equal((await send(rig, again)).status, 401, 'a bearer begets none')
  t.match(await send(rig, { url: '/v1/devices/self', authorization }),
    { status: 200, body: { grant: { deviceId: device.deviceId } } })
  await rig.clock.advance(600_000)
  t.equal((await send(rig, { url: '/who', authorization })).status, 401)
  const anonymous = await rig.inject({ method: 'POST', url: '/v1/devices/session', payload: {} })
  t.equal(anonymous.statusCode, 404)
})

t.test('through a relay a device has what its grant leaves to relays', async (t) => {
  const rig = await running(t)
  const [device, other] = [await pair(rig, { authorities: ['read', 'invoke', 'operator'] }), await pair(rig)]
  const over = async (from: DeviceFile, sent: Sent) => {
    const [here, there] = duplexPair()
    rig.service(ListenerService).accept(there, { device: from.deviceId })
    const answer = new Promise<IncomingMessage>((resolve, reject) => {
      get(`http://any${sent.url}`, {
        method: sent.method ?? 'GET', headers: { authorization: sent.authorization },
        createConnection: () => here
      }, resolve).on('error', reject)
    })
    const { statusCode } = await answer
    here.destroy()
    return statusCode
  }
  const signer = signerOf(rig, device)
  t.equal(await over(device, await sign(signer, '/who')), 200)
  t.equal(await over(device, await sign(signer, '/run', 'POST')), 403, 'operator is not implied')
  t.equal((await send(rig, await sign(signer, '/run', 'POST'))).status, 200, 'directly it has it')
  t.equal(await over(other, await sign(signer, '/who')), 401, 'another device at the other end')
  const pays: [viaRelay: object, status: number][] =
    [[{}, 403], [{ viaRelay: ['read', 'approve'] }, 200]]
  for (const [more, status] of pays) {
    const payer = await pair(rig, { authorities: ['read', 'approve'], ...more })
    t.equal(await over(payer, await sign(signerOf(rig, payer), '/pay', 'POST')), status,
      'approve is left to relays by its name only')
    t.equal((await send(rig, await sign(signerOf(rig, payer), '/pay', 'POST'))).status, 200)
  }
  const session = await send(rig, await sign(signer, '/v1/devices/session', 'POST', '{}'))
  const { token } = session.body as never
  t.equal(await over(device, { url: '/who', authorization: `Bearer ${String(token)}` }), 200)
  t.equal(await over(other, { url: '/who', authorization: `Bearer ${String(token)}` }), 401)
})

t.test('a bearer from a relay is good there only: directly it would give more', async (t) => {
  const rig = await running(t)
  const device = await pair(rig, { authorities: ['read', 'operator'], viaRelay: ['read'] })
  const [here, there] = duplexPair()
  rig.service(ListenerService).accept(there, { device: device.deviceId })
  const { authorization } = await sign(signerOf(rig, device), '/v1/devices/session', 'POST', '{}')
  const call = request('http://any/v1/devices/session', {
    method: 'POST', createConnection: () => here,
    headers: { authorization, 'content-type': 'application/json' }
  })
  call.end('{}')
  const [response] = await once(call, 'response') as [IncomingMessage]
  const { token } = await json(response) as { token: string }
  here.destroy()
  t.match(token, /^svc_dev_/)
  t.equal((await send(rig, { url: '/who', authorization: `Bearer ${token}` })).status, 401)
})

const outside = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address

t.test('a bearer counts over loopback, and in clear from another machine not', {
  skip: outside === undefined && 'this machine has only loopback'
}, async (t) => {
  const rig = await running(t)
  const url = await rig.listen()
  const device = await pair(rig)
  const signer = signerOf(rig, device)
  const from = async (localAddress: string, { method = 'GET', url: path, payload, authorization }: Sent) => {
    const call = request(`${url}${path}`, {
      method, localAddress, headers: { authorization, 'content-type': 'application/json' }
    })
    call.end(payload)
    const [response] = await once(call, 'response') as [IncomingMessage]
    const { error, token } = await json(response) as { error?: { reason: string }, token?: string }
    return { status: response.statusCode, reason: error?.reason, token }
  }
  const session = async (path = '/v1/devices/session'): Promise<Sent> =>
    await sign(signer, path, 'POST', '{}')
  const { token } = await from('127.0.0.1', await session())
  const bearer = { url: '/who', authorization: `Bearer ${token}` }
  t.match(await from('127.0.0.1', bearer), { status: 200 })
  const refused = { status: 403, reason: 'bearer_in_clear' }
  t.match(await from(outside!, bearer), refused)
  for (const path of ['/v1/devices/session', '/v1/devices/%73ession', '/v1/devices/session?x=1']) {
    t.match(await from(outside!, await session(path)), refused, `nor is one given: ${path}`)
  }
  t.match(await from(outside!, await sign(signer, '/who')), { status: 200 }, 'a signature is no secret')
  t.match(await from(outside!, { ...bearer, authorization: 'Bearer svc_dev_x' }), { status: 401 })
})
