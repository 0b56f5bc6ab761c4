// The playground in a real Chromium plays and shows exactly what the API answers.
import { readFile } from 'node:fs/promises'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { startCluster } from '../node/cluster-kit.js'
import { ask, open, readBody } from '../node/http.js'
import { startNode, until, type TestNode } from '../node/kit.js'
import { openBrowser, openPage, skip } from './kit.js'
import type { Page } from 'playwright-core'

const QUESTION = 'What is a runner?'
const message = (page: Page) => page.getByLabel('Message', { exact: true })

async function say (page: Page, text: string): Promise<void> {
  await message(page).fill(text)
  await message(page).press('Enter')
}

t.test('speech plays while it is generated, and the download is the API\'s answer', { skip }, async (t) => {
  const node = await startNode(t)
  const browser = await openBrowser(t)
  const { page, problems } = await openPage(t, browser, node, { part: 'playground/speech' })
  const text = 'The quick brown fox jumps over the lazy dog. Then it sleeps.'
  await page.getByLabel('Text').fill(text)
  await page.getByLabel('Voice').selectOption('slt')
  await page.getByRole('button', { name: 'Speak' }).click()
  const download = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Download' }).click()
  const heard = await readFile(await (await download).path())
  const body = { model: 'svc/voice-en', input: text, response_format: 'mp3', voice: 'slt' }
  t.ok(heard.equals(await readBody(await open(node, '/v1/audio/speech', { body }))), `${heard.length} bytes`)
  await page.getByRole('img', { name: /Waveform of [\d.]+ s of sound/ }).waitFor()
  await page.getByText(/First sound after/).locator('..').getByText(/\d+ m?s/).waitFor()
  // The player's duration must match the size of the audio, at 48 kbit/s.
  const seconds = Number(await page.evaluate('document.querySelector("audio").duration'))
  t.ok(Math.abs(seconds - heard.length * 8 / 48_000) < 0.5, `${seconds} s`)
  await until('the sound plays', async () =>
    Number(await page.evaluate('document.querySelector("audio").currentTime')) > 0)
  t.same(problems, [])
})

t.test('a conversation branches, is compared, and survives a reload', { skip }, async (t) => {
  const node = await startNode(t)
  const browser = await openBrowser(t)
  const { page, problems } = await openPage(t, browser, node, {
    part: 'playground/chat/svc%2Fguide', token: node.token
  })
  await page.locator('summary', { hasText: 'Settings' }).click()
  await page.getByLabel('Temperature').fill('0')
  await say(page, QUESTION)
  await page.getByText('tokens/s').waitFor()
  const body = { model: 'svc/guide', temperature: 0, messages: [{ role: 'user', content: QUESTION }] }
  const { json } = await ask(node, '/v1/chat/completions', { body })
  const expected = (json as { choices: { message: { content: string } }[] }).choices[0]!.message.content
  t.equal((await page.locator('.message.assistant .markdown').textContent())?.trim(), expected.trim())

  await page.getByRole('button', { name: 'As code' }).click()
  const dialog = page.getByRole('dialog')
  for (const name of await dialog.locator('option').allTextContents()) {
    await dialog.getByLabel('Program').selectOption(name)
    const code = await dialog.locator('pre').textContent() ?? ''
    t.match(code, QUESTION, name)
    t.notOk(code.includes(node.token), `${name}: without the token`)
  }
  await page.keyboard.press('Escape')

  await page.getByRole('button', { name: 'Edit' }).click()
  await page.getByLabel('The message anew').fill('What is a node?')
  await page.getByRole('button', { name: 'Ask this instead' }).click()
  await page.getByText('2 of 2').waitFor()
  await page.getByRole('button', { name: 'The version before' }).click()
  await page.locator('.message.user').getByText(QUESTION).waitFor()
  await page.getByRole('button', { name: 'Compare with another' }).click()
  await say(page, 'Which nodes are there?')
  const second = page.getByRole('log', { name: 'Conversation with svc/steward' })
  await second.getByText(/1 of 1 node is live/).waitFor()
  await page.getByRole('button', { name: 'Stop', exact: true }).waitFor({ state: 'detached' })
  // The latest text is saved within a second.
  const kept = `new Promise((done) => { indexedDB.open('svc-playground').onsuccess = ({ target }) => {
    target.result.transaction('conversations').objectStore('conversations').getAll().onsuccess =
      (event) => { target.result.close(); done(JSON.stringify(event.target.result)) } } })`
  await until('it is saved', async () => String(await page.evaluate(kept)).includes('1 of 1 node is live'))
  await page.reload()
  await second.getByText(/1 of 1 node is live/).waitFor()
  t.equal(await page.getByText('1 of 2').count(), 2, 'the branch in both')
  t.same(problems, [])
})

