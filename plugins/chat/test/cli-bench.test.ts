import t from 'tap'
import type { ServerResponse } from 'node:http'
import { begin, chunk, data, end, nodeOf, sendError, sendJson, stream } from './cli-kit.js'
import { card, instance, state } from './cli-model-kit.js'
import { applyLoad, countFailures, figuresOf, percentile, spreadOf, textOf } from '../cli/bench.js'
import { Mp3Time } from '../../capabilities-tts/test/mp3-frames.js'
import type { WaitClock } from '../../../kernel/cli/index.js'
import type { Asked } from '../../../kernel/test/cli-helpers.js'

const CHAT = 'POST /v1/chat/completions'

/** A clock that advances 10 ms per reading. */
function steps (): WaitClock {
  let now = 0
  return { mono: () => now += 10, pause: async () => {} }
}

/** A frame of MPEG 2 layer III: 64 kbit/s at 22050 Hz, 208 bytes, 576 samples. */
const frame = Buffer.alloc(208)
frame.set([0xff, 0xf3, 0x80, 0xc4])
const FRAME_SECONDS = 576 / 22_050

type Answer = (response: ServerResponse, asked: Asked) => void

const routes = (more: Record<string, Answer>, cardMore: object = {}): Record<string, Answer> => ({
  'GET /models/acme/chat/card': (response) => {
    sendJson(response, { model_id: 'acme/chat', origin: 'hub', card: card(cardMore), copies: [] })
  },
  'GET /state': (response) => {
    sendJson(response, state({ instances: {
      i1: instance('acme/chat', { n1: 'r1', n2: 'r2' }), i2: instance('acme/chat', { n1: 'r4' })
    } }))
  },
  'GET /readyz': (response) => { sendJson(response, {}) },
  ...more
})

t.test('svc bench of a chat model', async (t) => {
  const node = await nodeOf(t, routes({ [CHAT]: (response) => { response.end(stream('a', 'b', 'c')) } }))
  const ran = await node.run(['bench', 'acme/chat', '--requests', '4', '--max-tokens', '9',
    '--prompt-tokens', '5'], { pace: steps() })
  t.match(ran, { status: 0, err: /^$/ })
  t.equal(ran.out, `acme/chat (chat, engine onnx-lm) on attic (cuda/cpu, A chip); n2
4 of 4 requests in 0.17 s, 1 at once, 0 failed

                         P50  P99
time to first token, ms  10   10
tokens/s per request     200  200

total: 118 tokens/s, 20 tokens; prompts of 3 tokens
`)
  const bodies = node.asked.filter(({ method }) => method === 'POST').map(({ body }) => body)
  t.equal(bodies.length, 5, 'one to warm up')
  t.match(bodies[1], { model: 'acme/chat', max_tokens: 9, temperature: 0, stream: true })
  const prompts = bodies.map((body) => (body as { messages: { content: string }[] }).messages[0]!.content)
  t.equal(prompts[1], 'run2-0 the river house light')
  t.equal(new Set(prompts.map((prompt) => prompt.split(' ')[0])).size, 5, 'none begins like another')
  const json = await node.run(['bench', 'acme/chat', '--requests', '4', '--json'], { pace: steps() })
  t.strictSame(JSON.parse(json.out), {
    task: 'chat', modelId: 'acme/chat', engine: 'onnx-lm',
    machines: [
      { nodeId: 'n1', name: 'attic', backends: ['cuda', 'cpu'], chip: 'A chip', accelerator: null },
      { nodeId: 'n2', name: 'n2', backends: [], chip: null, accelerator: null }
    ],
    requests: 4, concurrency: 1, promptWords: 64, maxTokens: 64, completed: 4, failed: 0, interrupted: false,
    seconds: 0.17, errors: [], timeToFirstTokenMs: { p50: 10, p99: 10 },
    tokensPerSecond: { p50: 200, p99: 200, total: 20 / 0.17 }, tokens: 20, promptTokens: 3
  })
})

t.test('svc bench: failures are counted, and the exit status tells', async (t) => {
  let asked = 0
  const node = await nodeOf(t, routes({
    [CHAT]: (response) => {
      asked++
      if (asked === 2) sendError(response, 429, 'overloaded')
      else if (asked === 3) sendError(response, 429, 'overloaded')
      else if (asked === 4) response.end(data(chunk('so far')) + data({ error: { message: 'gone' } }))
      else if (asked === 5) response.end(data(end()) + 'data: [DONE]\n\n')
      else response.end(stream('one'))
    }
  }))
  const ran = await node.run(['bench', 'acme/chat', '--requests', '5'], { pace: steps() })
  t.equal(ran.status, 1)
  t.match(ran.out, '2 of 5 requests in ')
  t.match(ran.out, /tokens\/s per request +- +-\n/, 'no rate of a single piece')
  t.equal(ran.err, '2 x it is overloaded (429 overloaded)\n1 x gone\n')
  asked = 1
  const json = await node.run(['bench', 'acme/chat', '--requests', '5', '--wait=0', '--json'])
  t.match(json, { status: 4, out: '' }, 'not even the first one worked')
})

t.test('svc bench: what is refused', async (t) => {
  const node = await nodeOf(t, routes({}))
  const wrong: [string[], RegExp][] = [
    [['--requests', '0'], /--requests 0/], [['--concurrency', '257'], /--concurrency 257: .* from 1 to 256/],
    [['--max-tokens', 'x'], /--max-tokens x/], [['--prompt-tokens', '1000001'], /--prompt-tokens/]
  ]
  for (const [words, err] of wrong) {
    t.match(await node.run(['bench', 'acme/chat', ...words]), { status: 2, err })
  }
  t.match(await node.run(['bench', 'acme']), { status: 2, err: /is not a model id/ })
  t.equal(node.asked.filter(({ method }) => method === 'POST').length, 0)
  t.match(await node.run(['bench', 'acme/none']), { status: 3 })
  const vectors = await nodeOf(t, routes({}, { tasks: ['embeddings'] }))
  t.match(await vectors.run(['bench', 'acme/chat']),
    { status: 2, err: /is for embeddings; svc bench measures chat/ })
})

