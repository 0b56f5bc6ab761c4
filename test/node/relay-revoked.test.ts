import t, { type Test } from 'tap'
import { startCluster, type Member } from './cluster-kit.js'
import { devicePair, typeDigits } from './devices-kit.js'
import { ask, open } from './http.js'
import { figure, inTime, secondsSince, until } from './kit.js'
import { atRelay, relayView, serveDevice, startRelay, type Listening } from './relay-kit.js'

/** Seconds within which a node must end a device's open requests after it has learned of the revocation. */
const ENDS_SECONDS = 5

/** Follows /state as a device; returns a function that tells whether the stream has ended. */
async function following ({ url }: Listening): Promise<() => boolean> {
  const response = await open({ url }, '/state?follow=1')
  let over = false
  response.on('error', () => {}).once('close', () => { over = true }).resume()
  return () => over && response.statusCode === 200
}

/** Pairs a device over HTTP, which allows shorter timeouts than the command line; returns its home. */
async function pairFor (t: Test, { node }: Member, choice: object): Promise<string> {
  t.equal((await ask(node, '/v1/devices/pairing', { body: choice })).status, 200)
  const { device, digits, home } = await devicePair(t, node.url)
  const body = await until('the device to wait', async () => {
    const { device } = (await ask(node, '/v1/devices/pairing')).json as
      { device: { attempt: string, digits: string } | null }
    return device !== null && { attempt: device.attempt, digits: device.digits }
  })
  t.equal(body.digits, digits)
  typeDigits(device, body.digits)
  t.equal((await ask(node, '/v1/devices/pairing/confirm', { body })).status, 200)
  t.equal(await device.ended, 0)
  return home
}

t.test('a revocation ends a device\'s open requests through a relay, even behind a partition', async (t) => {
  const relay = await startRelay(t)
  // Only the third node uses the relay, so the device always reaches that node.
  const cluster = await startCluster(t, {
    nodes: 3, quorum: 1, proxied: true,
    configOf: (number) => number === 3 ? { relay: { url: relay.url } } : {}
  })
  const [one, , far] = cluster.members as [Member, Member, Member]
  await atRelay(far.node)
  const devices = []
  for (const [name, maxOfflineSeconds] of [['steady', 86_400], ['short', 60], ['lost', 86_400]] as const) {
    const home = await pairFor(t, far, { name, maxOfflineSeconds })
    const serve = await serveDevice(t, home)
    devices.push({ home, serve, over: await following(serve) })
  }
  const [steady, short, lost] = devices as [typeof devices[0], typeof devices[0], typeof devices[0]]
  const idOf = async (name: string): Promise<string> => {
    const { devices: all } = (await ask(one.node, '/v1/devices')).json as
      { devices: { name: string, deviceId: string }[] }
    return all.find((device) => device.name === name)!.deviceId
  }
  /** Checks that the device's requests fail from now on, and waits until its connection ends. */
  const shutOut = async (serve: Listening): Promise<void> => {
    t.not((await ask(serve, '/node_id')).status, 200)
    await until('its connection to end', async () => (await ask(serve, '/node_id')).status === 502)
  }
  const revoked = async (name: string): Promise<number> => {
    const answer = await ask(one.node, `/v1/devices/${await idOf(name)}`, { method: 'DELETE' })
    t.equal(answer.status, 200, answer.text)
    return performance.now()
  }

  await t.test('T-A13 through a relay: within seconds, and permanently', async (t) => {
    const since = await revoked('lost')
    await until('its stream to end', lost.over)
    const endedSeconds = secondsSince(since)
    figure(t, 'T-A13 through a relay', inTime(endedSeconds, ENDS_SECONDS), { endedSeconds })
    await shutOut(lost.serve)
    t.same([steady.over(), short.over()], [false, false], 'the others go on')
  })

  await t.test('a node that is cut off accepts a device until its grant expires', async (t) => {
    cluster.cut(far)
    await until('it to be alone', async () => (await far.state())?.cluster.liveNodes === 1)
    await cluster.agreed({ on: cluster.members.filter((m) => m !== far), live: 2 })
    await revoked('steady')
    t.equal((await ask(steady.serve, '/node_id')).status, 200, 'it cannot know')
    await until('the one-minute grant to expire', short.over, { seconds: 120 })
    await shutOut(short.serve)
    t.notOk(steady.over(), 'a day is not over')
  })

  await t.test('and learns of the revocation when it is back', async (t) => {
    cluster.heal(far)
    await cluster.agreed()
    const since = performance.now()
    await until('the stream to end', steady.over)
    const endedSeconds = secondsSince(since)
    figure(t, 'revoked behind a partition', inTime(endedSeconds, ENDS_SECONDS), { endedSeconds })
    await shutOut(steady.serve)
    await until('the unreachable node to count again', async () =>
      (await ask(short.serve, '/node_id')).status === 200)
    await until('one connection', async () => (await relayView(far.node)).connections === 1)
  })
})
