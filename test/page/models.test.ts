// The models page, from a search on the hub to an answer, with real nodes and a stub hub.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import t, { type Test } from 'tap'
import { tinyModel } from '../../plugins/llama-cpp/test/gguf-kit.js'
import { gguf, llama } from '../../plugins/staging/test/cards-kit.js'
import { startHub } from '../../plugins/staging/test/hub-kit.js'
import { startCluster } from '../node/cluster-kit.js'
import { ask } from '../node/http.js'
import { sparing, until } from '../node/kit.js'
import { openBrowser, openPage, skip } from './kit.js'
import type { Page } from 'playwright-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const env = sparing(0)
const CHAT = 'acme/tiny'
const SLOW = 'acme/slow-tiny'
const MIB = 1024 ** 2

async function newHub (t: Test) {
  const weights = gguf(llama)
  const hub = await startHub({ models: {
    [CHAT]: { files: { 'tiny-F32.gguf': tinyModel() } },
    [SLOW]: { files: {
      'm-Q4_K_M.gguf': Buffer.concat([weights, Buffer.alloc(8 * MIB)]),
      'm-Q8_0.gguf': Buffer.concat([weights, Buffer.alloc(12 * MIB)]),
      // Vision weights, which only llama-server reads; no node in this test has llama-server.
      'mmproj-m.gguf': weights
    } },
    'acme/tiny-torch': { files: { 'model.safetensors': 'x' } }
  } })
  t.teardown(async () => { await hub.close() })
  return hub
}

