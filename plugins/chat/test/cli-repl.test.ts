import t from 'tap'
import type { ServerResponse } from 'node:http'
import { begin, chunk, data, messagesOf, nodeOf, sendError, stream } from './cli-kit.js'

const CHAT = 'POST /v1/chat/completions'
const CTRL_C = '\x03'
const CTRL_D = '\x04'

/** Sends the text "x" and leaves the stream open. */
function beginWithX (response: ServerResponse): void {
  begin(response)
  response.write(data(chunk('x')))
}

/** Removes escape sequences. */
const bare = (text: string): string => text.replace(/\x1b\[[0-9;]*[A-Za-z]/g, '')

/** Matches if the output ends with an empty prompt. */
const READY = />>> \x1b\[5G$/

t.test('a conversation', async (t) => {
  let answers = 0
  const node = await nodeOf(t, { [CHAT]: (response) => { response.end(stream(`answer ${++answers}`)) } })
  const { type, stdout, stderr, done } = node.sit(['run', 'acme/chat', '--system', 'Be kind', '--seed', '4'])
  await stderr.shows(/>>> /)
  type('first\r')
  await stdout.shows(/answer 1\n/)
  type('   \rsecond\r')
  await stdout.shows(/answer 2\n/)
  type('/system Be brief\r/clear\r/etc/passwd is what?\r')
  await stdout.shows(/answer 3\n/)
  type('/system\r/nothing\r/help\r')
  await stderr.shows(/twice at the prompt, ends/)
  type('"""one\r two\rthree"""\r')
  await stdout.shows(/answer 4\n/)
  type('/bye\r')
  t.match(await done, { status: 0, out: 'answer 1\nanswer 2\nanswer 3\nanswer 4\n' })
  t.strictSame(node.asked.map(messagesOf), [
    ['system: Be kind', 'user: first'],
    ['system: Be kind', 'user: first', 'assistant: answer 1', 'user: second'],
    ['system: Be brief', 'user: /etc/passwd is what?'],
    ['user: /etc/passwd is what?', 'assistant: answer 3', 'user: one\n two\nthree']
  ])
  t.match(node.asked[3]!.body, { seed: 4 })
  t.match(bare(stderr.text), /^acme\/chat: \/help shows the commands, Ctrl-D ends\n>>> /)
  t.match(stderr.text, /unknown command \/nothing; \/help/)
  t.match(stderr.text, /the conversation is cleared/)
})

t.test('Ctrl-C ends an answer, and then the conversation', async (t) => {
  const open: ServerResponse[] = []
  const closed: Promise<void>[] = []
  const node = await nodeOf(t, {
    [CHAT]: (response) => {
      open.push(response)
      if (open.length === 3) {
        response.end(stream('whole'))
        return
      }
      closed.push(new Promise((resolve) => { response.on('close', resolve) }))
      begin(response)
      if (open.length === 1) response.write(data(chunk('begun')))
    }
  })
  const { type, stdout, stderr, done } = node.sit(['run', 'acme/chat', '--wait=60'])
  type('one\r')
  await stdout.shows(/begun/)
  type(CTRL_C)
  await closed[0]
  await stderr.shows(/\(stopped\)/)
  type('two\r')
  while (open.length < 2) await new Promise((resolve) => { setImmediate(resolve) })
  type(CTRL_C)
  await closed[1]
  await stderr.shows(/\(stopped\)[^]*\(stopped\)/)
  type('three\r')
  await stdout.shows(/whole\n/)
  await stderr.shows(READY)
  type(`typed${CTRL_C}`)
  await stderr.shows(/Ctrl-C again or Ctrl-D ends/)
  type(CTRL_C)
  t.match(await done, { status: 130, out: 'begun\nwhole\n' })
  t.strictSame(node.asked.map(messagesOf), [
    ['user: one'],
    ['user: one', 'assistant: begun', 'user: two'],
    ['user: one', 'assistant: begun', 'user: three']
  ], 'an answer that had not begun is forgotten')
})

t.test('Ctrl-C right after an ended answer ends the conversation', async (t) => {
  const node = await nodeOf(t, { [CHAT]: beginWithX })
  const { type, stdout, stderr, done } = node.sit(['run', 'acme/chat'])
  type('one\r')
  await stdout.shows(/x/)
  type(CTRL_C)
  await stderr.shows(/\(stopped\)\n/)
  await stderr.shows(READY)
  type(CTRL_C)
  t.equal((await done).status, 130)
})

t.test('Ctrl-C that comes too late for an answer does not count', async (t) => {
  const node = await nodeOf(t, { [CHAT]: (response) => { response.end(stream('whole')) } })
  const { type, stdout, stderr, done } = node.sit(['run', 'acme/chat'])
  stdout.once('written', () => { stdout.once('written', () => { type(CTRL_C) }) })
  type('one\r')
  await stdout.shows(/whole\n/)
  await stderr.shows(READY)
  type(CTRL_C)
  await stderr.shows(/Ctrl-C again or Ctrl-D ends/)
  type(CTRL_D)
  t.equal((await done).status, 0)
})

t.test('Ctrl-C drops a text of several lines', async (t) => {
  const node = await nodeOf(t, { [CHAT]: (response) => { response.end(stream('ok')) } })
  const { type, stdout, stderr, done } = node.sit(['run', 'acme/chat'])
  type('"""lost\r')
  await stderr.shows(/\.\.\. /)
  type(CTRL_C)
  await stderr.shows(/again/)
  type('kept\r')
  await stdout.shows(/ok\n/)
  type(CTRL_D)
  t.equal((await done).status, 0)
  t.strictSame(node.asked.map(messagesOf), [['user: kept']])
})

t.test('a failure is told and the conversation goes on', async (t) => {
  let asked = 0
  const node = await nodeOf(t, {
    [CHAT]: (response) => {
      asked++
      if (asked === 1) sendError(response, 400, 'context_length_exceeded')
      else if (asked === 2) response.end(data(chunk('half')))
      else response.end(stream('well'))
    }
  })
  const { type, stdout, stderr, done, hangUp } = node.sit(['run', 'acme/chat', '--stats'])
  await stderr.shows(READY)
  type('long\r')
  await stderr.shows(/svc: it is context_length_exceeded/)
  type('broken\r')
  await stderr.shows(/ended early/)
  type('short\r')
  await stderr.shows(/41\.3 tokens\/s/)
  await stderr.shows(READY)
  hangUp()
  t.match(await done, { status: 0, out: 'half\nwell\n' })
  t.strictSame(messagesOf(node.asked[2]!), ['user: short'])
  t.match(stdout.text, /^half\nwell\n$/)
})

t.test('a signal ends it, also in an answer', async (t) => {
  const node = await nodeOf(t, { [CHAT]: beginWithX })
  for (const question of ['', 'one\r']) {
    const stop = new AbortController()
    const { type, stdout, stderr, done } = node.sit(['run', 'acme/chat'], { signal: stop.signal })
    await stderr.shows(/>>> /)
    type(question)
    if (question !== '') await stdout.shows(/x/)
    stop.abort()
    t.equal((await done).status, 130, question)
  }
})

t.test('what is typed during an answer waits for its end', async (t) => {
  let first: ServerResponse | null = null
  const node = await nodeOf(t, {
    [CHAT]: (response) => {
      if (first !== null) response.end(stream('two'))
      else {
        first = response
        begin(response)
        response.write(data(chunk('o')))
      }
    }
  })
  const { type, stdout, done } = node.sit(['run', 'acme/chat'])
  type('1\r')
  await stdout.shows(/o/)
  type(`2\r${CTRL_D}`)
  first!.end(stream('ne'))
  t.match(await done, { status: 0, out: 'one\ntwo\n' })
})
