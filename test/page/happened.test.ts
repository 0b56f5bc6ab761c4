// The events and discovery pages: live events and logs, a trace, a past state, calls to any capability.
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ask, open, readBody } from '../node/http.js'
import { startNode, until } from '../node/kit.js'
import { openBrowser, openPage, skip } from './kit.js'

const module = fileURLToPath(new URL('./talks.mjs', import.meta.url))

t.test('events and logs are live, and hidden without the authority', { skip }, async (t) => {
  const node = await startNode(t)
  const browser = await openBrowser(t)
  const reader = await openPage(t, browser, node, { part: 'happened/events' })
  await reader.page.getByText(/The events cannot be shown\. This needs the authority "operator"/).waitFor()
  const { page, problems, go } = await openPage(t, browser, node,
    { token: node.token, part: 'happened/events' })
  const events = page.getByRole('list', { name: 'Events' })
  await events.getByText('Instance created').first().waitFor()
  await ask(node, '/v1/tracing', { method: 'PUT', body: { enabled: true } })
  await events.getByText('Tracing state changed').waitFor()
  await page.getByLabel('Kind').selectOption({ label: 'Master elected' })
  await events.getByText('Tracing state changed').waitFor({ state: 'detached' })
  await events.getByText('Master elected').waitFor()

  await go('happened/logs')
  const logs = page.getByRole('log')
  await logs.getByText('listening').waitFor()
  await page.getByLabel('Text', { exact: true }).fill('no line has this')
  await page.getByText('No such line yet.').waitFor()
  t.same([...problems, ...reader.problems], [])
})

t.test('a traced request is shown as a waterfall and saved for Perfetto', { skip }, async (t) => {
  const node = await startNode(t)
  await ask(node, '/v1/tracing', { method: 'PUT', body: { enabled: true } })
  const spoken = await ask(node, '/v1/audio/speech', { body: { model: 'svc/voice-en', input: 'Hello.' } })
  const id = String(spoken.headers['x-svc-task-id'])
  const browser = await openBrowser(t)
  const { page, problems } = await openPage(t, browser, node, { token: node.token, part: 'happened/traces' })
  await page.getByRole('link', { name: 'tts of svc/voice-en' }).click()
  const lane = page.getByRole('group', { name: 'Waterfall' }).getByText('synthesise')
  await lane.waitFor()
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download for Perfetto' }).click()
  t.equal((await download).suggestedFilename(), `trace-${id}.json`)
  t.same(problems, [])
})

t.test('the page shows an earlier moment', { skip }, async (t) => {
  const node = await startNode(t)
  const browser = await openBrowser(t)
  const { page, problems, go } = await openPage(t, browser, node, { token: node.token })
  const instances = page.getByRole('list', { name: 'Instances' })
  await instances.getByRole('link', { name: 'svc/guide' }).waitFor()
  const { lastEventAppliedIdx: before } = (await ask(node, '/state')).json as { lastEventAppliedIdx: number }
  await until('a recorded state', async () => (await ask(node, `/state?at=${before}`)).status === 200)
  await page.getByRole('button', { name: 'Stop svc/guide' }).click()
  await page.getByRole('button', { name: 'Stop it' }).click()
  await instances.getByRole('link', { name: 'svc/guide' }).waitFor({ state: 'detached' })

  await go(`happened/past/${before}`)
  await page.getByRole('button', { name: 'Show the page as it was' }).click()
  await page.getByText(`(event ${before})`).waitFor()
  await go('cluster')
  await instances.getByRole('link', { name: 'svc/guide' }).waitFor()
  await page.getByRole('button', { name: 'Back to now' }).click()
  await instances.getByRole('link', { name: 'svc/guide' }).waitFor({ state: 'detached' })
  t.same(problems, [])
})

t.test('the steward\'s evidence links to its source, and charts are drawn', { skip }, async (t) => {
  const node = await startNode(t)
  const browser = await openBrowser(t)
  const { page, problems, go } = await openPage(t, browser, node, { token: node.token, part: 'happened/ask' })
  await page.getByLabel('Question').fill('who is master?')
  await page.getByRole('button', { name: 'Ask', exact: true }).click()
  await page.getByRole('list', { name: 'What it stands on' }).getByRole('link').first().waitFor()
  await go('happened/metrics')
  await page.getByRole('img', { name: /^Memory over time; now node \d/ }).waitFor()
  t.same(problems, [])
})

