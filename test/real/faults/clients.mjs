// Prints, for each case and client, the classes of the error that the client raises: one JSON list.
// clients.mjs URL KEY WRONG READER MODEL
import { ChatOpenAI } from '@langchain/openai'
import OpenAI from 'openai'

const [url, key, wrong, reader, model] = process.argv.slice(2)
const baseURL = `${url}/v1`
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms) })
const words = (content) => [{ role: 'user', content }]

async function byOpenAI (content, options = {}) {
  const { key: apiKey = key, model: name = model, retries = 0, timeout = 120_000, stream, ...more } = options
  const client = new OpenAI({ baseURL, apiKey, maxRetries: retries, timeout })
  const body = { model: name, messages: words(content), stream, ...more }
  const answer = await client.chat.completions.create(body)
  if (!stream) return answer.choices[0].message.content
  let text = ''
  for await (const { choices } of answer) text += choices[0]?.delta.content ?? ''
  return text
}

async function byLangChain (content, options = {}) {
  const { key: apiKey = key, model: name = model, retries = 0, timeout = 120_000, stream,
    max_tokens: maxTokens, ...more } = options
  const chat = new ChatOpenAI({
    model: name, apiKey, maxRetries: retries, timeout, maxTokens, configuration: { baseURL }, ...more
  })
  if (!stream) return (await chat.invoke(content)).content
  let text = ''
  for await (const piece of await chat.stream(content)) text += piece.content
  return text
}

/** Waits until the model answers again. */
async function ready () {
  for (let i = 0; i < 400; i++) {
    if (await byOpenAI('Hi', { max_tokens: 1 }).then(() => true, () => false)) return
    await sleep(250)
  }
}

async function overloaded (call, retries) {
  const answer = await fetch(`${baseURL}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, messages: words('Write a long story.'), stream: true, max_tokens: 60 })
  })
  const body = answer.body.getReader()
  for (let got = ''; !got.includes('"content":"');) {
    const { value } = await body.read()
    got += Buffer.from(value).toString()
  }
  return await call(`overload ${retries}`, { retries, max_tokens: 4 }).finally(() => body.cancel())
}

const CASES = {
  'unknown model': (call) => call('Hi', { model: 'test/none' }),
  context: (call) => call('word '.repeat(3000)),
  'bad field': (call) => call('Hi', { temperature: 9 }),
  'wrong key': (call) => call('Hi', { key: wrong }),
  'no authority': (call) => call('Hi', { key: reader }),
  timeout: (call) => call('Write a long story about a river.', { timeout: 1000, max_tokens: 900 }),
  overload: (call) => overloaded(call, 0),
  'overload, retried': (call) => overloaded(call, 20),
  killed: (call) => call('Write a long story: kill.', { stream: true, max_tokens: 900 })
}

function classesOf (error) {
  const names = [error.name]
  for (let at = Object.getPrototypeOf(error); at !== Object.prototype && at !== null;
    at = Object.getPrototypeOf(at)) names.push(at.constructor.name)
  return names
}

const results = []
for (const [client, call] of Object.entries({ 'openai-js': byOpenAI, 'langchain-js': byLangChain })) {
  for (const [name, run] of Object.entries(CASES)) {
    await ready()
    const result = { client, case: name, raised: [], text: null }
    try {
      result.text = await run(call)
    } catch (error) {
      result.raised = classesOf(error)
      result.message = String(error.message).slice(0, 400)
    }
    results.push(result)
  }
}
console.log(JSON.stringify(results))
