import t, { type Test } from 'tap'
import { begin, data, nodeOf, sendError, sendJson, type Node } from '../../chat/test/cli-kit.js'
import steward from '../index.js'
import { answerOf, until } from './voices.js'
import type { ServerResponse } from 'node:http'

const ASK = 'POST /v1/steward/ask'
type Answers = Parameters<typeof nodeOf>[1]
const node = async (t: Test, answer: Answers[string]): Promise<Node> =>
  await nodeOf(t, { [ASK]: answer }, steward)

/** A complete event stream whose text events contain these texts. */
const stream = (...texts: string[]): string => [
  ': keep-alive\n\n', data({ type: 'call', tool: 'doctor', args: {} }),
  ...texts.map((text) => data({ type: 'text', text })), data({ type: 'answer', answer: answerOf('x') })
].join('')

t.test('svc ask prints the answer as it comes', async (t) => {
  const { run, asked } = await node(t, (response) => { response.end(stream('All is ', 'fine.\n')) })
  t.strictSame(await run(['ask', 'is', 'all fine?']), { status: 0, out: 'All is fine.\n', err: '' })
  t.strictSame(asked[0]!.body, { question: 'is all fine?', thread: [], stream: true })
  t.equal(asked[0]!.headers.accept, 'text/event-stream')
})

t.test('svc ask: nothing in an answer steers a terminal, and its last line ends', async (t) => {
  const { run } = await node(t, (response) => { response.end(stream('a\x1b[2J', 'b\x9b')) })
  t.strictSame(await run(['ask', 'x'], { terminal: true }), { status: 0, out: 'a[2Jb\n', err: '' })
})

t.test('svc ask --json prints the whole answer as one value', async (t) => {
  const answer = { ...answerOf('All is fine.'), text: 'All is fine.\n' }
  const { run, asked } = await node(t, (response) => { sendJson(response, answer) })
  const { status, out } = await run(['ask', 'x', '--json'])
  t.equal(status, 0)
  t.equal(out, `${JSON.stringify(answer)}\n`)
  t.strictSame(asked[0]!.body, { question: 'x', thread: [] })
})

t.test('svc ask takes the question from a pipe', async (t) => {
  const { run, asked } = await node(t, (response) => { response.end(stream('ok\n')) })
  for (const words of [[], ['-']]) {
    t.match(await run(['ask', ...words], { stdin: ' what is running\n' }), { status: 0, out: 'ok\n' })
    t.match(asked.at(-1)!.body, { question: 'what is running' })
  }
  t.match(await run(['ask'], { stdin: ' \n' }), { status: 2, err: /there is no question: svc ask "/ })
  const large = [Buffer.alloc(64 * 1024), Buffer.alloc(1)]
  t.match(await run(['ask'], { stdin: large }), { status: 2, err: /over 65536 bytes/ })
  t.equal(asked.length, 2)
})

t.test('svc ask: what goes wrong', async (t) => {
  let answer: (response: ServerResponse) => void = () => {}
  const { run } = await node(t, (response) => { answer(response) })
  const ends = (text: string) => (response: ServerResponse): void => { response.end(text) }
  const failed = { message: 'Too late.', reason: 'timeout', code: 504, details: { remedy: 'Ask again.' } }
  const cases: [typeof answer, number, string, RegExp][] = [
    [(response) => { sendError(response, 404, 'steward_disabled') }, 3, '', /404 steward_disabled/],
    [ends(data({ type: 'text', text: 'So' }) + data({ error: failed })), 1, 'So\n',
      /Too late. \(504 timeout\)\n {2}Ask again/],
    [ends(data({ type: 'text', text: 'So' })), 1, 'So\n', /broke off/],
    [ends('data: {\n\n'), 1, '', /no JSON: \{/]
  ]
  for (const [reply, status, out, err] of cases) {
    answer = reply
    t.match(await run(['ask', 'x']), { status, out, err })
  }
  t.match(await run(['ask', 'x', '--url', 'http://127.0.0.1:1']), {
    status: 7, err: /no node answers at [^]*`svc up`[^]*\n {2}`svc doctor` says what is wrong here/
  })
})

t.test('svc ask without a question is a prompt that keeps the thread', async (t) => {
  let answers = 0
  const { sit, asked } = await node(t, (response) => {
    if (++answers === 2) sendError(response, 404, 'steward_disabled')
    else response.end(stream(`answer ${answers}\n`))
  })
  const { type, stdout, stderr, done } = sit(['ask'])
  await stderr.shows(/svc\/steward: \/help shows the commands, Ctrl-D ends[^]*>>> /)
  type('first\r')
  await stdout.shows(/answer 1\n/)
  type('second\r')
  await stderr.shows(/steward_disabled/)
  type('third\r')
  await stdout.shows(/answer 3\n/)
  type('/clear\rfourth\r')
  await stdout.shows(/answer 4\n/)
  type('/exit\r')
  t.match(await done, { status: 0, out: 'answer 1\nanswer 3\nanswer 4\n' })
  const thread = [{ role: 'user', text: 'first' }, { role: 'assistant', text: 'answer 1\n' }]
  t.match(asked.map(({ body }) => body), [
    { question: 'first', thread: [] }, { question: 'second', thread },
    { question: 'third', thread }, { question: 'fourth', thread: [] }
  ])
})

t.test('Ctrl-C ends an answer', async (t) => {
  const closed: boolean[] = []
  const { run, sit } = await node(t, (response) => {
    response.on('close', () => { closed.push(true) })
    begin(response)
    response.write(data({ type: 'text', text: 'begun' }))
  })
  const { type, stdout, stderr, done } = sit(['ask'])
  type('one\r')
  await stdout.shows(/begun/)
  type('\x03')
  await stderr.shows(/\(stopped\)/)
  type('/exit\r')
  t.match(await done, { status: 0, out: 'begun\n' })
  const interrupt = new AbortController()
  const running = run(['ask', 'x'], { signal: interrupt.signal })
  await until(() => closed.length === 1)
  interrupt.abort()
  t.match(await running, { status: 130 })
})
