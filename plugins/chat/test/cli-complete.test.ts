/** `svc run` with a model that has no chat template. */
import t from 'tap'
import { data, nodeOf, sendError, sendJson } from './cli-kit.js'
import type { Node } from './cli-kit.js'
import type { Test } from 'tap'

const COMPLETE = 'POST /v1/completions'
const text = (said: string, finish: string | null = null): object =>
  ({ object: 'text_completion', choices: [{ text: said, index: 0, logprobs: null, finish_reason: finish }] })

/** A node whose model goes on with texts. */
async function storyteller (t: Test, tasks = ['completions']): Promise<Node> {
  return await nodeOf(t, {
    'POST /v1/chat/completions': (response) => {
      sendError(response, 404, 'no_instance', { model: 'acme/story', brokenLink: 'request' })
    },
    'GET /models/acme/story/card': (response) => {
      sendJson(response, { card: { quantization: null, files: [], tasks } })
    },
    [COMPLETE]: (response) => {
      response.end(`${data(text(' upon'))}${data(text(' a time', 'length'))}data: [DONE]\n\n`)
    }
  })
}

const told = 'acme/story has no chat template: it goes on with each text by itself\n'
const bodies = ({ asked }: Node): unknown[] =>
  asked.filter(({ url }) => url === '/v1/completions').map(({ body }) => body)

t.test('one text', async (t) => {
  const node = await storyteller(t)
  const ran = await node.run(['run', 'acme/story', 'Once', '--seed', '3'])
  t.equal(ran.status, 0)
  t.equal(ran.out, ' upon a time\n')
  t.equal(ran.err, `${told}cut off at the limit of tokens (--max-tokens)\n`)
  await node.run(['run', 'acme/story', 'Once', '--max-tokens', '9', '--system', 'A tale.'])
  t.same(bodies(node), [
    { model: 'acme/story', prompt: 'Once', max_tokens: 256, seed: 3, stream: true },
    { model: 'acme/story', prompt: 'A tale.\n\nOnce', max_tokens: 9, stream: true }
  ])
  const json = await node.run(['run', 'acme/story', 'Once', '--json'])
  t.same(json.out.trimEnd().split('\n').map((line) => JSON.parse(line) as unknown),
    [text(' upon'), text(' a time', 'length')])
})

t.test('a conversation is one text after the other', async (t) => {
  const node = await storyteller(t)
  const { type, stdout, stderr, done } = node.sit(['run', 'acme/story'])
  await stderr.shows(/>>> /)
  type('Once\r')
  await stdout.shows(/time\n/)
  await stderr.shows(/cut off/)
  type('Twice\r')
  await stdout.shows(/time\n upon a time\n/)
  type('/exit\r')
  t.match(await done, { status: 0 })
  t.match(bodies(node), [{ prompt: 'Once' }, { prompt: 'Twice' }])
  t.equal(stderr.text.split('has no chat template').length, 2, 'said once')
  t.equal(node.asked.filter(({ url }) => url === '/v1/chat/completions').length, 1, 'found out once')
})

t.test('a model for something else is refused as it was', async (t) => {
  const node = await storyteller(t, ['embeddings'])
  t.match(await node.run(['run', 'acme/story', 'Once']), { status: 3, out: '', err: /it is no_instance/ })
  t.same(bodies(node), [])
})
