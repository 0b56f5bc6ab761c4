import t from 'tap'
import { startCluster } from './cluster-kit.js'
import { pairAt } from './devices-kit.js'
import { does, TTS } from './engine.js'
import { ask, stream } from './http.js'
import { faultsConfig, figure, inTime, placeOn, secondsSince, until } from './kit.js'
import { atRelay, relayView, serveDevice, startRelay } from './relay-kit.js'
import type { Member } from './cluster-kit.js'
import type { Listening } from './relay-kit.js'

/** Most seconds until what a revoked device has open ends, once a node has heard of it. */
const ENDS_SECONDS = 5

/** An endless speech of a device: whether it has ended. */
async function speaking ({ url }: Listening, { node }: Member): Promise<() => boolean> {
  const opened = await stream({ url, revision: (name) => node.revision(name) }, TTS,
    does('test/ok', 'count', { bytes: 100, delayMs: 20 }))
  let over = false
  opened.response.once('close', () => { over = true }).resume()
  return () => over
}

t.test('a revocation reaches what a device has open through a relay, also behind a partition', async (t) => {
  const relay = await startRelay(t)
  const config = faultsConfig({}, { autoplace: [] })
  // The others are at no relay: the device meets the third node, wherever that is.
  const cluster = await startCluster(t, {
    nodes: 3, quorum: 1, proxied: true, config,
    configOf: (number) => number === 3 ? { relay: { url: relay.url } } : {}
  })
  const [one, , far] = cluster.members as [Member, Member, Member]
  await atRelay(far.node)
  await placeOn(far.node, 'test/ok')
  const pairs = [['steady'], ['short', '--max-offline', '1m'], ['lost']]
  const devices = []
  for (const [name, ...more] of pairs) {
    const { home } = await pairAt(t, far.node, '--name', name!, ...more)
    const serve = await serveDevice(t, home)
    devices.push({ home, serve, over: await speaking(serve, far) })
  }
  const [steady, short, lost] = devices as [typeof devices[0], typeof devices[0], typeof devices[0]]
  const idOf = async (name: string): Promise<string> => {
    const { devices: all } = (await ask(one.node, '/v1/devices')).json as
      { devices: { name: string, deviceId: string }[] }
    return all.find((device) => device.name === name)!.deviceId
  }
  const revoked = async (name: string): Promise<number> => {
    const answer = await ask(one.node, `/v1/devices/${await idOf(name)}`, { method: 'DELETE' })
    t.equal(answer.status, 200, answer.text)
    return performance.now()
  }

  await t.test('T-A13 through a relay: within seconds, and for good', async (t) => {
    const since = await revoked('lost')
    await until('its stream to end', lost.over)
    const endedSeconds = secondsSince(since)
    figure(t, 'T-A13 through a relay', inTime(endedSeconds, ENDS_SECONDS), { endedSeconds })
    const refused = await ask(lost.serve, '/node_id')
    t.equal(refused.status, 502)
    t.same([steady.over(), short.over()], [false, false], 'the others go on')
  })

  await t.test('a node that is cut off believes a device for as long as its grant allows', async (t) => {
    cluster.cut(far)
    await until('it to be alone', async () => (await far.state())?.cluster.liveNodes === 1)
    await cluster.agreed({ on: cluster.members.filter((m) => m !== far), live: 2 })
    await revoked('steady')
    t.equal((await ask(steady.serve, '/node_id')).status, 200, 'it cannot know')
    await until('the grant of a minute to count no more', short.over, { seconds: 120 })
    t.equal((await ask(short.serve, '/node_id')).status, 502)
    t.notOk(steady.over(), 'a day is not over')
  })

  await t.test('and hears of it when it is back', async (t) => {
    cluster.heal(far)
    await cluster.agreed()
    const since = performance.now()
    await until('the stream to end', steady.over)
    const endedSeconds = secondsSince(since)
    figure(t, 'revoked behind a partition', inTime(endedSeconds, ENDS_SECONDS), { endedSeconds })
    t.equal((await ask(steady.serve, '/node_id')).status, 502)
    await until('who was not heard of to count again', async () =>
      (await ask(short.serve, '/node_id')).status === 200)
    await until('one connection', async () => (await relayView(far.node)).connections === 1)
  })
})
