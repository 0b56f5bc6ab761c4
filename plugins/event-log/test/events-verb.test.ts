import t from 'tap'
import { cli, sendError, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import eventLog from '../index.js'
import type { ShownEvent } from '../reading/page.js'

const event = (idx: number, payload: Record<string, unknown> = { nodeId: 'n1' }): ShownEvent => ({
  idx, at: '2026-01-01T00:00:00.000Z', origin: 'abcdefghijklmnop', sessionId: 's1', id: `e${idx}`,
  event: { NodeJoined: payload }
})
const page = {
  sessionId: 's1', mode: 'normal', counted: 0, firstIdx: 1, nextIdx: 3, events: [event(1), event(2)]
}

t.test('svc events shows a page', async (t) => {
  const odd = event(5, { why: 'it \u001b[31m fell', count: 2 })
  const answer = { ...page, gaps: [[1, 4]], degraded: true, events: [odd] }
  const node = await standIn(t, { 'GET /events': (response, asked) => {
    if (asked.url.includes('Nope')) sendError(response, 400, 'invalid_request')
    else sendJson(response, asked.url.includes('since=1') ? answer : page)
  }, 'GET /state': (response) => {
    sendJson(response, { nodeIdentities: { n1: { friendlyName: 'attic' } } })
  } })
  const run = async (...words: string[]): ReturnType<typeof cli> =>
    await cli(['events', ...words, '--url', node.url], { plugins: [eventLog] })
  t.equal((await run()).out,
    '2026-01-01 00:00:00  1  abcdefgh  Node joined: attic\n' +
    '2026-01-01 00:00:00  2  abcdefgh  Node joined: attic\n')
  t.equal(node.asked.at(-2)!.url, '/events')
  t.same(JSON.parse((await run('--json')).out), page)
  const gap = await run('--since', '1', '--kind', 'NodeJoined', 'LogGap', '--node', 'two', '--limit', '9')
  t.equal(node.asked.at(-2)!.url, '/events?since=1&kinds=NodeJoined%2CLogGap&node=two&limit=9')
  t.match(gap.err, /does not store events now/)
  t.match(gap.err, /events 1 to 4 are missing on this node/)
  t.match(gap.out, /why it .*fell · count 2\n$/)
  t.notMatch(gap.out, '\u001b')
  t.match(await run('--since', 'soonish'),
    { status: 2, err: /--since soonish: expected a duration such as 10m/ })
  t.match(await run('--kind', 'Nope'), { status: 2 })
})

t.test('svc events -f follows, and reads on where the stream broke off', async (t) => {
  const stop = new AbortController()
  let opened = 0
  const node = await standIn(t, { 'GET /events': (response) => {
    opened++
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (opened === 1) {
      response.write(': following\n\nevent: gap\ndata: {"from":1,"to":6}\n\n')
      response.end(`id: 7\ndata: ${JSON.stringify(event(7))}\n\n`)
    } else {
      response.write(`data: ${JSON.stringify(event(6))}\n\nid: 8\ndata: ${JSON.stringify(event(8))}\n\n`)
      setTimeout(() => { stop.abort() }, 100)
    }
  } })
  const ran = await cli(['events', '-f', '--json', '--url', node.url],
    { plugins: [eventLog], signal: stop.signal })
  t.equal(ran.status, 130)
  t.same(ran.out.trim().split('\n').map((line) => (JSON.parse(line) as ShownEvent).idx), [7, 6, 8])
  t.match(ran.err, /events 1 to 6 are missing on this node/)
  t.same(node.asked.map((a) => a.url), ['/events?follow=1&limit=20', '/events?follow=1&since=7'])
})

t.test('svc events -f without a node fails at once', async (t) => {
  const ran = await cli(['events', '-f', '--url', 'http://127.0.0.1:1'], { plugins: [eventLog] })
  t.equal(ran.status, 7)
})
