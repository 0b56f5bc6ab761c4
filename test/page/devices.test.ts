// A browser is paired as a device and works as one, at every node over TLS, until it is revoked.
import { networkInterfaces } from 'node:os'
import t, { type Test } from 'tap'
import { quiet, startCluster } from '../node/cluster-kit.js'
import { ask } from '../node/http.js'
import { startNode, svc, until, type TestNode } from '../node/kit.js'
import { openBrowser, openPage, skip, type View, type ViewOptions } from './kit.js'
import type { Browser, Page } from 'playwright-core'

/** Settings that grant no access without a credential, so a local browser is treated as remote. */
const closed = { ...quiet, access: { local: [] } }
const FORM = '[aria-label="Pair this device"]'

const openPhone = async (t: Test, browser: Browser, node: TestNode, options: ViewOptions = {}) =>
  await openPage(t, browser, node, { width: 390, height: 844, shows: FORM, ...options })

/** Opens the pairing on the operator's page. */
async function openPairing (t: Test, browser: Browser, node: TestNode): Promise<View> {
  const view = await openPage(t, browser, node, { token: node.token, shows: FORM, part: 'settings/devices' })
  await view.page.getByRole('button', { name: 'Let a device in' }).click()
  await view.page.getByText(/^Open for \d+ s more/).waitFor()
  return view
}

const digitsOf = async ({ page }: View): Promise<string> =>
  await page.getByLabel('Six digits').textContent() ?? ''

/** Pairs a phone; the operator confirms its digits, which must differ from those of earlier attempts. */
async function pair (view: View, operator: View, name: string): Promise<void> {
  const phone = view.page
  await phone.getByLabel('What this device is called').fill(name)
  await phone.getByRole('button', { name: 'Pair this device' }).click()
  await phone.getByLabel('Six digits').waitFor()
  const { page } = operator
  await page.getByText(await digitsOf(view)).waitFor()
  await phone.getByRole('button', { name: 'They are the same' }).click()
  await phone.getByText('Waiting for the operator').waitFor()
  await page.getByRole('button', { name: 'They are the same: let it in' }).click()
  await page.getByRole('list', { name: 'Devices' }).getByText(name).first().waitFor()
}

/** The device data in the browser's storage, as far as the page can read it. */
const KEPT = `(async () => {
  const opening = indexedDB.open('svc')
  await new Promise((resolve) => { opening.onsuccess = resolve })
  const request = opening.result.transaction('device').objectStore('device').get('own')
  await new Promise((resolve) => { request.onsuccess = resolve })
  opening.result.close()
  if (request.result === undefined) return null
  const { key, agreement, deviceId } = request.result
  const read = async (one, form) => await crypto.subtle.exportKey(form, one).then(() => 'read', (e) => e.name)
  const keys = [key.privateKey, agreement.privateKey]
  const exported = await Promise.all(keys.flatMap((one) => ['pkcs8', 'jwk'].map((form) => read(one, form))))
  return { deviceId, exported, extractable: keys.map((one) => one.extractable) }
})()`

/** Runs `act` on the device record in the browser's storage; resolves to the number of its nodes. */
const within = (mode: string, act: string): string => `(async () => {
  const opening = indexedDB.open('svc')
  await new Promise((resolve) => { opening.onsuccess = resolve })
  const transaction = opening.result.transaction('device', '${mode}')
  const store = transaction.objectStore('device')
  const request = store.get('own')
  await new Promise((resolve) => { request.onsuccess = resolve })
  const kept = request.result
  ${act}
  await new Promise((resolve) => { transaction.oncomplete = resolve })
  opening.result.close()
  return kept.nodes.length
})()`
const FORGET_OTHERS = within('readwrite', `
  kept.nodes = kept.nodes.filter(({ url }) => url === location.origin)
  store.put(kept, 'own')`)
const KNOWN_NODES = within('readonly', '')

