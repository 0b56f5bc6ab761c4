/** Sends images to a real llama-server, whose model answers with their colour. */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { png } from '../../plugins/chat/test/api-kit.js'
import { ask as answerOf } from '../../plugins/llama-cpp/test/llama-kit.js'
import { ask, refusal, type Answer } from '../node/http.js'
import { folder, sparing, startNode, svc } from '../node/kit.js'
import { colourModel, loaded, programs, skipGenerated } from './kit.js'
import { IMAGE_TOKENS } from './eyes.js'

const RGB = { red: [200, 10, 30], green: [20, 200, 10], blue: [10, 40, 200] } as const
type Colour = keyof typeof RGB
const COLOURS = Object.keys(RGB) as Colour[]

const picture = (colour: Colour, width = 40, height = 30): string => png(width, height, [...RGB[colour]])
const addressOf = (data: string): string => `data:image/png;base64,${data}`
const image = (data: string): object => ({ type: 'image_url', image_url: { url: addressOf(data) } })
const text = { type: 'text', text: 'Which colour?' }

t.test('the model recognises the image', { skip: skipGenerated }, async (t) => {
  const { session } = await loaded(t, colourModel(t), { max_batch: 2 })
  await session.warmup()
  const say = async (content: unknown, before: object[] = []) => await answerOf(session, 'chat', {
    messages: [...before, { role: 'user', content }], max_tokens: 5, temperature: 0
  })
  const blind = await say('Which colour?')
  const counts = new Map<string, number>()
  for (const colour of COLOURS) {
    const { text: said, pieces, done } = await say([text, image(picture(colour))])
    t.equal(said, `It is ${colour}.`)
    const { usage } = done as { usage: { prompt_tokens: number } }
    counts.set(colour, usage.prompt_tokens)
    t.match(pieces[0], { choices: [], usage: { prompt_tokens: usage.prompt_tokens } })
  }
  const plain = (blind.done['usage'] as { prompt_tokens: number }).prompt_tokens
  for (const [colour, count] of counts) t.ok(count >= plain + IMAGE_TOKENS, `${colour} is counted: ${count}`)
  t.notMatch(blind.text, /^It is/, 'without an image it says no colour')

  await t.test('several, and earlier ones', async (t) => {
    const two = await say([image(picture('blue')), image(picture('blue')), image(picture('red')), text])
    t.equal(two.text, 'It is blue.', 'two of three')
    const first = [{ role: 'user', content: [text, image(picture('green'))] },
      { role: 'assistant', content: 'It is green.' }]
    t.equal((await say('Again?', first)).text, 'It is green.', 'one that was shown before')
    const both = await Promise.all(COLOURS.map(async (colour) => (await say([image(picture(colour))])).text))
    t.same(both, COLOURS.map((colour) => `It is ${colour}.`), 'at once, of each its own')
  })

  await t.test('unreadable images', async (t) => {
    const data = Buffer.from(picture('red', 400, 300), 'base64')
    const damaged = Buffer.concat([data.subarray(0, 60), Buffer.alloc(40), data.subarray(100)])
    await t.rejects(say([text, image(damaged.toString('base64'))]),
      { reason: 'invalid_request', message: /cannot be decoded/ })
    t.equal((await say([text, image(picture('red'))])).text, 'It is red.', 'the next one is answered')
  })
})

/** The text of the answer, from the JSON of any chat API. */
function saidBy ({ status, json, text }: Answer): string {
  if (status !== 200) return text
  const { choices, content, output, message, response } = json as {
    choices?: { message: { content: string } }[], content?: { text: string }[],
    output?: { content: { text: string }[] }[], message?: { content: string }, response?: string
  }
  return choices?.[0]?.message.content ?? content?.[0]?.text ?? output?.[0]?.content[0]?.text ??
    message?.content ?? response ?? text
}

