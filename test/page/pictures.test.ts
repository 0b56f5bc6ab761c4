// Takes the pictures of the documents and rewrites docs/images: SVC_TEST_PICTURES=1 npm run test:page
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ask } from '../node/http.js'
import { startCluster } from '../node/cluster-kit.js'
import { root } from '../node/kit.js'
import { openBrowser, openPage, skip as noBrowser } from './kit.js'

const wanted = process.env['SVC_TEST_PICTURES'] === '1'
const skip = noBrowser || (!wanted && 'set SVC_TEST_PICTURES=1 to take pictures')

t.test('a picture of each page', { skip }, async (t) => {
  const cluster = await startCluster(t, { config: {} })
  const [{ node }] = cluster.members as [typeof cluster.members[0]]
  await ask(node, '/v1/tracing', { method: 'PUT', body: { enabled: true } })
  await ask(node, '/v1/audio/speech', { body: { model: 'svc/voice-en', input: 'A picture needs a trace.' } })
  const browser = await openBrowser(t)
  const folder = join(root, 'docs/images')
  mkdirSync(folder, { recursive: true })
  const { page, problems, go } = await openPage(t, browser, node, { token: node.token, height: 800 })
  const menu = await page.locator('header nav a').evaluateAll((links) =>
    links.map((link) => link.getAttribute('href')!.slice(2)))
  for (const part of menu) {
    await go(part)
    await page.locator('.waiting').waitFor({ state: 'detached' })
    // A fixed wait, because some pages follow streams and the network is never idle.
    await page.waitForTimeout(2500)
    await page.screenshot({ path: join(folder, `${part}.png`) })
  }
  t.same(problems, [])
})
