import t from 'tap'
import { fingerprintOfRaw, newKeyPair, type Identity } from '../../../kernel/index.js'
import { deviceKeysOf, pairDevice, type DeviceFile } from '../signing/device.js'
import { RequestSigner } from '../signing/signer.js'
import { grantableAuthorities } from '../../cluster/identity/admission.js'
import { createIdentity } from '../../../kernel/boot/identity.js'
import { coreCluster, type CoreCluster, type CoreNode } from '../../cluster/test/core-kit.js'
import { kernelsOn, type NodeRig } from '../../cluster/test/core-rig.js'
import devices from '../index.js'

type Owner = Parameters<typeof coreCluster>[0]

/** Three nodes with the plugin; the members' keys are real, unlike those of `startPlugin`. */
async function three (t: Owner, quorum: 1 | 2): Promise<{ c: CoreCluster, rigs: NodeRig[] }> {
  const c = await coreCluster(t, { nodes: 3, quorum })
  const keys = new Map(c.nodes.map((node) => [node.installId, newKeyPair('Ed25519')]))
  const identityOf = ({ installId, members }: CoreNode): Identity => {
    const { privateKey } = keys.get(installId)!
    const privateKeyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    const owners = new Map([...keys].map(([id, { publicKey }]) => [publicKey.toString('hex'), id]))
    return createIdentity({ privateKeyPem }, {
      vouched: (key, authorities) => {
        const member = members.find(owners.get(Buffer.from(key).toString('hex')) ?? '')
        return member && grantableAuthorities(member, authorities)
      },
      fingerprints: () => new Map([...keys].map(([id, { publicKey }]) => [id, fingerprintOfRaw(publicKey)]))
    })
  }
  const rigs = await kernelsOn(t, c, { plugins: [devices], identity: identityOf })
  return { c, rigs }
}

const pause = async (): Promise<void> => { await new Promise((resolve) => setImmediate(resolve)) }

async function json<T> (rig: NodeRig, method: string, url: string, payload?: object): Promise<T> {
  const answer = await rig.ask(method, url, payload)
  if (answer.statusCode !== 200) throw new Error(answer.body)
  return answer.json<T>()
}

/** Pairs a device at a node and waits until the cluster has stored it. */
async function pair (c: CoreCluster, rig: NodeRig, choice: object = {}): Promise<DeviceFile> {
  await json(rig, 'POST', '/v1/devices/pairing', choice)
  let show = (_digits: string): void => {}
  const shown = new Promise<string>((resolve) => { show = resolve })
  const made = pairDevice({
    ask: async (path, body) => await json(rig, body === undefined ? 'GET' : 'POST', path, body),
    url: `http://${rig.node.name}`, name: 'phone', pause, compare: async (digits) => {
      show(digits)
      return true
    }
  })
  const digits = await shown
  const { device } = await json<{ device: { attempt: string } }>(rig, 'GET', '/v1/devices/pairing')
  await c.settled(json(rig, 'POST', '/v1/devices/pairing/confirm', { attempt: device.attempt, digits }))
  return await made
}

/** Sends a device's signed request to a node, again if the node sends a correction; returns the status. */
async function use (
  c: CoreCluster, rig: NodeRig, device: DeviceFile, method = 'GET', path = '/state'
): Promise<number> {
  const signer = new RequestSigner({
    keys: deviceKeysOf(device), seen: undefined, now: c.clock.now,
    fingerprints: new Set(device.nodes.map(({ fingerprint }) => fingerprint))
  })
  const once = async () => {
    const authorization = await signer.authorization(method, path, undefined)
    return await rig.ask(method, path, undefined, { authorization })
  }
  const first = await once()
  const { error } = first.json<{ error?: { details: unknown } }>()
  return await signer.correct(error?.details) ? (await once()).statusCode : first.statusCode
}

const everywhere = async (c: CoreCluster, rigs: readonly NodeRig[], device: DeviceFile): Promise<number[]> =>
  await Promise.all(rigs.map(async (rig) => await use(c, rig, device)))

t.test('a device paired at one node is known at all, and revoked at all, after a restart too', async (t) => {
  const { c, rigs } = await three(t, 2)
  const device = await pair(c, rigs[1]!)
  await c.run(200)
  t.same(await everywhere(c, rigs, device), [200, 200, 200])
  t.equal(device.nodes.length, 3)
  c.kill(rigs[2]!.node)
  await c.run(200)
  const again = await rigs[2]!.restart()
  await c.agreed()
  t.same(await everywhere(c, [rigs[0]!, rigs[1]!, again], device), [200, 200, 200])
  await c.settled(json(rigs[0]!, 'DELETE', `/v1/devices/${device.deviceId}`))
  await c.run(200)
  t.same(await everywhere(c, [rigs[0]!, rigs[1]!, again], device), [401, 401, 401])
})