t.test('a third-party capability has a form, and a call in both directions', { skip }, async (t) => {
  const node = await startNode(t, { config: { plugins: { talks: { module } } } })
  const browser = await openBrowser(t)
  const { page, problems } = await openPage(t, browser, node, { token: node.token, part: 'discovery' })
  await page.getByRole('link', { name: 'talk@1.0.0' }).click()
  await page.getByText(node.revision('talk@1.0.0')).first().waitFor()
  await page.getByRole('textbox', { name: 'prefix' }).fill('I')
  await page.getByRole('button', { name: 'Call', exact: true }).click()
  await page.getByRole('alert').getByText('prefix').waitFor()
  await page.getByRole('textbox', { name: 'prefix' }).fill('I say')
  await page.getByRole('button', { name: 'Call', exact: true }).click()
  await page.getByRole('list', { name: 'Frames' }).getByText('started').waitFor()
  await page.getByRole('textbox', { name: 'text' }).fill('hello')
  await page.getByRole('button', { name: 'Send the chunk' }).click()
  await page.getByText('{"text":"I say hello"}').waitFor()
  await page.getByRole('button', { name: 'That was all' }).click()
  await page.getByRole('list', { name: 'Frames' }).getByText('completed').waitFor()
  t.same(problems, [])
})

t.test('the sound of a call plays while the call runs', { skip }, async (t) => {
  const node = await startNode(t, { config: { plugins: { talks: { module } } } })
  const body = { model: 'svc/voice-en', input: 'Good morning. It plays before all of it is there.' }
  const mp3 = await readBody(await open(node, '/v1/audio/speech', { body }))
  const browser = await openBrowser(t)
  const options = { token: node.token, part: 'discovery/sing%401.0.0' }
  const { page, problems } = await openPage(t, browser, node, options)
  await page.getByRole('button', { name: 'Call', exact: true }).click()
  await page.getByRole('textbox', { name: 'base64' }).fill(mp3.toString('base64'))
  await page.getByRole('button', { name: 'Send the chunk' }).click()
  await until('it plays', async () =>
    Number(await page.evaluate('document.querySelector("audio")?.currentTime ?? 0')) > 0)
  t.ok(await page.getByRole('button', { name: 'That was all' }).isVisible(), 'while the call goes on')
  t.equal(await page.getByRole('button', { name: /^Save/ }).count(), 0, 'it is not all there yet')
  await page.getByRole('button', { name: 'That was all' }).click()
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: /^Save .* of audio\/mpeg/ }).click()
  t.ok((await readFile(await (await download).path())).equals(mp3))
  t.same(problems, [])
})

t.test('another origin gets only the token typed for it', { skip }, async (t) => {
  const [home, closed] = await Promise.all([startNode(t), startNode(t)])
  const open = await startNode(t, { config: { api: { allowed_origins: [home.url] } } })
  const browser = await openBrowser(t)
  const { page, problems } = await openPage(t, browser, home,
    { token: home.token, part: 'discovery', expected: /CORS|blocked/ })
  const sent: [string, string][] = []
  page.on('request', (request) => {
    const all = JSON.stringify(request.headers()) + request.url()
    for (const { token } of [home, closed, open]) {
      if (all.includes(token)) sent.push([token, new URL(request.url()).origin])
    }
  })
  const look = async (at: string, token: string): Promise<void> => {
    await page.getByRole('button', { name: 'Another origin' }).click()
    await page.getByLabel('Origin', { exact: true }).fill(`${at}/some/path`)
    await page.getByLabel('Token, if it wants one').fill(token)
    await page.getByRole('button', { name: 'Look there' }).click()
  }
  await look(closed.url, closed.token)
  await page.getByText(`svc config set api.allowed_origins '["${home.url}"]'`).waitFor()
  await page.getByRole('button', { name: 'Back to this cluster' }).click()
  await look(open.url, open.token)
  await page.getByRole('link', { name: 'tts@1.0.0' }).click()
  await page.getByRole('textbox', { name: 'model' }).fill('svc/voice-en')
  await page.getByRole('textbox', { name: 'text' }).fill('Hello from another origin.')
  await page.getByRole('button', { name: 'Call', exact: true }).click()
  await page.getByRole('button', { name: /^Save .* of audio\/mpeg/ }).waitFor()
  t.ok(sent.some(([token]) => token === open.token), 'it was sent')
  for (const [token, origin] of sent) {
    t.equal(origin, [home, closed, open].find((one) => one.token === token)!.url)
  }
  const stored = await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie])')
  t.notMatch(String(stored), open.token)
  await page.reload()
  await page.getByRole('button', { name: 'Another origin' }).waitFor()
  t.same(problems, [])
})
