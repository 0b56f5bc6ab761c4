// The part of the page tests that `npm test` runs: one node's page in a real Chromium.
import t from 'tap'
import { ask } from '../node/http.js'
import { startNode } from '../node/kit.js'
import { openBrowser, openPage, skip } from './kit.js'

t.test('the page of a new node shows it, follows it and stops an instance', { skip }, async (t) => {
  const node = await startNode(t)
  const browser = await openBrowser(t)
  const { page, problems } = await openPage(t, browser, node, { token: node.token })
  await page.getByRole('link', { name: 'svc/voice-en' }).first().waitFor()
  const instances = page.getByRole('list', { name: 'Instances' })
  t.equal(await instances.getByText('ready').count(), 2, 'the voice and the guide')

  await page.getByRole('button', { name: 'Stop svc/guide' }).click()
  await page.getByRole('button', { name: 'Stop it' }).click()
  await instances.getByRole('link', { name: 'svc/guide' }).waitFor({ state: 'detached' })
  const { instances: left } = (await ask(node, '/state')).json as { instances: Record<string, object> }
  t.notMatch(JSON.stringify(left), 'svc/guide')

  // A change that is made over the API appears without a reload.
  const placed = await ask(node, '/place_instance', { body: { model_id: 'svc/guide', wait: true } })
  t.equal(placed.status, 200, placed.text)
  await instances.getByRole('link', { name: 'svc/guide' }).waitFor()
  t.same(problems, [])
})

t.test('an action that the node refuses shows the reason', { skip }, async (t) => {
  const node = await startNode(t)
  const { page, problems } = await openPage(t, await openBrowser(t), node)
  // A node of an older release does not say what the caller may do.
  await page.route('**/v1/whoami', async (route) => { await route.fulfill({ status: 404, json: {} }) })
  await page.reload()
  await page.getByRole('button', { name: 'Stop svc/guide' }).click()
  await page.getByRole('button', { name: 'Stop it' }).click()
  await page.getByText('This needs the authority "cluster:write"').waitFor()
  t.same(problems, [])
})
