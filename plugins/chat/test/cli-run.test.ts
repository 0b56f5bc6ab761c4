import t from 'tap'
import { createServer, type AddressInfo } from 'node:net'
import {
  begin, chunk, data, end, messagesOf, nodeOf, sendError, sendJson, STATS, stream
} from './cli-kit.js'

const CHAT = 'POST /v1/chat/completions'

t.test('svc run: one answer', async (t) => {
  const node = await nodeOf(t, { [CHAT]: (response) => { response.end(stream('Hel', 'lo', '!')) } })
  t.strictSame(await node.run(['run', 'acme/chat', 'hi', 'there']), { status: 0, out: 'Hello!\n', err: '' })
  t.strictSame(node.asked[0]!.body, {
    model: 'acme/chat', messages: [{ role: 'user', content: 'hi there' }], max_tokens: 4096, stream: true
  })
  t.equal(node.asked[0]!.headers.accept, 'text/event-stream')
  const all = await node.run(['run', 'acme/chat', 'hi', '--system', 'Be short', '--temperature', '0.5',
    '--max-tokens', '7', '--seed', '0', '--stats'])
  t.strictSame(all, {
    status: 0, out: 'Hello!\n', err: '41.3 tokens/s, 5 tokens; prompt 120 tokens/s, 3 tokens\n'
  })
  t.strictSame(node.asked[1]!.body, {
    model: 'acme/chat', temperature: 0.5, max_tokens: 7, seed: 0, stream: true,
    messages: [{ role: 'system', content: 'Be short' }, { role: 'user', content: 'hi' }]
  })
})

t.test('svc run: an answer that repeats itself is stopped, unless a length is asked for', async (t) => {
  const passage = 'The capital of France is Paris. '
  const sent = Array.from({ length: 60 }, () => data(chunk(passage)))
  const node = await nodeOf(t, {
    // An endless answer: only a client disconnect ends it.
    [CHAT]: (response, { body }) => {
      begin(response)
      response.write(sent.join(''))
      if ('max_tokens' in (body as object) && (body as { max_tokens: number }).max_tokens < 4096) {
        response.end(`${data(end('length'))}data: [DONE]\n\n`)
      }
    }
  })
  const stopped = await node.run(['run', 'acme/chat', 'hi'])
  t.match(stopped, { status: 0, err: /^stopped: the answer repeats itself; --max-tokens continues/ })
  t.ok(stopped.out.length < 1_200, `${stopped.out.length} characters`)
  const asked = await node.run(['run', 'acme/chat', 'hi', '--max-tokens', '900'])
  t.match(asked, { out: `${passage.repeat(60)}\n`, err: /^cut off at the token limit/ })
})

t.test('svc run: where the question comes from', async (t) => {
  const node = await nodeOf(t, { [CHAT]: (response) => { response.end(stream('ok\n')) } })
  const umlaut = Buffer.from('grüße\r\n\n')
  const cases: [string[], string | Uint8Array[], string][] = [
    [[], 'from a pipe\n', 'from a pipe'],
    [['Sum up:'], 'line one\nline two\n', 'Sum up:\n\nline one\nline two'],
    [['-'], 'only this', 'only this'],
    [[], [umlaut.subarray(0, 3), umlaut.subarray(3)], 'grüße']
  ]
  for (const [words, stdin, expected] of cases) {
    const ran = await node.run(['run', 'acme/chat', ...words], { stdin })
    t.strictSame(ran, { status: 0, out: 'ok\n', err: '' }, 'no second new line')
    t.strictSame(messagesOf(node.asked.at(-1)!), [`user: ${expected}`])
  }
  const before = node.asked.length
  const wrong: [string[], RegExp][] = [
    [['run', 'acme/chat'], /the prompt is missing: svc run acme\/chat/],
    [['run', 'chat', 'hi'], /"chat" is not a model id/],
    [['run', 'acme/..', 'hi'], /is not a model id/],
    [['run', 'acme/chat', 'hi', '--temperature', '3'], /--temperature 3: expected a number from 0 to 2/],
    [['run', 'acme/chat', 'hi', '--max-tokens', '0'],
      /--max-tokens 0: expected a whole number of at least 1/],
    [['run', 'acme/chat', 'hi', '--seed', '1.5'], /--seed 1.5/],
    [['run', 'acme/chat', 'hi', '--seed='], /--seed/]
  ]
  for (const [words, err] of wrong) {
    t.match(await node.run(words), { status: 2, err, out: '' }, words.join(' '))
  }
  const large = [Buffer.alloc(16 * 1024 * 1024), Buffer.alloc(1)]
  t.match(await node.run(['run', 'acme/chat'], { stdin: large }),
    { status: 2, err: /is over 16777216 bytes/ })
  t.equal(node.asked.length, before, 'nothing was asked')
})

