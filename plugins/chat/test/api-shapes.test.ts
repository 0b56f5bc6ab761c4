/** What all APIs share: bodies without a content type, texts over the context, and keys of prototypes. */
import t, { type Test } from 'tap'
import { EngineError } from '../../../kernel/index.js'
import { contextExceeded } from '../../runners/language/refusals.js'
import { card, hello, MODEL, startChat, type Kit, type Open } from './api-kit.js'
import { encoderSession, engineOpen } from './embed-kit.js'

const LONG = 'a'.repeat(200)
const input = { model: MODEL, input: LONG }
const prompt = { model: MODEL, prompt: LONG }
const messages = { ...hello, max_tokens: 9 }

type Row = [url: string, body: object]
const OLLAMA: Row[] = [
  ['/ollama/api/chat', { ...hello, stream: false }], ['/ollama/api/generate', { ...prompt, stream: false }]
]
const CHAT: Row[] = [
  ['/v1/chat/completions', hello], ['/v1/completions', prompt], ['/v1/responses', input],
  ['/ollama/v1/chat/completions', hello], ['/ollama/v1/completions', prompt], ['/v1/messages', messages]
]
const OLLAMA_EMBED: Row[] = [['/ollama/api/embed', { ...input, truncate: false }]]
const EMBED: Row[] = [['/v1/embeddings', input], ['/ollama/v1/embeddings', input]]

const sendText = async (kit: Kit, url: string, payload: string, type?: string) => await kit.rig.inject({
  method: 'POST', url, payload, headers: type === undefined ? {} : { 'content-type': type }
})

async function embedKit (t: Test): Promise<Kit> {
  return await startChat(t, {
    open: engineOpen(await encoderSession(t.testdir())), cards: [{ ...card, tasks: ['embeddings'] }]
  })
}

t.test('Ollama\'s routes accept a body with any content type or none', async (t) => {
  const [kit, embed] = [await startChat(t), await embedKit(t)]
  const short = { model: MODEL, input: 'hello' }
  const rows: [Kit, string, object][] = [
    ...OLLAMA.map(([url, body]) => [kit, url, body] as [Kit, string, object]),
    [kit, '/ollama/api/show', { model: MODEL }],
    [embed, '/ollama/api/embed', short], [embed, '/ollama/api/embeddings', { model: MODEL, prompt: 'hello' }]
  ]
  for (const [at, url, body] of rows) {
    for (const type of [undefined, 'text/plain', 'application/x-www-form-urlencoded']) {
      const answer = await sendText(at, url, JSON.stringify(body), type)
      t.equal(answer.statusCode, 200, `${url} as ${String(type)}: ${answer.body}`)
    }
  }
})

t.test('a text over the context is refused in the words and with the code that clients search', async (t) => {
  const open: Open = async function * () { throw contextExceeded(MODEL, 200, 128) }
  const rows: [Kit, Row[]][] = [
    [await startChat(t, { open }), [...CHAT, ...OLLAMA]],
    [await embedKit(t), [...EMBED, ...OLLAMA_EMBED]]
  ]
  for (const [{ post }, urls] of rows) {
    for (const [url, body] of urls) {
      const answer = await post(url, body)
      t.equal(answer.statusCode, 400, url)
      const { error, ...rest } = answer.json() as { error: string | Record<string, unknown> }
      const fields = typeof error === 'string' ? { ...rest, message: error } : error
      t.match(fields, {
        message: /maximum context length/, reason: 'context_length_exceeded', code: 'context_length_exceeded'
      }, url)
    }
  }
})

t.test('the words and the code are there if the engine knows no numbers, and in a stream', async (t) => {
  const open: Open = async function * () { throw new EngineError('context_length_exceeded', 'too long') }
  const { post } = await startChat(t, { open })
  for (const [url, body] of [...CHAT, ...OLLAMA]) {
    const { statusCode, body: text } = await post(url, { ...body, stream: true })
    t.equal(statusCode, 400, url)
    t.match(text, /"code":"context_length_exceeded"/, url)
  }
})

t.test('a key that could change a prototype is refused by name; its likes are ignored', async (t) => {
  const kit = await startChat(t)
  for (const [url, body] of [...CHAT, ...OLLAMA]) {
    const send = async (more: string) => await sendText(kit, url,
      JSON.stringify(body).replace(/\}$/, `,${more}}`), 'application/json')
    const proto = await send('"__proto__":{"stream":true}')
    t.equal(proto.statusCode, 400, url)
    t.match(proto.body, /__proto__ is a forbidden key/, url)
    const through = await send('"constructor":{"prototype":{}}')
    t.match(through.body, /constructor\.prototype is a forbidden key/, url)
    for (const more of ['"constructor":"x"', '"prototype":{}', '"toString":1', '"hasOwnProperty":1']) {
      const plain = await send(more)
      t.ok(plain.statusCode === 200, `${url} ${more}: ${plain.body}`)
    }
  }
})