interface Kept { deviceId: string, exported: string[], extractable: boolean[] }

t.test('a phone is paired, moves to another node, and is revoked', { skip }, async (t) => {
  const cluster = await startCluster(t, { nodes: 3, config: closed })
  await cluster.agreed()
  const [one, two] = cluster.members.map(({ node }) => node) as [TestNode, TestNode]
  const browser = await openBrowser(t)
  const phone = await openPhone(t, browser, one)
  await phone.page.locator('.banner code').getByText('svc token create').waitFor()
  t.equal(await phone.page.getByText('This needs the authority').count(), 1, 'is told once')
  await phone.page.getByRole('button', { name: 'Pair this device' }).click()
  await phone.page.getByText('No pairing is open here').waitFor()

  // The operator uses another browser.
  const operator = await openPairing(t, await openBrowser(t), one)
  await phone.page.getByLabel('What this device is called').fill('my phone')
  await phone.page.getByRole('button', { name: 'Pair this device' }).click()
  await operator.page.getByText('wants to be paired').waitFor()
  t.match(await digitsOf(phone), /^\d{3} \d{3}$/)
  t.equal(await digitsOf(operator), await digitsOf(phone), 'the same on both sides')
  await phone.page.getByRole('button', { name: 'They are the same' }).click()
  await operator.page.getByRole('button', { name: 'They differ: refuse it' }).click()
  await phone.page.getByText('The operator did not confirm').waitFor()
  t.equal(await phone.page.evaluate(KEPT), null, 'nothing is kept of it')

  // The phone refuses after the operator has confirmed.
  await phone.page.getByRole('button', { name: 'Pair this device' }).click()
  await operator.page.getByText('wants to be paired').waitFor()
  await operator.page.getByRole('button', { name: 'They are the same: let it in' }).click()
  await phone.page.getByRole('button', { name: 'They differ' }).click()
  await phone.page.getByText('The digits differ').waitFor()
  await operator.page.getByText('did not confirm the digits').waitFor()
  t.equal(await phone.page.evaluate(KEPT), null, 'nothing is kept')
  t.same((await ask(one, '/v1/devices')).json, { devices: [] }, 'and nothing is granted')

  await pair(phone, operator, 'my phone')
  const pulse = phone.page.locator('.pulse .badge')
  await pulse.getByText('3 nodes').waitFor()
  await phone.page.getByRole('button', { name: 'Paired device' }).waitFor()
  const kept = await phone.page.evaluate(KEPT) as Kept
  t.same(kept.extractable, [false, false])
  t.same(kept.exported, Array(4).fill('InvalidAccessError'))
  const listed = (await ask(one, '/v1/devices')).json as { devices: unknown[] }
  t.match(listed, { devices: [{ deviceId: kept.deviceId, name: 'my phone', authorities: ['read', 'invoke'],
    viaRelay: ['read', 'invoke'], state: 'active', by: 'operator' }] })

  t.equal(await phone.page.evaluate(FORGET_OTHERS), 1)
  await phone.page.reload()
  await pulse.getByText('3 nodes').waitFor()
  await until('nodes that joined later are listed',
    async () => await phone.page.evaluate(KNOWN_NODES) === 3)
  await phone.go('settings/devices')
  await phone.page.getByText('Only an operator sees the devices and lets them in.').waitFor()
  await phone.go('models')
  await phone.page.getByText('svc/guide').first().waitFor()

  await cluster.members[0]!.kill()
  await phone.page.getByText(/This page goes on at n[23]\.$/).waitFor()
  await pulse.getByText('2 of 3 nodes').waitFor()
  t.equal(await phone.page.evaluate('indexedDB.databases().then((all) => all.length)'), 1)

  const revoked = await ask(two, `/v1/devices/${kept.deviceId}`, { method: 'DELETE', token: two.token })
  t.equal(revoked.status, 200)
  await phone.page.getByText('This device was revoked. It may be paired anew.').waitFor()
  await pulse.getByText('not connected').waitFor()
  t.same([...phone.problems, ...operator.problems], [])
})