interface Way {
  url: string
  /** The part of the answer that the proxy has forwarded. */
  through (): string
  /** Closes every connection and stops forwarding. */
  cut (): void
}

/** One event in a stream that carries text. */
const DELTA = /data: \{.*?"delta":\{.*?"content":("(?:[^"\\]|\\.)*")\}.*\n\n/g

/** A proxy to a node that forwards `pieces` pieces of an answer and then holds back the rest. */
async function holdingAfter (t: Test, pieces: number, to: () => string): Promise<Way> {
  const sockets = new Set<Socket>()
  let through = ''
  const server = createServer((near) => {
    const far = connect(Number(new URL(to()).port), '127.0.0.1')
    for (const one of [near, far]) {
      sockets.add(one)
      one.on('error', () => {})
    }
    near.pipe(far)
    let waiting = ''
    far.on('data', (data) => {
      waiting += data.toString('latin1')
      const events = [...waiting.matchAll(DELTA)]
      const last = events[pieces - 1]
      // Everything except the answer's pieces is forwarded immediately.
      if (events.length === 0 && !waiting.includes('"delta"')) {
        near.write(data)
        waiting = ''
      } else if (last !== undefined && through === '') {
        near.write(Buffer.from(waiting.slice(0, last.index + last[0].length), 'latin1'))
        through = events.slice(0, pieces).map(([, text]) => JSON.parse(text!) as string).join('')
      }
    })
    far.on('end', () => near.end())
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  const cut = (): void => {
    server.close()
    for (const one of sockets) one.destroy()
  }
  t.teardown(cut)
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, through: () => through, cut }
}

/** Retries until the model, which may not be placed yet, answers at this node. */
async function answerAt (node: TestNode): Promise<string> {
  const body = { model: 'svc/guide', temperature: 0, messages: [{ role: 'user', content: QUESTION }] }
  const answer = await until('an answer', async () => {
    const { status, json } = await ask(node, '/v1/chat/completions', { body })
    return status === 200 && json
  })
  return (answer as { choices: { message: { content: string } }[] }).choices[0]!.message.content.trim()
}

t.test('a node dies in the middle of an answer: the received part stays, and another node answers', { skip },
  async (t) => {
    let to = ''
    const way = await holdingAfter(t, 5, () => to)
    const api = { allowed_hosts: ['127.0.0.1'], allowed_origins: [way.url] }
    const cluster = await startCluster(t, { nodes: 3, config: { api } })
    const [first, second, third] = cluster.members
    to = first!.node.url
    const expected = await answerAt(first!.node)
    const browser = await openBrowser(t)
    const { page, problems } = await openPage(t, browser, way, {
      part: 'playground/chat/svc%2Fguide', token: first!.node.token
    })
    // With the token the page has learned the addresses of the other nodes.
    await page.goto(`${way.url}/#/cluster/${second!.node.nodeId}`)
    await page.getByText(second!.node.url).waitFor()
    await page.goto(`${way.url}/#/playground/chat/svc%2Fguide`)
    await page.locator('summary', { hasText: 'Settings' }).click()
    await page.getByLabel('Temperature').fill('0')
    await say(page, QUESTION)
    const text = async (): Promise<string> =>
      (await page.locator('.message.assistant .markdown').textContent() ?? '').trim()
    await until('the forwarded part is shown', async () =>
      way.through() !== '' && await text() === way.through().trim())
    t.ok(expected.startsWith(way.through().trim()) && way.through().length < expected.length, way.through())

    way.cut()
    await first!.kill()
    await page.getByText('went away while it was answering. What had come is kept').waitFor()
    t.equal(await text(), way.through().trim())
    await page.getByText(/does not answer. This page goes on at n[23]/).waitFor()
    for (const { node } of [second!, third!]) t.equal(await answerAt(node), expected)
    await page.getByRole('button', { name: 'Ask again' }).click()
    await page.locator('.message.assistant').getByText(/in all · at n[23]/).waitFor()
    t.equal(await text(), expected)
    await page.getByText('2 of 2').waitFor()
    await page.getByRole('button', { name: 'The version before' }).click()
    await page.getByText('What had come is kept').waitFor()
    t.equal(await text(), way.through().trim())
    t.same(problems, [])
  })

const HOSTILE = `<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>
<a href="javascript:window.pwned=3">here</a> [there](javascript:window.pwned=4) [out](https://example.org)

![a picture](https://example.org/who-reads-this.png)

<div style="position:fixed;inset:0">cover</div><form action="/x"><input name=y></form>

\`\`\`js
const x = '<b>'
\`\`\``

/** A chat answer as server-sent events, one for each of these deltas. */
const answerOf = (deltas: object[], finish: string): string => [
  ...deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] })),
  { choices: [{ index: 0, delta: {}, finish_reason: finish }] }
].map((one) => `data: ${JSON.stringify(one)}\n\n`).join('') + 'data: [DONE]\n\n'