t.test('svc run --json gives the chunks as they are', async (t) => {
  const odd = { ...chunk('a\x9b\x1b'), extra: { x: null } }
  const node = await nodeOf(t, {
    [CHAT]: (response) => { response.end(`${data(odd)}${data(end())}${STATS}data: [DONE]\n\n`) }
  })
  for (const terminal of [false, true]) {
    const ran = await node.run(['run', 'acme/chat', 'hi', '--json'], { terminal, stdin: '' })
    t.equal(ran.status, 0)
    const lines = ran.out.trimEnd().split('\n')
    t.strictSame(lines.map((line) => JSON.parse(line) as unknown), [odd, end()])
    t.notMatch(ran.out, /[\x1b\x9b]/)
  }
})

t.test('svc run: nothing of a model steers a terminal', async (t) => {
  const evil = 'a\x1b[2Jb\r\x07\n\tc\x9b'
  const node = await nodeOf(t, {
    [CHAT]: (response) => {
      response.end(data({ choices: [{ delta: { reasoning_content: 'hm\x1b]0;x' } }] }) + stream(evil, '\x1b'))
    }
  })
  const shown = await node.run(['run', 'acme/chat', 'hi'], { terminal: true })
  t.equal(shown.out, 'a[2Jb\n\tc\n')
  t.equal(shown.err, 'hm]0;x\n')
  t.strictSame(await node.run(['run', 'acme/chat', 'hi']), { status: 0, out: `${evil}\x1b\n`, err: '' },
    'a pipe gets what was said, and no thoughts')
})

t.test('svc run: the stream in odd pieces', async (t) => {
  const node = await nodeOf(t, {
    [CHAT]: (response) => {
      begin(response)
      response.socket!.setNoDelay(true)
      const bytes = Buffer.from(stream('grü', 'ße 😀').replaceAll('\n', '\r\n'))
      let at = 0
      const next = (): void => {
        if (at >= bytes.length) response.end()
        else response.write(bytes.subarray(at, at += 7), () => { setImmediate(next) })
      }
      next()
    }
  })
  t.strictSame(await node.run(['run', 'acme/chat', 'hi']), { status: 0, out: 'grüße 😀\n', err: '' })
})

t.test('svc run: what is said of an answer', async (t) => {
  let text = ''
  const node = await nodeOf(t, { [CHAT]: (response) => { response.end(text) } })
  const cases: [string, string, RegExp][] = [
    [data(chunk('cut')) + data(end('length')), 'cut\n', /^cut off at the token limit \(--max-tokens\)\n/],
    [data(end()), '', /^the answer has no text\n/],
    [data({ choices: [] }) + data({ choices: [{ delta: { content: 7 } }] }) + data({}), '', /has no text/]
  ]
  for (const [events, out, err] of cases) {
    text = `${events}data: [DONE]\n\n`
    t.match(await node.run(['run', 'acme/chat', 'hi', '--stats']), { status: 0, out, err })
  }
  text = `: generation_stats {"gener\n\n${data(chunk('x'))}data: [DONE]\n\n`
  t.match(await node.run(['run', 'acme/chat', 'hi', '--stats']), { err: '? tokens/s, ? tokens; prompt ? to' })
})

t.test('svc run: refusals', async (t) => {
  let refusal: [number, string] = [0, '']
  const node = await nodeOf(t, {
    [CHAT]: (response) => { sendError(response, ...refusal, { remedy: 'Place it: `svc place acme/chat`.' }) },
    'GET /readyz': (response) => { sendJson(response, { ready: true }) }
  })
  const cases: [number, string, number][] = [
    [404, 'no_instance', 3], [400, 'context_length_exceeded', 2], [401, 'unauthenticated', 5],
    [403, 'missing_grant', 5], [500, 'instance_lost', 1], [404, 'not_found', 3]
  ]
  for (const [status, reason, exit] of cases) {
    refusal = [status, reason]
    const ran = await node.run(['run', 'acme/chat', 'hi'])
    t.match(ran, { status: exit, out: '' }, reason)
    t.match(ran.err, `it is ${reason} (${status} ${reason})\n  Place it: \`svc place acme/chat\`.\n`)
  }
  refusal = [429, 'overloaded']
  const busy = await node.run(['run', 'acme/chat', 'hi', '--wait=0'])
  t.match(busy, { status: 4, err: /overloaded/ })
  const json = await node.run(['run', 'acme/chat', 'hi', '--json', '--wait=0'])
  t.match(JSON.parse(json.err), { error: { reason: 'overloaded', code: 429 } })
})