t.test('a phone forgets that it is a device; an operator revokes another', { skip }, async (t) => {
  const node = await startNode(t, { config: closed })
  const browser = await openBrowser(t)
  const [phone, tablet] = [await openPhone(t, browser, node), await openPhone(t, browser, node)]
  const operator = await openPairing(t, browser, node)
  const { page } = operator
  await page.getByLabel('cluster:write', { exact: true }).first().check()
  await page.getByLabel('How long').selectOption({ label: 'a week' })
  await pair(phone, operator, 'phone')
  await page.getByRole('button', { name: 'Let a device in' }).click()
  await pair(tablet, operator, 'tablet')
  const { devices } = (await ask(node, '/v1/devices')).json as { devices: Record<string, unknown>[] }
  t.match(devices[0], { name: 'phone', authorities: ['read', 'invoke', 'cluster:write'],
    viaRelay: ['read', 'invoke'] })
  const days = (Date.parse(String(devices[0]!['expires'])) - Date.now()) / 86_400_000
  t.ok(days > 6.9 && days < 7.1, `${days} days`)
  t.match(devices[1], { name: 'tablet', authorities: ['read', 'invoke'] })

  await phone.page.locator('.pulse .badge').getByText('1 node').waitFor()
  await phone.go('settings/devices')
  await phone.page.getByRole('button', { name: 'Forget this device' }).click()
  await phone.page.getByRole('button', { name: 'Forget it' }).click()
  await phone.page.getByText('This device is revoked, and its key is gone.').waitFor()
  t.equal(await phone.page.evaluate(KEPT), null)
  await phone.page.getByText('wants a token of its own').waitFor()

  await tablet.page.locator('.pulse .badge').getByText('1 node').waitFor()
  // Changes the answer as if the device had admitted a member to the cluster.
  await page.route('**/v1/devices/*', async (route) => {
    const response = await route.fetch()
    const admitted = [{ installId: 'barn-install', name: 'barn' }]
    const json = { ...await response.json() as object, admitted }
    await route.fulfill({ response, ...route.request().method() === 'DELETE' ? { json } : {} })
  })
  await page.getByRole('button', { name: 'Revoke tablet' }).click()
  await page.getByRole('button', { name: 'Revoke it' }).click()
  await page.getByText('It admitted barn, which stays a member.').waitFor()
  await page.unroute('**/v1/devices/*')
  await tablet.page.getByText('This device was revoked. It may be paired anew.').waitFor()
  await tablet.page.reload()
  await tablet.page.getByText('This device was revoked. It may be paired anew.').waitFor()
  await page.getByRole('button', { name: 'Let a device in' }).click()
  await page.getByText(/^Open for/).waitFor()
  await pair(tablet, operator, 'tablet anew')
  await tablet.page.locator('.pulse .badge').getByText('1 node').waitFor()
  const after = (await ask(node, '/v1/devices')).json as { devices: { name: string, state: string }[] }
  t.same(after.devices.map(({ name, state }) => `${name} ${state}`),
    ['phone revoked', 'tablet revoked', 'tablet anew active'])

  // Leaving the dialog closes the pairing.
  await page.getByRole('button', { name: 'Let a device in' }).click()
  await page.getByText(/^Open for/).waitFor()
  await page.keyboard.press('Escape')
  await until('the pairing is closed', async () =>
    !((await ask(node, '/v1/devices/pairing')).json as { open: boolean }).open)
  t.same([...phone.problems, ...tablet.problems, ...operator.problems], [])
})

