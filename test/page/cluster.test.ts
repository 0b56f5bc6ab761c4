// The page with three real nodes: two browsers, losing the page's own node, a slow link, hostile names.
import t from 'tap'
import { faultsConfig, startNode, until } from '../node/kit.js'
import { startCluster } from '../node/cluster-kit.js'
import { ask } from '../node/http.js'
import { openBrowser, openPage, skip } from './kit.js'

const HOSTILE = '<img src=x onerror="window.pwned=1">'

t.test('a browser at one node sees changes from a browser at another node', { skip }, async (t) => {
  const cluster = await startCluster(t, { config: faultsConfig() })
  const [a, b] = cluster.members.map(({ node }) => node)
  const browser = await openBrowser(t)
  const one = await openPage(t, browser, a!, { token: a!.token })
  const two = await openPage(t, browser, b!)
  const shown = ({ page }: typeof one) => page.getByRole('list', { name: 'Instances' })
    .getByRole('link', { name: 'test/ok' })
  await Promise.all([shown(one).waitFor(), shown(two).waitFor()])
  await one.page.getByRole('button', { name: 'Stop test/ok' }).click()
  await one.page.getByRole('button', { name: 'Stop it' }).click()
  await shown(two).waitFor({ state: 'detached' })
  await ask(b!, '/place_instance', { body: { model_id: 'test/ok' } })
  await Promise.all([shown(one).waitFor(), shown(two).waitFor()])
  t.same([...one.problems, ...two.problems], [])
})

t.test('the page moves to another node when its own dies, and sends the token nowhere else', { skip },
  async (t) => {
    const cluster = await startCluster(t)
    const [first, second] = cluster.members
    const browser = await openBrowser(t)
    const { page, problems, go } = await openPage(t, browser, first!.node, { token: first!.node.token })
    const sent: string[] = []
    page.on('request', (request) => {
      const credential = JSON.stringify(request.headers())
      if (credential.includes(first!.node.token)) sent.push(new URL(request.url()).origin)
    })
    page.on('websocket', (socket) => {
      t.notOk(socket.url().includes(first!.node.token), 'the token is in no address')
    })
    // The page learns the other nodes' addresses only with a token.
    await go(`cluster/${cluster.members[2]!.node.nodeId}`)
    await page.getByText(cluster.members[2]!.node.url).waitFor()
    await first!.kill()
    await page.getByText(/n1 does not answer. This page goes on at n[23]\./).waitFor()
    await page.getByText('Your token was not sent there: it is good at n1 only.').waitFor()
    await page.getByText(/^at n[23]$/).waitFor()
    t.ok(sent.every((origin) => origin === first!.node.url), 'the token went to its own node only')
    // Opens a part of the page that was not loaded yet, although the node that served the page is dead.
    await page.getByRole('link', { name: 'Models', exact: true }).click()
    await page.getByRole('list', { name: 'Models' }).getByRole('link', { name: 'svc/guide' }).waitFor()
    await page.getByRole('link', { name: 'Cluster', exact: true }).click()
    // The page is live at the other node, so new events appear.
    const [one, other] = await page.getByText('at n3', { exact: true }).isVisible()
      ? [cluster.members[2]!, second!]
      : [second!, cluster.members[2]!]
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByLabel(`Token of ${one.node.url}`).fill(one.node.token)
    await page.getByRole('button', { name: 'Use it' }).click()
    await page.getByRole('button', { name: 'Token in use' }).waitFor()
    await one.kill()
    await page.getByText(`at ${other.name}`, { exact: true }).waitFor()
    t.ok(sent.every((origin) => origin === first!.node.url), 'nor to the next one')
    t.same(problems, [])
  })