/** One request to each API with an image; `data` is the image in base64. */
const requests = (model: string, data: string): [path: string, body: object, field: RegExp][] => {
  const user = (...content: object[]) => [{ role: 'user', content }]
  const more = { model, max_tokens: 5, temperature: 0 }
  const ollama = { model, stream: false, options: { temperature: 0, num_predict: 5 } }
  const source = { type: 'base64', media_type: 'image/png', data }
  return [
    ['/v1/chat/completions', { ...more, messages: user(text, image(data)) }, /^messages\.0\.content\.1/],
    ['/v1/messages', { ...more, messages: user(text, { type: 'image', source }) },
      /^messages\.0\.content\.1/],
    ['/v1/responses', { model, max_output_tokens: 5, temperature: 0, input: user(
      { type: 'input_text', text: 'Which colour?' }, { type: 'input_image', image_url: addressOf(data) }
    ) }, /^input\.0\.content\.1/],
    ['/ollama/api/chat', { ...ollama, messages: [{ role: 'user', content: 'Which?', images: [data] }] },
      /^messages\.0\.images\.0/],
    ['/ollama/api/generate', { ...ollama, prompt: 'Which?', images: [data] }, /^images\.0/]
  ]
}

t.test('through a node, from svc pull on', { skip: skipGenerated, timeout: 120_000 }, async (t) => {
  const { directory } = colourModel(t)
  const models = folder(t)
  cpSync(directory, join(models, 'eyes'), { recursive: true })
  cpSync(join(directory, 'm.gguf'), join(models, 'blind', 'm.gguf'))
  const node = await startNode(t, {
    config: { plugins: { placement: { autoplace: [] } }, model_store: { hub: { enabled: false } } },
    env: { SVC_LLAMA_SERVER_BIN: join(programs, 'llama-server'), ...sparing(0) }
  })
  const at = ['--home', node.home, '--url', node.url]
  for (const name of ['eyes', 'blind']) {
    const pulled = await svc(['pull', join(models, name), ...at])
    t.equal(pulled.status, 0, pulled.stderr)
    const placed = await svc(['place', `local/${name}`, '--ctx', '512', '--wait=60', ...at])
    t.equal(placed.status, 0, placed.stderr)
  }
  t.match((await ask(node, '/v1/models')).json, { data: [
    { id: 'local/blind', resolved_capabilities: { vision: false } },
    { id: 'local/eyes', resolved_capabilities: { vision: true } }
  ] })
  t.match((await svc(['show', 'local/eyes', ...at])).stdout, /images\s+read by the vision weights/)
  for (const colour of COLOURS) {
    for (const [path, body] of requests('local/eyes', picture(colour))) {
      t.equal(saidBy(await ask(node, path, { body })), `It is ${colour}.`, path)
    }
  }
  const { json } = await ask(node, '/v1/chat/completions',
    { body: requests('local/eyes', picture('red'))[0]![1] })
  t.ok((json as { usage: { prompt_tokens: number } }).usage.prompt_tokens > IMAGE_TOKENS, 'usage counts it')

  for (const [path, body, field] of requests('local/blind', picture('red'))) {
    const refused = refusal(await ask(node, path, { body }))
    t.match(refused, { reason: 'invalid_request', param: field, message: /blind reads text only/ }, path)
  }
  for (const [path, body, field] of requests('local/eyes', 'R0lGODlhAAA=')) {
    const refused = refusal(await ask(node, path, { body }))
    t.match(refused, { reason: 'invalid_request', param: field, message: /must be a png, jpeg/ }, path)
  }
  const { status, text: why } = await ask(node, '/v1/tokenize',
    { body: requests('local/eyes', picture('red'))[0]![1] })
  t.match([status, why], [400, /have no token ids/])
  const far = { url: 'http://127.0.0.1:9/x.png' }
  const remote = { ...requests('local/eyes', '')[0]![1], messages: [
    { role: 'user', content: [{ type: 'image_url', image_url: far }] }
  ] }
  t.match(refusal(await ask(node, '/v1/chat/completions', { body: remote })),
    { reason: 'invalid_request', param: 'messages.0.content.0.image_url', message: /as a base64 data: URL/ })
})

t.test('one of two neighbouring images that the slot remembers', { skip: skipGenerated }, async (t) => {
  const { session } = await loaded(t, colourModel(t), { max_batch: 1 })
  const blue = image(picture('blue'))
  const last = async (...content: object[]) => (await answerOf(session, 'chat', {
    messages: [{ role: 'user', content }], max_tokens: 5, temperature: 0
  })).text
  t.equal(await last(blue, blue, text), 'It is blue.')
  t.equal(await last(blue), 'It is blue.', 'the end of the first image is where they differ')
})
