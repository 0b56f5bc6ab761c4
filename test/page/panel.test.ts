// A plugin that svc.yaml names adds a panel, which is shown in a frame that can reach only the page.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { faultsConfig, folder, root, startNode } from '../node/kit.js'
import { openBrowser, openPage, skip } from './kit.js'

const PLUGIN = `
import { definePlugin } from '${pathToFileURL(join(root, 'dist/plugins/public.js')).href}'
export default definePlugin({
  name: 'guest', version: '1.0.0', kernel: '^1.0.0', summary: 'Brings a panel.',
  panels: { hello: { title: 'Guest panel', module: new URL('./panel.js', import.meta.url) } },
  routes: { word: { method: 'GET', url: '/v1/guest', summary: 'A word.', authority: 'read' } }
}, () => ({ routes: { word: () => ({ word: 'welcome' }) } }))
`
const PANEL = `
const out = document.body.appendChild(document.createElement('p'))
const told = {}
const show = () => { out.textContent = JSON.stringify(told) }
addEventListener('message', ({ data }) => {
  if (data.kind === 'state') told.nodes = data.state.topology.nodes.length
  if (data.kind === 'got') told[data.id] = data.status + ' ' + (data.body.word ?? '')
  show()
})
parent.postMessage({ kind: 'get', id: 'own', path: '/v1/guest' }, '*')
parent.postMessage({ kind: 'get', id: 'other', path: '/v1/tokens' }, '*')
parent.postMessage({ kind: 'height', px: 321 }, '*')
try { told.stored = String(localStorage) } catch { told.stored = 'refused' }
try { told.outer = parent.document.title } catch { told.outer = 'refused' }
fetch('/state').then(() => { told.fetched = 'yes' }, () => { told.fetched = 'refused' }).finally(show)
`

t.test('a panel of another plugin', { skip }, async (t) => {
  const at = join(folder(t), 'guest')
  mkdirSync(at)
  writeFileSync(join(at, 'index.mjs'), PLUGIN)
  writeFileSync(join(at, 'panel.js'), PANEL)
  const plugins = { guest: { module: join(at, 'index.mjs') } }
  const node = await startNode(t, { config: faultsConfig({ plugins }, { autoplace: [] }) })
  const browser = await openBrowser(t)
  const { page } = await openPage(t, browser, node, { token: node.token })
  await page.getByRole('link', { name: 'Guest panel' }).click()
  const frame = page.frameLocator('iframe[title="Guest panel"]')
  const text = frame.locator('p')
  for (const part of [/"own":"200 welcome"/, /"other":"403 "/, /"nodes":1/, /"fetched":"refused"/]) {
    await text.filter({ hasText: part }).waitFor()
  }
  t.match(await text.textContent(), /"stored":"refused"/)
  t.match(await text.textContent(), /"outer":"refused"/)
  t.equal((await page.locator('iframe').boundingBox())?.height, 321)
})