t.test('a node that was cut off during a revocation hears of it when it is back', async (t) => {
  const { c, rigs } = await three(t, 2)
  const master = await c.agreed()
  const [lone, other] = c.others(master)
  const rigOf = (node: CoreNode): NodeRig => rigs.find((rig) => rig.node === node)!
  const device = await pair(c, rigOf(master), { maxOfflineSeconds: 3600 })
  await c.run(200)
  c.cut([lone!], [master, other!])
  await c.run(30_000)
  await c.settled(json(rigOf(other!), 'DELETE', `/v1/devices/${device.deviceId}`))
  t.same(await everywhere(c, [rigOf(master), rigOf(other!)], device), [401, 401])
  t.equal(await use(c, rigOf(lone!), device), 200, 'it cannot know')
  c.heal()
  await c.agreed()
  await c.run(200)
  t.equal(await use(c, rigOf(lone!), device), 401)
})

t.test('a node that is cut off longer than a grant allows refuses the device', async (t) => {
  const { c, rigs } = await three(t, 1)
  const master = await c.agreed()
  const [lone, other] = c.others(master)
  const at = rigs.find((rig) => rig.node === lone)!
  const device = await pair(c, at, { maxOfflineSeconds: 60 })
  await c.run(200)
  c.cut([lone!], [master, other!])
  await c.run(50_000)
  t.equal(await use(c, at, device), 200)
  await c.run(40_000)
  t.ok(lone!.core.session.isMaster, 'it decides alone, and is apart all the same')
  t.equal(await use(c, at, device), 401)
  const { devices: list } = await json<{ devices: { state: string }[] }>(at, 'GET', '/v1/devices')
  t.equal(list[0]?.state, 'unheard')
  c.heal()
  await c.agreed()
  await c.run(15_000)
  t.equal(await use(c, at, device), 200)
})

t.test('what a part decided whose session gave way is not lost', async (t) => {
  const { c, rigs } = await three(t, 1)
  const [a, b] = [rigs[0]!, rigs[1]!]
  const revoked = await pair(c, a)
  await c.run(200)
  c.cut([c.at(0)], [c.at(1), c.at(2)])
  await c.run(40_000)
  t.ok(c.at(0).core.session.isMaster, 'it decides alone')
  // Each half of the split cluster revokes and admits different devices.
  await c.settled(json(a, 'DELETE', `/v1/devices/${revoked.deviceId}`))
  const [one, other] = [await pair(c, a), await pair(c, b)]
  c.heal()
  await c.agreed()
  await c.run(25_000)
  t.same(await everywhere(c, rigs, revoked), [401, 401, 401])
  t.same(await everywhere(c, rigs, one), [200, 200, 200])
  t.same(await everywhere(c, rigs, other), [200, 200, 200])
})

t.test('a window that is closed while the cluster takes the grant lets that come to its end', async (t) => {
  const { c, rigs } = await three(t, 2)
  // Pair at a follower, because the master would store the grant immediately.
  const rig = rigs.find(({ node }) => !node.core.session.isMaster)
  await json(rig!, 'POST', '/v1/devices/pairing', {})
  let show = (_digits: string): void => {}
  const shown = new Promise<string>((resolve) => { show = resolve })
  const made = pairDevice({
    ask: async (path, body) => await json(rig!, body === undefined ? 'GET' : 'POST', path, body),
    url: 'http://n1', name: 'phone', pause, compare: async (digits) => {
      show(digits)
      return true
    }
  })
  const digits = await shown
  const { device } = await json<{ device: { attempt: string } }>(rig!, 'GET', '/v1/devices/pairing')
  const { attempt } = device
  const confirm = async () => await rig!.ask('POST', '/v1/devices/pairing/confirm', { attempt, digits })
  let over = false
  const first = confirm().finally(() => { over = true })
  for (let i = 0; i < 20; i++) await pause()
  t.equal((await confirm()).statusCode, 409, 'confirmed once')
  t.equal((await rig!.ask('POST', '/v1/devices/pairing/refuse', { attempt })).statusCode, 409)
  t.equal((await rig!.ask('DELETE', '/v1/devices/pairing')).statusCode, 200)
  t.notOk(over)
  t.equal((await c.settled(first)).statusCode, 200)
  t.match(await made, { grant: { by: 'local' } }, 'whoever confirmed has let it in, and it hears that')
  t.match(await json(rig!, 'GET', '/v1/devices/pairing'), { open: false })
})

t.test('a grant gives no more than whoever admitted the member that signed it may', async (t) => {
  const { c, rigs } = await three(t, 1)
  const [rig, other] = rigs as [NodeRig, NodeRig]
  const { installId } = rig.node
  const device = await pair(c, rig, { authorities: ['read', 'operator'] })
  await c.run(200)
  const asOperator = async (at: NodeRig): Promise<number> => await use(c, at, device, 'GET', '/v1/devices')
  t.same([await asOperator(rig), await asOperator(other)], [200, 200])
  const { members } = other.node
  const admitted = { node: other.node.installId, by: ['app_1'], authorities: ['read', 'invoke'] }
  const list = members.current()
  members.replace({ ...list, members: list.members.map((one) =>
    one.installId === installId ? { ...one, admitted } : one) })
  t.same([await asOperator(other), await use(c, other, device)], [403, 200])
  const shown = await json<{ authorities: string[] }>(other, 'GET', `/v1/devices/${device.deviceId}`)
  t.same(shown.authorities, ['read'], 'and it is shown')
})
