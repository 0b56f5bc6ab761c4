// Speech to text in a real Chromium whose microphone plays a tone, with an export of random weights.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ask, open, readBody } from '../node/http.js'
import { placeOn, startNode, until } from '../node/kit.js'
import { openBrowser, openPage, skip } from './kit.js'

const MODEL = 'test/whisper'
const fixture = '../../plugins/capabilities-stt/test/fixtures/tiny-whisper'
const source = new URL(fixture, import.meta.url).href

t.test('a recording, the microphone, and a conversation', { skip }, async (t) => {
  const node = await startNode(t)
  await ask(node, `/store/models/${MODEL}/download`, { body: { source } })
  await until('the model', async () => (await ask(node, `/store/models/${MODEL}/download/status`))
    .text.includes('"complete"'))
  await placeOn(node, MODEL)
  const fake = ['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream']
  const browser = await openBrowser(t, fake)
  const { page, problems, go } = await openPage(t, browser, node, { part: 'playground/listening' })
  const path = join(t.testdir({}), 'speech.wav')
  const body = { model: 'svc/voice-en', input: 'Good morning.', response_format: 'wav' }
  await writeFile(path, await readBody(await open(node, '/v1/audio/speech', { body })))
  await page.getByLabel('Recording').setInputFiles(path)
  await page.getByRole('button', { name: 'Write it down' }).click()
  const text = page.getByRole('textbox', { name: 'Text' })
  await text.waitFor()
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'WebVTT' }).click()
  t.equal((await download).suggestedFilename(), 'transcript.vtt')

  await page.getByRole('button', { name: 'Hold to talk' }).hover()
  await page.mouse.down()
  await page.getByText('Level of the microphone').waitFor()
  // A recording without any sound is no file that can be decoded.
  await page.waitForTimeout(1000)
  await page.mouse.up()
  await page.getByRole('button', { name: 'Writing it down' }).waitFor({ state: 'detached' })
  await text.waitFor()
  await page.getByLabel('Microphone').waitFor()

  await go('playground/live')
  await page.getByRole('button', { name: 'Begin to talk' }).click()
  await page.getByText('Level of the microphone').waitFor()
  await page.getByRole('button', { name: 'End' }).click()
  await page.getByRole('button', { name: 'Begin to talk' }).waitFor()
  t.same(problems, [])
})