/** Checks that the current view has no WCAG AA violation. */
async function judge (t: Test, page: Page, what: string): Promise<void> {
  await page.evaluate(axe)
  const found = await page.evaluate('axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", ' +
    '"wcag21aa", "wcag22aa"] }).then((r) => r.violations)') as { id: string, nodes: { html: string }[] }[]
  t.same(found.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`)), [], what)
}

t.test('search, pull, place, ask, copy, purge and stop', { skip, timeout: 180_000 }, async (t) => {
  const hub = await newHub(t)
  const config = {
    plugins: { placement: { autoplace: [] } },
    model_store: { hub: { url: hub.url, redirect_hosts: [hub.cdnHost] } }
  }
  const cluster = await startCluster(t, { nodes: 2, config, env })
  await cluster.agreed()
  const [first, second] = cluster.members
  const { node } = first!
  const browser = await openBrowser(t)
  const { page, problems, go } = await openPage(t, browser, node, { token: node.token, part: 'models' })
  const dialog = page.getByRole('dialog')

  await t.test('a search lists first the models that run here, then the others', async (t) => {
    await page.getByLabel(/^Words of a model's name/).fill('tiny')
    await page.getByRole('button', { name: 'Search' }).click()
    const found = page.getByRole('list', { name: `Found at ${hub.url}` })
    await found.getByText('acme/tiny-torch').waitFor()
    t.match(await found.getByRole('listitem').allInnerTexts(),
      [/slow-tiny[^]*GGUF/, /acme\/tiny[^]*GGUF/, /tiny-torch[^]*runs nowhere here/])
    await judge(t, page, 'the list')
  })

  await t.test('a pull shows its size first; its progress never goes back over a pause', async (t) => {
    hub.faults = { bytesPerSecond: 3 * MIB }
    await page.getByRole('button', { name: `Pull ${SLOW}` }).click()
    await dialog.getByText('it fits', { exact: true }).waitFor()
    await dialog.getByRole('button', { name: 'Pull 8.0 MiB' }).waitFor()
    await judge(t, page, 'the dialog')
    await dialog.getByRole('radio', { name: /Q8_0/ }).check()
    await dialog.getByRole('button', { name: 'Pull 12.0 MiB' }).waitFor()
    t.equal(hub.sent(), 0, 'nothing was fetched')
    await dialog.getByRole('button', { name: 'Pull 12.0 MiB' }).click()
    // Records every value that the progress bar shows.
    const bar = page.getByRole('progressbar', { name: `Download of ${SLOW}` })
    await bar.waitFor()
    await page.evaluate(`window.shown = []; new MutationObserver(() => {
      const bar = document.querySelector('progress[aria-label="Download of ${SLOW}"]')
      if (bar?.hasAttribute('value')) window.shown.push(bar.value)
    }).observe(document.body, { subtree: true, childList: true, attributes: true })`)
    const shown = async (): Promise<number[]> => await page.evaluate('window.shown') as number[]
    await until('some bytes to arrive', async () => new Set(await shown()).size > 2)
    await page.getByRole('button', { name: `Pause ${SLOW}` }).click()
    await page.getByRole('button', { name: `Resume ${SLOW}` }).click()
    hub.faults = {}
    await page.getByText(`${SLOW} is in the store`).waitFor()
    const values = await shown()
    t.same(values, values.toSorted((a, b) => a - b), 'it never went back')
  })

  await t.test('the chain of a model that no node can run names the link and its remedy', async (t) => {
    await page.getByRole('list', { name: 'Models' }).getByRole('link', { name: SLOW }).click()
    await page.getByText('engine_missing').waitFor()
    await page.getByText('takes no images').first().waitFor()
    await page.getByText(/svc engine add llama.cpp/).first().waitFor()
    await page.getByRole('button', { name: 'Place', exact: true }).click()
    await dialog.getByText('not possible').first().waitFor()
    t.ok(await dialog.getByRole('button', { name: 'It fits nowhere' }).isDisabled())
    await judge(t, page, 'what does not fit')
    await page.keyboard.press('Escape')
  })

  await t.test('placed on the selected nodes, with the sums, and ready without a reload', async (t) => {
    await go('models')
    await page.getByLabel(/^Words of a model's name/).fill(`hf.co/${CHAT}`)
    await page.getByRole('button', { name: `Pull ${CHAT}`, exact: true }).first().click()
    await dialog.getByRole('button', { name: /^Pull \d/ }).click()
    await page.getByText(`${CHAT} is in the store`).waitFor()
    await go(`models/${encodeURIComponent(CHAT)}`)
    await page.getByText('not placed').first().waitFor()
    await page.getByRole('button', { name: 'Place', exact: true }).click()
    // With all nodes excluded, a click includes a node again.
    await dialog.getByRole('button', { name: first!.name }).click()
    await dialog.getByRole('button', { name: second!.name }).click()
    const back = dialog.getByRole('button', { name: /^no longer exclude/ })
    const freed = (await back.textContent())!.replace('no longer exclude ', '')
    await back.click()
    await dialog.getByText(`On one node: ${freed}`).waitFor()
    if (freed === first!.name) {
      for (const { name } of [first!, second!]) await dialog.getByRole('button', { name }).click()
    }
    await dialog.getByText(`On one node: ${second!.name}`).waitFor()
    t.match(await dialog.getByRole('table').first().innerText(), /Needs[^]*Can use[^]*Left[^]*[KMG]iB/)
    await judge(t, page, 'the sums')
    await dialog.getByRole('button', { name: 'Place it' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'Try it' }).first().waitFor()
    await page.getByText(`on ${second!.name} ·`, { exact: false }).waitFor()
    await page.getByRole('link', { name: 'Its log lines' }).click()
    await page.getByRole('log').getByText('runner ready').waitFor()
    await page.goBack()
    await judge(t, page, 'the page of a model')
  })

  await t.test('a purge previews which copies stay and which are removed, and does that', async (t) => {
    await page.getByRole('button', { name: 'Remove copies' }).click()
    await dialog.getByText('in use, stays').waitFor()
    t.ok(await dialog.getByRole('button', { name: 'Nothing to remove' }).isDisabled())
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: `Stop ${CHAT}` }).click()
    await dialog.getByRole('button', { name: 'Stop it' }).click()
    await page.getByText('not placed').first().waitFor()
    await until('the copy to be idle', async () => {
      const answer = await ask(node, '/store/purge-staging', { body: { dryRun: true } })
      return JSON.stringify(answer.json).includes('"inUse":false')
    })
    await page.getByRole('button', { name: 'Remove copies' }).click()
    await dialog.getByText('goes', { exact: true }).waitFor()
    await judge(t, page, 'what would go')
    await dialog.getByRole('button', { name: /^Remove 1 copy/ }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Remove copies' }).waitFor({ state: 'detached' })
    const { copies } = (await ask(node, '/models/copies')).json as
      { copies: { modelId: string, kind: string }[] }
    t.same(copies.filter(({ modelId }) => modelId === CHAT).map(({ kind }) => kind), ['store'])
  })
  t.same(problems, [])
})