t.test('a drained node\'s instances move before they stop', { skip }, async (t) => {
  const cluster = await startCluster(t, { nodes: 2, config: faultsConfig() })
  await cluster.agreed()
  const { node } = cluster.members[0]!
  await until('the model', async () => (await ask(node, '/readyz?model=test/ok')).status === 200)
  const { instances } = (await ask(node, '/state')).json as { instances: Record<string, object> }
  const [before] = Object.keys(instances)
  const [full, other] = JSON.stringify(instances).includes(node.nodeId)
    ? cluster.members
    : [...cluster.members].reverse()
  const browser = await openBrowser(t)
  const { page, problems, go } = await openPage(t, browser, node, {
    token: node.token, part: `cluster/${full!.node.nodeId}`
  })
  await page.getByRole('button', { name: 'Drain' }).click()
  await page.getByText('It runs 1 instance: each ends when another node serves in its place').waitFor()
  await page.getByRole('button', { name: 'Drain it' }).click()
  await page.getByText('Nothing is placed here.').waitFor()
  await go(`cluster/${other!.node.nodeId}`)
  await page.getByRole('link', { name: 'test/ok' }).waitFor()
  await go('cluster')
  const rows = page.getByRole('list', { name: 'Nodes' }).getByRole('listitem')
  await rows.filter({ hasText: full!.name }).getByText('drained').waitFor()
  const answer = await ask(node, `/instance/${before!}`)
  t.equal(answer.status, 404, 'the first one is gone')
  const refused = await ask(node, '/place_instance', {
    body: { model_id: 'test/ok', excluded_nodes: [other!.node.nodeId] }
  })
  t.match(refused, { status: 400, json: { error: { reason: 'nodes_drained' } } })
  await go(`cluster/${full!.node.nodeId}`)
  await page.getByRole('button', { name: 'Let it run models again' }).click()
  await page.getByRole('button', { name: 'Drain' }).waitFor()
  t.same(problems, [])
})

t.test('a caller without the addresses waits for its own node', { skip }, async (t) => {
  const cluster = await startCluster(t, { nodes: 2 })
  const [first] = cluster.members
  const browser = await openBrowser(t)
  const { page, problems } = await openPage(t, browser, first!.node)
  await first!.kill()
  await page.getByText(/does not answer; what is shown may be old/).waitFor()
  t.equal(await page.locator('.pulse .badge').textContent(), 'not connected')
  await first!.start()
  await page.getByText(/does not answer; what is shown may be old/).waitFor({ state: 'detached' })
  await page.getByText('2 nodes').waitFor()
  t.same(problems, [])
})

t.test('names of nodes and models are shown as text, whatever they contain', { skip }, async (t) => {
  const node = await startNode(t, { config: faultsConfig({ name: HOSTILE }) })
  const browser = await openBrowser(t)
  const { page, problems, go } = await openPage(t, browser, node, { token: node.token })
  for (const part of ['cluster', `cluster/${node.nodeId}`, 'settings/members']) {
    await go(part)
    await until('the name', async () => (await page.content()).includes('&lt;img src=x'))
  }
  t.equal(await page.evaluate('window.pwned'), undefined)
  t.equal(await page.locator('img[src=x]').count(), 0)
  t.same(problems, [])
})

t.test('over a slow link the page loads and stays up to date', { skip }, async (t) => {
  const cluster = await startCluster(t, { nodes: 1, config: faultsConfig() })
  const [{ node }] = cluster.members as [typeof cluster.members[0]]
  const browser = await openBrowser(t)
  const context = await browser.newContext()
  t.teardown(async () => { await context.close() })
  const page = await context.newPage()
  const cdp = await context.newCDPSession(page)
  await cdp.send('Network.emulateNetworkConditions', {
    offline: false, latency: 400, downloadThroughput: 40_000, uploadThroughput: 20_000
  })
  await page.goto(node.url, { timeout: 60_000 })
  const link = page.getByRole('list', { name: 'Instances' }).getByRole('link', { name: 'test/ok' })
  await link.waitFor({ timeout: 60_000 })
  const { instances } = (await ask(node, '/state')).json as { instances: Record<string, object> }
  await ask(node, `/instance/${Object.keys(instances)[0]!}`, { method: 'DELETE' })
  await link.waitFor({ state: 'detached', timeout: 60_000 })
})
