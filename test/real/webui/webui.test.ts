/**
 * Open WebUI with its default settings, driven in Chromium, against a node with the bundled models and a
 * small embedding model. Needs PyPI once: see install.mjs.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { folder, startNode, until } from '../../node/kit.js'
import { openBrowser } from '../../page/kit.js'
import { sameAsRecorded } from '../recorded-kit.js'
import { recorder, reportClient, textOf, type Exchange, type Expected } from '../recorder.js'
import { EMBEDDER, placeEmbedder, skip, STEP_MS, startWebui, View } from './kit.js'

/** Answers of 400 and more that are right, each with the reason. All others are faults. */
const EXPECTED: Expected[] = [
  {
    path: '/v1/chat/completions', status: 400, sent: /^\{"model":"svc\/guide".*### Task:/,
    got: /context_length_exceeded.*maximum context length is 512 tokens/,
    why: 'prompts for titles, tags and further questions repeat the chat, and the guide has 512 tokens'
  }
]

const GUIDE = /^Selected model: The guide/
const STEWARD = /^Selected model: Steward/
const ZH = '海鸥岛的渡轮除星期日外每天早上七点四十分从九号码头出发。自行车收费两克朗,狗只要拴着绳子就可以免费乘船。'
const DOCUMENTS = [
  {
    name: 'en.txt', question: 'When does the ferry leave?', passage: 'leaves pier nine at 7:40',
    text: 'The ferry to Gull Island leaves pier nine at 7:40 every morning. A bicycle costs two crowns.\n'
  },
  {
    name: 'de.txt', question: 'Wann legt die Fähre ab?', passage: 'legt werktags um 7.40 Uhr',
    text: 'Die Fähre zur Möweninsel legt werktags um 7.40 Uhr ab. Ein Fahrrad kostet zwei Kronen.\n'
  },
  // A chunk of this text has more tokens than the model's limit of 256.
  { name: 'zh.txt', question: '渡轮什么时候出发?', passage: '七点四十分从九号码头出发', text: ZH.repeat(12) }
]

t.test('Open WebUI 0.12.4', { skip, timeout: 900_000 }, async (t) => {
  const node = await startNode(t)
  const recorded = await recorder(t, node)
  const [url, embeds] = await Promise.all([startWebui(t, recorded.url), placeEmbedder(t, node)])
  const browser = await openBrowser(t)
  const view = new View(await browser.newPage(), url, recorded)
  await t.test('a chat with the preselected model', async (t) => { await chats(t, view) })
  await t.test('regenerate and stop', async (t) => { await regenerates(t, view) })
  await t.test('read aloud', async (t) => { await speaks(t, view) })
  await t.test('the pages of the connections', async (t) => { await connects(t, view) })
  const withoutModel = !embeds && 'needs PyPI'
  await t.test('documents', { skip: withoutModel }, async (t) => { await reads(t, view) })

  const models = ['svc/guide', 'svc/steward', EMBEDDER]
  sameAsRecorded(t, 'open-webui', '0.12.4', recorded.exchanges, { models })
  const { unexpected } = reportClient({
    client: 'Open WebUI', version: '0.12.4',
    set: 'OpenAI: `URL/v1`; Ollama: `URL/ollama`; speech and embeddings: OpenAI, `URL/v1`',
    works: ['chat', 'stop', 'regenerate', 'titles', 'tools offered', 'read aloud', 'documents', 'connections']
  }, recorded.exchanges, EXPECTED)
  t.same(unexpected, [], 'no other answer of svc is an error')
  t.same(view.problems, [], 'no exception and no red note on the page')
})

async function chats (t: Test, view: View): Promise<void> {
  const { page } = view
  await view.open()
  await page.getByRole('button', { name: /^Okay, Let.s Go/ }).click()
  await page.getByRole('button', { name: GUIDE }).waitFor()
  const asked = await view.answered(await view.send('How do I stop a node?'))
  t.equal(asked.status, 200)
  t.match(asked.sent, /"tools":\[\{/, 'tools are offered with each chat')
  t.notMatch(asked.got, /tool_calls/)
  t.match(asked.headers, { 'x-svc-warning': /^tools: not offered/ })
  t.match(textOf(asked), /SIGTERM/)
  await view.shows(/SIGTERM/)
  const titled = await view.exchange('the title', 0, ({ sent }) => sent.includes('concise title'))
  await view.answered(titled)
  await page.waitForFunction('document.title.startsWith("How do I stop a node?")')

  await view.chatWith('svc/steward', STEWARD)
  const before = view.recorded.exchanges.length
  const steward = await view.answered(await view.send('How many nodes are there?'))
  t.match(steward.sent, /"tools":\[\{/)
  t.match(textOf(steward), /1 of 1 node/)
  await view.shows(/1 of 1 node/)
  const untitled = await view.exchange('the title', before, ({ sent }) => sent.includes('concise title'))
  t.match(JSON.parse((await view.answered(untitled)).got), { choices: [{ message: { content: '{}' } }] })
  await page.waitForFunction('document.title.startsWith("How many nodes are there?")')
}

async function regenerates (t: Test, view: View): Promise<void> {
  const { page, recorded } = view
  await view.chatWith('svc/guide', GUIDE)
  await view.answered(await view.send('How do I stop a node?'))
  const before = recorded.exchanges.length
  await page.getByRole('button', { name: 'Regenerate' }).click()
  await page.getByRole('button', { name: 'Try Again' }).click()
  t.match(textOf(await view.answered(await view.streamed(before))), /SIGTERM/)
  await page.getByText('2/2').waitFor()

  recorded.hold(true)
  const held = await view.send('What does svc place do?')
  await until('the first words', () => textOf(held) !== '', { seconds: STEP_MS / 1000 })
  await page.getByRole('button', { name: 'Stop' }).click()
  t.equal((await view.answered(held)).ended, 'client left')
  recorded.hold(false)
  await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' })
  t.match(textOf(await view.answered(await view.send('How do I stop a node?'))), /./, 'the chat goes on')
}

async function speaks (t: Test, view: View): Promise<void> {
  const { page, recorded } = view
  await view.chatWith('svc/steward', STEWARD)
  await view.answered(await view.send('How many nodes are there?'))
  const before = recorded.exchanges.length
  await page.getByRole('button', { name: 'Read Aloud' }).last().click()
  const speech = await view.exchange('speech', before, ({ path }) => path === '/v1/audio/speech')
  t.equal((await view.answered(speech)).status, 200)
  t.match(JSON.parse(speech.sent), { voice: 'alloy' }, 'OpenAI\'s names stand for voices of svc')
  await page.waitForFunction('document.querySelector("#audioElement")?.currentTime > 0')

  await view.open('/admin/settings/audio')
  await page.locator('#tts-model-list option[value="svc/voice-en"]').waitFor({ state: 'attached' })
  // The list opens with the voices that match the input.
  await page.locator('#tts-voice-input').fill('')
  // Saving fails in Open WebUI itself, which loads its own model for recognition that is not installed.
  for (const voice of ['RMS (male)', 'SLT (female)']) {
    await page.getByRole('option').filter({ hasText: voice }).waitFor()
  }
}

async function connects (t: Test, view: View): Promise<void> {
  const { page } = view
  await view.open('/admin/settings/connections')
  for (const nth of [0, 1]) {
    await page.getByRole('button', { name: 'Configure' }).nth(nth).click()
    await page.getByRole('button', { name: 'Verify Connection' }).click()
    await page.getByText('Server connection verified').nth(nth).waitFor()
    await page.getByRole('button', { name: 'Close modal' }).last().click()
    await page.getByText('Edit Connection').waitFor({ state: 'detached' })
  }
  await page.getByRole('button', { name: 'Manage', exact: true }).click()
  for (const id of ['svc/guide', 'svc/steward', EMBEDDER]) {
    await page.locator('option').filter({ hasText: `${id}:latest` }).first().waitFor({ state: 'attached' })
  }
  await view.open('/admin/settings/models')
  for (const name of ['The guide that ships with svc', 'svc/guide:latest']) {
    await page.getByText(name).first().waitFor()
  }
  t.pass('both lists have their models')
}

/** Chooses the API of svc through which Open WebUI embeds texts. */
async function embedBy (view: View, engine: 'openai' | 'ollama'): Promise<void> {
  const token: unknown = await view.page.evaluate('localStorage.token')
  const address = { url: `${view.recorded.url}/${engine === 'openai' ? 'v1' : 'ollama'}`, key: 'none' }
  const { ok, status } = await fetch(`${view.url}/api/v1/retrieval/embedding/update`, {
    method: 'POST', headers: { authorization: `Bearer ${String(token)}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      RAG_EMBEDDING_ENGINE: engine, RAG_EMBEDDING_MODEL: EMBEDDER, [`${engine}_config`]: address
    })
  })
  if (!ok) throw new Error(`Open WebUI refused the setting: ${status}`)
}

/** Uploads a document in a new chat; resolves to the requests for its vectors. */
async function upload (t: Test, view: View, { name, text }: typeof DOCUMENTS[number]): Promise<Exchange> {
  const path = join(folder(t), name)
  writeFileSync(path, text)
  await view.chatWith('svc/steward', STEWARD)
  const before = view.recorded.exchanges.length
  const stored = view.page.waitForResponse((answer) => /\/files\/[^/]+\/process\/status/.test(answer.url()))
  await view.page.locator('input[type=file]').first().setInputFiles(path)
  await (await stored).finished()
  return await view.answered(await view.exchange('embeddings', before, (one) => /\/embed/.test(one.path)))
}

async function reads (t: Test, view: View): Promise<void> {
  const { page } = view
  // Only Ollama's API truncates texts without a field for it.
  await embedBy(view, 'ollama')
  for (const document of DOCUMENTS) {
    const { name, question, passage } = document
    t.match(await upload(t, view, document), { path: '/ollama/api/embed', status: 200 }, name)
    const asked = await view.answered(await view.send(question))
    t.equal(asked.status, 200, name)
    t.ok(asked.sent.includes(passage), `the passage of ${name} was found`)
    await page.getByText('Retrieved 1 source').waitFor()
    t.not(textOf(asked), '')
    const query = view.recorded.exchanges.findLast(({ path }) => path === '/ollama/api/embed')
    t.match(JSON.parse(query?.sent ?? ''), { input: [question] }, 'the question is the search text')
  }
  await embedBy(view, 'openai')
  t.match(await upload(t, view, DOCUMENTS[0]!), { path: '/v1/embeddings', status: 200 })
}
