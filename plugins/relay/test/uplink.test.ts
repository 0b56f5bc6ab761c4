import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import t from 'tap'
import { fake, startPlugin, type Rig } from '../../../kernel/testing/index.js'
import { fingerprintOfRaw, IdentityService } from '../../../kernel/index.js'
import { DevicesService } from '../../devices/service.js'
import { doctor, status } from '../cli/report.js'
import relay from '../index.js'
import { isOwn, meetingOf, routeAt } from '../relay-address.js'
import { routeOf } from '../wire.js'
import { identity, relayFor, until } from './relay-kit.js'
import type { CheckContext } from '../../../kernel/cli/index.js'

const nobody = fake(DevicesService, { deviceWith: () => undefined, stands: () => false })
const at = async (t: Tap, url: string | null): Promise<Rig> => await startPlugin(t, relay, {
  settings: { relay: { url } }, fakes: [nobody, fake(IdentityService, identity())]
})
type Tap = Parameters<typeof startPlugin>[0]
type View = Record<string, unknown>

const viewOf = async (rig: Rig): Promise<View> => (await rig.inject({ url: '/v1/relay' })).json() as View

async function becomes (rig: Rig, fits: (view: View) => boolean): Promise<View> {
  let view: View = {}
  await until(() => {
    void viewOf(rig).then((now) => { view = now })
    return fits(view)
  })
  return view
}

const told = (view: View): CheckContext => ({ state: {} as never, look: async () => view as never })

t.test('a node without a relay dials none and says so', async (t) => {
  const rig = await at(t, null)
  const view = await viewOf(rig)
  t.match(view, { url: null, connected: false })
  t.same((await rig.inject({ url: '/v1/relay/routes' })).json(), { routes: [] })
  t.same(await doctor.run(told(view)), [])
  t.same((await status.run(told(view))).below, [])
})

t.test('a relay that stays away is a conflict, and none when it is back', async (t) => {
  const hole = createServer((socket) => { socket.destroy() }).listen(0, '127.0.0.1')
  await once(hole, 'listening')
  const { port } = hole.address() as AddressInfo
  const rig = await at(t, `http://127.0.0.1:${port}`)
  const view = await becomes(rig, ({ reason }) => reason !== null && reason !== undefined)
  t.match(await doctor.run(told(view)), [{ name: 'relay', result: 'warn', code: 'relay_unreachable' }])
  t.match((await status.run(told(view))).below, [/^relay: not connected to http/])
  await rig.clock.advance(60_000)
  t.match(rig.conflicts(), [{ code: 'relay_unreachable' }])
  hole.close()
  await once(hole, 'close')
  const there = await relayFor(t, { port })
  for (let i = 0; i < 50 && there.router.counts.nodes === 0; i++) {
    await rig.clock.advance(30_000)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const back = await becomes(rig, ({ connected }) => connected === true)
  t.match(await doctor.run(told(back)), [{ name: 'relay', result: 'ok' }])
  t.match((await status.run(told(back))).below, [/^relay: connected to http.*route /])
  t.same(rig.conflicts(), [])
  t.ok(rig.events.some(({ kind }) => kind === 'RelayConnected'))
  await there.close()
  await becomes(rig, ({ connected }) => connected === false)
  t.match(rig.events.at(-1), { kind: 'RelayLost' })
})

t.test('a meeting is believed of its own node only', async (t) => {
  const [one, other] = [identity(), identity()]
  const key = Buffer.from(one.publicKey).toString('base64url')
  const mine = meetingOf(one, 'https://relay.example', { installId: 'a', name: 'attic' })

  const known = new Set([fingerprintOfRaw(one.publicKey)])
  const theirs = meetingOf(other, 'https://evil.example', { installId: 'a', name: 'attic' })
  t.equal(routeAt(mine), routeOf(one.publicKey))
  t.ok(isOwn(mine, known))
  t.notOk(isOwn(theirs, known), 'of a stranger')
  t.notOk(isOwn({ ...mine, url: theirs.url }, known), 'at another relay')
  t.notOk(isOwn({ ...mine, agreementKey: theirs.agreementKey }, known), 'by another key')
  t.notOk(isOwn({ ...theirs, key }, known), 'with a known key that did not sign it')
  t.notOk(isOwn({ ...mine, key: 'x' }, known))
})