interface Models { data: { id: string, resolved_capabilities: object }[] }
interface Sent { messages: { role: string, content: unknown }[], tools?: unknown[] }

t.test('hostile answers, tools and images', { skip }, async (t) => {
  const node = await startNode(t)
  const browser = await openBrowser(t)
  const { page, problems } = await openPage(t, browser, node)
  const sent: Sent[] = []
  const asked: string[] = []
  page.on('request', (request) => { asked.push(request.url()) })
  // This stub answers like a model that reads images and calls tools, which no bundled model does.
  await page.route('**/v1/models', async (route) => {
    const list = await (await route.fetch()).json() as Models
    const guide = list.data.find(({ id }) => id === 'svc/guide')!
    Object.assign(guide.resolved_capabilities, { vision: true, tools: true })
    await route.fulfill({ json: list })
  })
  const answers = [
    answerOf([{ reasoning_content: 'Hm **hm**' }, { tool_calls: [
      { index: 0, id: 'call-1', function: { name: 'weather', arguments: '{"place":"Oslo"}' } }
    ] }], 'tool_calls'),
    answerOf([{ content: HOSTILE.slice(0, 30) }, { content: HOSTILE.slice(30) }], 'stop')
  ]
  await page.route('**/v1/chat/completions', async (route) => {
    sent.push(route.request().postDataJSON() as Sent)
    await route.fulfill({ contentType: 'text/event-stream', body: answers[sent.length - 1] ?? '' })
  })
  await page.goto(`${node.url}/#/playground/chat/svc%2Fguide`)
  await page.locator('summary', { hasText: 'Settings' }).click()
  await page.getByRole('button', { name: 'Put in an example' }).click()
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5' +
    'ErkJggg=='
  await page.getByLabel('Images for the message').setInputFiles({
    name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from(png, 'base64')
  })
  await page.getByRole('img', { name: 'Image 1' }).waitFor()
  await say(page, 'What is the weather here?')
  await page.getByText('Call of weather').waitFor()
  await page.getByText('Reasoning').click()
  await page.locator('.reasoning strong').waitFor()
  await page.getByLabel('Its result').fill('rain')
  await page.getByRole('button', { name: 'Give this result' }).click()
  await page.getByRole('link', { name: 'out' }).waitFor()
  const url = `data:image/png;base64,${png}`
  t.match(sent[0], {
    tools: [{ function: { name: 'weather' } }],
    messages: [{ role: 'user', content: [{ type: 'text' }, { image_url: { url } }] }]
  })
  t.match(sent[1]?.messages.slice(1), [
    { role: 'assistant', content: null, tool_calls: [{ id: 'call-1' }] },
    { role: 'tool', tool_call_id: 'call-1', content: 'rain' }
  ])
  const last = page.locator('.message.assistant').last()
  t.same(await last.locator('a').evaluateAll((links) => links.map((a) => [
    a.textContent, a.getAttribute('href'), a.getAttribute('rel'), a.getAttribute('target')
  ])), [
    ['there', null, 'noopener noreferrer', '_blank'],
    ['out', 'https://example.org', 'noopener noreferrer', '_blank'],
    ['a picture', 'https://example.org/who-reads-this.png', 'noopener noreferrer', '_blank']
  ])
  t.equal(await last.locator('img, script, form, input, [style], [onerror]').count(), 0)
  t.equal(await last.locator('pre code').textContent(), "const x = '<b>'\n")
  t.equal(await last.locator('pre').getByRole('button', { name: 'Copy' }).count(), 1)
  await last.getByText('<script>window.pwned=2</script>').waitFor()
  t.equal(await page.evaluate('window.pwned'), undefined)
  t.same(asked.filter((url) => url.includes('example.org')), [], 'nothing is fetched from elsewhere')
  t.same(problems, [])
})