t.test('over TLS of the node\'s own: the page, its state, and pairing', { skip }, async (t) => {
  const node = await startNode(t, { config: { ...closed, api: { tls: 'self' } } })
  t.match(node.url, /^https:/)
  const [, key] = /"fingerprint":"sha256\/\/([^"]+)"/.exec(node.child.stdout()) ?? []
  // Simulates a user who has accepted only this node's key.
  const browser = await openBrowser(t, [`--ignore-certificate-errors-spki-list=${key}`])
  const phone = await openPhone(t, browser, node)
  const sockets: string[] = []
  phone.page.on('websocket', (socket) => { sockets.push(socket.url()) })
  const operator = await openPairing(t, browser, node)
  await pair(phone, operator, 'phone')
  await phone.page.locator('.pulse .badge').getByText('1 node').waitFor()
  t.match(sockets[0], /^wss:/)
  const drained = await ask(node, `/nodes/${node.nodeId}/drain`, { method: 'PUT', token: node.token })
  t.equal(drained.status, 200)
  await phone.page.getByLabel('Nodes').getByText('drained').waitFor()
  t.same([...phone.problems, ...operator.problems], [])
})

const outside = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')

t.test('over plain HTTP from another machine the page names the requirement', {
  skip: skip || (outside === undefined && 'needs an address that is not loopback')
}, async (t) => {
  const node = await startNode(t, { config: { ...quiet, api: { host: '0.0.0.0' } } })
  const url = `http://${outside!.address}:${node.port}`
  const { page, problems } = await openPhone(t, await openBrowser(t), { ...node, url },
    { expected: /Cross-Origin-Opener-Policy/ })
  await page.getByText('svc config set api.tls self').waitFor()
  const link = page.getByRole('link', { name: `https://${outside!.address}:${node.port}` })
  t.match(await link.getAttribute('href'), /^https:/)
  t.equal(await page.getByRole('button', { name: 'Pair this device' }).count(), 0)
  t.same(problems, [])
})

t.test('an address of `svc open` signs one browser in', { skip }, async (t) => {
  const node = await startNode(t, { config: { ...closed, api: { host: '0.0.0.0' } } })
  const browser = await openBrowser(t)
  const addresses = async (...more: string[]): Promise<string[]> => {
    const { status, stdout, stderr } = await svc(['open', ...more], { env: { SVC_HOME: node.home } })
    t.equal(status, 0, stderr)
    return stdout.trim().split('\n')
  }
  const open = async (at: string): Promise<Page> => {
    const page = await (await browser.newContext()).newPage()
    await page.goto(at)
    return page
  }
  const [url = ''] = await addresses()
  t.match(url, /^http:\/\/127\.0\.0\.1:\d+\/#sign-in=[\w-]{22}$/)
  const page = await open(url)
  await page.getByRole('button', { name: 'Paired device' }).waitFor()
  await page.locator('.pulse .badge').getByText('1 node').waitFor()
  t.equal(new URL(page.url()).hash, '#/', 'the code is gone from the address')
  await page.reload()
  await page.getByRole('button', { name: 'Paired device' }).waitFor()
  const late = await open(url)
  await late.getByText('was used, or is older than').waitFor()
  await late.getByRole('heading', { name: 'This node does not know you' }).waitFor()
  t.equal(await late.evaluate(KEPT), null)
  await open((await addresses('--authorities', 'read'))[0]!)
  const grants = async (): Promise<boolean[]> =>
    ((await ask(node, '/v1/devices')).json as { devices: { authorities: string[] }[] }).devices
      .map(({ authorities }) => authorities.includes('operator')).sort()
  await until('the second browser', async () => (await grants()).length === 2)
  t.same(await grants(), [false, true])
  const far = (await addresses())[1]
  if (far === undefined || outside === undefined) return
  t.equal(new URL(far).hostname, outside.address)
  const other = await open(far)
  await other.getByText('until this page is closed').waitFor()
  await other.getByRole('button', { name: 'Token in use' }).waitFor()
  await other.locator('.pulse .badge').getByText('1 node').waitFor()
})
