import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { deviceFor, deviceKeysOf, type DeviceFile } from '../../plugins/devices/signing/device.js'
import { RequestSigner } from '../../plugins/devices/signing/signer.js'
import { quiet, startCluster, type Member } from './cluster-kit.js'
import { devicePair, openPairingAt, pairAt, typeDigits } from './devices-kit.js'
import { ask, open } from './http.js'
import { figure, folder, secondsSince, startNode, svc, until } from './kit.js'

const deviceAt = (home: string, { node }: Member): DeviceFile => deviceFor(home, node.url)!

/** Opens a stream at a node as the device of a home; a refusal updates the device file as `svc` does. */
async function follow (home: string, member: Member): Promise<{ status: number, over: () => boolean }> {
  const device = deviceAt(home, member)
  const signer = new RequestSigner({
    keys: deviceKeysOf(device), seen: undefined, now: Date.now,
    fingerprints: new Set(device.nodes.map(({ fingerprint }) => fingerprint))
  })
  const path = '/state?follow=1'
  const signed = async (target: string) =>
    ({ headers: { authorization: await signer.authorization('GET', target, undefined) } })
  const at = { url: member.node.url }
  const refused = await ask(at, '/node_id', await signed('/node_id'))
  t.equal(refused.status, 401)
  const { error } = refused.json as { error: { details: unknown } }
  t.ok(await signer.correct(error.details), 'a node of the cluster said it')
  const response = await open(at, path, await signed(path))
  let over = false
  response.on('error', () => {}).on('close', () => { over = true }).resume()
  return { status: response.statusCode ?? 0, over: () => over }
}

const status = async (home: string, { node }: Member): Promise<number | string> =>
  (await svc(['--home', home, '--url', node.url, 'nodes', '--json'])).status

t.test('T-A13: a device is paired by six digits, used at every node, and revoked everywhere', async (t) => {
  const cluster = await startCluster(t, { nodes: 2, config: quiet })
  await cluster.agreed()
  const [one, two] = cluster.members as [Member, Member]
  const { home } = await pairAt(t, one.node, '--name', 'my tablet', '--authorities', 'read')
  for (const member of cluster.members) t.equal(await status(home, member), 0, member.name)
  const refused = await svc(['--home', home, '--url', two.node.url, 'token', 'ls'])
  t.equal(refused.status, 5, 'no operator')
  t.match(refused.stderr, /missing_grant/)

  await one.kill()
  await one.start()
  await cluster.agreed()
  t.equal(await status(home, one), 0, 'after a kill -9 it has another id, and the device learns it')

  const streams = await Promise.all(cluster.members.map(async (member) => await follow(home, member)))
  t.same(streams.map((stream) => stream.status), [200, 200])
  const { deviceId, keySeed } = deviceAt(home, one)
  const listed = await svc(['--home', two.home, '--url', two.node.url, 'devices', 'ls', '--json'])
  t.match(JSON.parse(listed.stdout), { devices: [{ deviceId, name: 'my tablet', state: 'active' }] })
  const start = performance.now()
  const revoked = await svc(['--home', two.home, '--url', two.node.url, 'devices', 'revoke', deviceId])
  t.equal(revoked.status, 0, revoked.stderr)
  await until('the streams end', async () => streams.every((stream) => stream.over()))
  figure(t, 'T-A13', true, { endedSeconds: secondsSince(start) })
  for (const member of cluster.members) t.equal(await status(home, member), 5, member.name)
  await one.kill()
  await one.start()
  t.equal(await status(home, one), 5, 'also after a restart')

  for (const { home: of } of cluster.members) {
    const files = readdirSync(of, { recursive: true, encoding: 'utf8' })
    for (const file of files.filter((name) => name.endsWith('.json') || name.endsWith('.log'))) {
      t.notOk(readFileSync(join(of, file), 'latin1').includes(keySeed), file)
    }
  }
})

t.test('a device with other digits stores and signs nothing', async (t) => {
  // The attacker's node has its own operator, who confirms every pairing attempt.
  const [node, attacker] = [await startNode(t, { config: quiet }), await startNode(t, { config: quiet })]
  const [host, lure] = [await openPairingAt(t, node), await openPairingAt(t, attacker)]
  const victim = await devicePair(t, attacker.url)
  const forged = await devicePair(t, node.url)
  t.not(victim.digits, forged.digits)
  typeDigits(lure, victim.digits)
  // The victim types the real node's digits, but the device is connected to the attacker's node.
  typeDigits(victim.device, forged.digits)
  t.equal(await victim.device.ended, 1)
  t.match(victim.device.stderr(), /the digits differ: someone is intercepting the connection/)
  t.notOk(existsSync(join(victim.home, 'devices')), 'nothing is kept')
  t.notMatch(victim.device.stdout(), /may/)
  const after = await svc(['--home', victim.home, '--url', attacker.url, 'token', 'ls'])
  t.equal(after.status, 5, 'nothing is signed for it from then on')
  // The attacker's device confirms; the operator of the real node types the victim's digits.
  typeDigits(forged.device, forged.digits)
  typeDigits(host, victim.digits)
  t.equal(await forged.device.ended, 1, 'the forger is refused')
  for (const at of [node, attacker]) t.same((await ask(at, '/v1/devices')).json, { devices: [] })
  await ask(node, '/v1/devices/pairing', { method: 'DELETE' })
  t.equal(await host.ended, 1)
})

t.test('a forged confirmation is refused', async (t) => {
  const node = await startNode(t, { config: quiet })
  const home = folder(t)
  for (const words of [['--home', node.home, 'pair'], ['--home', home, 'device', 'pair', node.url]]) {
    const { status, stderr } = await svc(words, { input: 'y\n' })
    t.equal(status, 2, words.join(' '))
    t.match(stderr, /--digits-stdin/)
  }
  t.match((await ask(node, '/v1/devices/pairing')).json, { open: false })
  t.notOk(existsSync(join(home, 'devices')))
})