t.test('svc run: failures in the stream', async (t) => {
  let text = ''
  let cut = false
  const node = await nodeOf(t, {
    [CHAT]: (response) => {
      begin(response)
      response.write(data(chunk('so far')) + text, () => {
        if (cut) setImmediate(() => { response.destroy() })
        else response.end()
      })
    }
  })
  const error = { message: 'The instance\x1b was lost.', code: 500, reason: 'instance_lost',
    details: { remedy: 'Ask again.' } }
  const cases: [string, RegExp][] = [
    [data({ error }), /^svc: The instance  ?was lost\. \(500 instance_lost\)\n {2}Ask again\.\n$/],
    [`event: error\n${data({ error })}data: [DONE]\n\n`, /was lost/],
    [data({ error: {} }), /^svc: the answer failed\n$/],
    ['data: {"a\n\n', /an invalid chunk: {"a\n$/],
    ['data: 7\n\n', /an invalid chunk: 7\n$/],
    ['', /^svc: the answer ended early: its stream has no \[DONE\]/]
  ]
  for (const [more, err] of cases) {
    text = more
    const ran = await node.run(['run', 'acme/chat', 'hi'])
    t.match(ran, { status: 1, err, out: /^so far\n$/ }, more)
  }
  text = data({ error })
  const json = await node.run(['run', 'acme/chat', 'hi', '--json'])
  t.match(JSON.parse(json.err), { error: { reason: 'instance_lost', code: 500 } }, 'the node\'s own error')
  text = ''
  cut = true
  t.match(await node.run(['run', 'acme/chat', 'hi']),
    { status: 1, out: 'so far\n', err: /ended the answer early/ })
  t.equal(node.asked.length, cases.length + 2, 'what has begun is not asked again')
})

t.test('svc run waits for a node that starts', async (t) => {
  let asked = 0
  let ready = false
  const node = await nodeOf(t, {
    [CHAT]: (response) => {
      asked++
      if (asked === 1) sendError(response, 404, 'no_instance')
      else if (asked === 2) sendError(response, 503, 'not_ready')
      else response.end(stream('here'))
    },
    'GET /readyz': (response) => {
      if (ready) sendJson(response, {})
      else sendError(response, 503, 'not_ready')
    }
  })
  t.match(await node.run(['run', 'acme/chat', 'hi'], { terminal: true }),
    { status: 0, out: 'here\n', err: /waiting: it is no_instance[^]*waiting: it is not_ready[^]*\n$/ })
  t.equal(asked, 3)
  asked = 0
  ready = true
  t.equal((await node.run(['run', 'acme/chat', 'hi'])).status, 3, 'all that starts by itself is there')
  asked = 0
  t.equal((await node.run(['run', 'acme/chat', 'hi', '--wait=20'])).status, 0, 'with --wait it does')
  asked = 0
  t.equal((await node.run(['run', 'acme/chat', 'hi', '--wait=0'])).status, 3)
  t.equal(asked, 1)
})

t.test('svc run: nobody is there', async (t) => {
  const server = createServer()
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => { server.close(resolve) })
  const node = await nodeOf(t, {})
  const ran = await node.run(['run', 'acme/chat', 'hi', '--url', `http://127.0.0.1:${port}`])
  t.match(ran, { status: 7, out: '', err: /nothing listens there; start one with `svc up`/ })
})

t.test('svc run: Ctrl-C', async (t) => {
  const stop = new AbortController()
  let close = (): void => {}
  const closed = new Promise<void>((resolve) => { close = resolve })
  const node = await nodeOf(t, {
    [CHAT]: (response) => {
      response.on('close', close)
      begin(response)
      response.write(data(chunk('so far')), () => { setImmediate(() => { stop.abort() }) })
    }
  })
  const ran = await node.run(['run', 'acme/chat', 'hi'], { signal: stop.signal })
  t.equal(ran.status, 130)
  t.match(ran.err, /interrupted/)
  await closed
  t.match(await node.run(['run', 'acme/chat'], { signal: stop.signal }), { status: 130 }, 'also in a pipe')
})