t.test('svc bench: never more at once than asked for', async (t) => {
  const waiting: ServerResponse[] = []
  let most = 0
  let left = 9
  let warm = false
  const node = await nodeOf(t, routes({
    [CHAT]: (response) => {
      if (!warm) {
        warm = true
        response.end(stream('x', 'y'))
        return
      }
      waiting.push(response)
      most = Math.max(most, waiting.length)
      if (waiting.length < Math.min(4, left)) return
      left -= waiting.length
      for (const one of waiting.splice(0)) one.end(stream('x', 'y'))
    }
  }))
  const ran = await node.run(['bench', 'acme/chat', '--requests', '9', '--concurrency', '4'])
  t.match(ran, { status: 0, out: /9 of 9 requests/ })
  t.equal(most, 4)
})

t.test('svc bench: Ctrl-C shows what was measured', async (t) => {
  let stop = new AbortController()
  let asked = 0
  const node = await nodeOf(t, routes({
    [CHAT]: (response) => {
      if (++asked < 4) response.end(stream('x', 'y'))
      else {
        begin(response)
        response.write(data(chunk('x')), () => { stop.abort() })
      }
    }
  }))
  const ran = await node.run(['bench', 'acme/chat', '--requests', '50'],
    { signal: stop.signal, pace: steps() })
  t.match(ran, { status: 130, out: /^2 of 50 requests .* 0 failed$/m, err: /ended by Ctrl-C; the figures/ })
  t.equal(asked, 4)
  asked = 3
  stop = new AbortController()
  t.match(await node.run(['bench', 'acme/chat'], { signal: stop.signal }), { status: 130, out: '' },
    'nothing was measured while it warmed up')
})

t.test('the time of an MP3 by its frames', async (t) => {
  const one = (header: number[], bytes: number): Buffer => {
    const made = Buffer.alloc(bytes)
    made.set(header)
    return made
  }
  const cases: [string, Buffer, number][] = [
    ['MPEG 1, 128 kbit/s, 44100 Hz', one([0xff, 0xfb, 0x90, 0], 417), 1152 / 44_100],
    ['padded', one([0xff, 0xfb, 0x92, 0], 418), 1152 / 44_100],
    ['MPEG 2, 64 kbit/s, 22050 Hz', frame, FRAME_SECONDS],
    ['MPEG 2.5, 8 kbit/s, 8000 Hz', one([0xff, 0xe3, 0x18, 0], 72), 576 / 8000],
    ['layer II', one([0xff, 0xfd, 0x90, 0], 417), 0],
    ['no version', one([0xff, 0xeb, 0x90, 0], 417), 0],
    ['no bit rate', one([0xff, 0xfb, 0x00, 0], 417), 0],
    ['no sampling rate', one([0xff, 0xfb, 0x9c, 0], 417), 0],
    ['nothing', Buffer.alloc(0), 0]
  ]
  const timeOf = (bytes: Buffer, size: number): number => {
    const time = new Mp3Time()
    for (let at = 0; at < bytes.length; at += size) time.add(bytes.subarray(at, at + size))
    return time.seconds
  }
  for (const [name, bytes, seconds] of cases) {
    const whole = Buffer.concat([Buffer.from('ID3 \xff'), bytes, bytes, bytes.subarray(0, -1)])
    t.equal(timeOf(whole, whole.length), seconds * 2, name)
    for (const size of [1, 2, 100]) t.equal(timeOf(whole, size), seconds * 2, `${name}, in pieces of ${size}`)
  }
})

t.test('figures', async (t) => {
  const hundred = Array.from({ length: 100 }, (_, i) => 100 - i)
  t.strictSame([percentile(hundred, 0.5), percentile(hundred, 0.99), percentile(hundred, 0)], [50, 99, 1])
  t.strictSame([percentile([7], 0.99), percentile([], 0.5)], [7, null])
  t.strictSame(spreadOf([null, 3, 1, null, 2]), { p50: 2, p99: 3 })
  t.strictSame(countFailures(['a', 'b', 'b']), [{ message: 'b', count: 2 }, { message: 'a', count: 1 }])
  const sample = (rate: number | null): Parameters<typeof figuresOf>[0][number] =>
    ({ firstTokenMs: rate, tokens: 10, promptTokens: rate, rate })
  t.strictSame(figuresOf([sample(5), sample(1), sample(3), sample(null)], 2), {
    timeToFirstTokenMs: { p50: 3, p99: 5 }, tokensPerSecond: { p50: 3, p99: 1, total: 20 },
    tokens: 40, promptTokens: 3
  }, 'the slow end of a speed is the low one')
  t.strictSame(figuresOf([], 0), {
    timeToFirstTokenMs: { p50: null, p99: null }, tokensPerSecond: { p50: null, p99: null, total: null },
    tokens: 0, promptTokens: null
  })
  for (const words of [1, 2, 40]) t.equal(textOf({ nonce: 'n', index: 3, words }).split(' ').length, words)
})

t.test('an error that is no answer of a node is not counted as one', async (t) => {
  const { signal } = new AbortController()
  const load = applyLoad({ requests: 2, concurrency: 1, signal },
    async () => { throw new TypeError('a slip') }, () => {})
  await t.rejects(load, { message: 'a slip' })
})
