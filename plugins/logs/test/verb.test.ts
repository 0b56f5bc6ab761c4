import t from 'tap'
import { cli, sendError, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import logs from '../index.js'
import type { ShownLine } from '../lines.js'
import { lineAt } from './kit.js'

const at = (second: number): string => `2026-01-01T00:00:0${second}.000Z`
const me = { nodeId: 'n1', node: 'me' }
const line = (seq: number, second: number, more: Partial<ShownLine> = {}): ShownLine =>
  lineAt(seq, at(second), { ...me, ...more })
const away = { nodeId: 'n2', node: 'attic', error: { reason: 'timeout', message: 'It gave no answer.' } }

t.test('svc logs: a page, and who did not answer', async (t) => {
  const evicted = line(2, 1, { message: 'Evicted' })
  let body: object = { nodes: [{ ...me, error: null }, away], lines: [line(1, 0), evicted] }
  const node = await standIn(t, { 'GET /v1/logs/cluster': (response, asked) => {
    if (asked.url.includes('nobody')) sendError(response, 404, 'node_not_found')
    else sendJson(response, body)
  } })
  const run = async (...words: string[]): ReturnType<typeof cli> =>
    await cli(['logs', ...words, '--url', node.url], { plugins: [logs] })
  t.match(await run(), {
    status: 0, out: `${at(0)}  me  info   chat  m1\n${at(1)}  me  info   chat  Evicted\n`,
    err: 'no lines from attic: It gave no answer.\n'
  })
  t.equal((await run('--grep', 'evict|purge')).out, `${at(1)}  me  info   chat  Evicted\n`)
  const json = (await run('--json')).out.trim().split('\n').map((text) => JSON.parse(text) as ShownLine)
  t.same(json, [line(1, 0), evicted])
  await run('--since', '2026-01-31T08:00Z', '--node', 'me', '--model', 'a/b', '--level', 'warn',
    '--plugin', 'chat', '--limit', '7')
  t.equal(node.asked.at(-1)!.url, '/v1/logs/cluster?node=me&model=a%2Fb&plugin=chat&level=warn&limit=7' +
  '&since=2026-01-31T08%3A00%3A00.000Z')
  for (const since of ['soon', '12']) {
    t.match(await run('--since', since), { status: 2, err: /expected a duration such as 10m or a time/ },
      since)
  }
  t.match(await run('--grep', '('), { status: 2, err: /--grep \(: / })
  t.equal((await run('--node', 'nobody')).status, 3)
  body = { nodes: [away], lines: [] }
  t.match(await run('--node', 'attic'), {
    status: 7, out: '', err: /no lines from attic.*\nno matching lines/
  })
})

t.test('svc logs -f: goes on where it was, each line once', async (t) => {
  const stop = new AbortController()
  let opened = 0
  const node = await standIn(t, { 'GET /v1/logs/cluster': (response) => {
    opened++
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const frame = (value: unknown, type = ''): string => `${type}data: ${JSON.stringify(value)}\n\n`
    if (opened === 1) {
      response.end(`: following\n\n${frame(line(1, 6))}${frame(line(2, 7))}`)
    } else {
      response.write(frame({ ...me, lost: 2 }, 'event: gap\n') + frame(line(5, 7)))
      setTimeout(() => { stop.abort() }, 100)
    }
  } })
  const ran = await cli(['logs', '-f', '--json', '--url', node.url],
    { plugins: [logs], signal: stop.signal })
  t.equal(ran.status, 130)
  const seqs = ran.out.trim().split('\n').map((text) => JSON.parse(text) as ShownLine)
    .map(({ nodeId, seq }) => `${nodeId}:${seq}`)
  t.same(seqs, ['n1:1', 'n1:2', 'n1:5'])
  t.match(ran.err, /2 lines of me were dropped/)
  t.same(node.asked.map(({ url }) => url), [
    '/v1/logs/cluster?follow=1&limit=20',
    '/v1/logs/cluster?follow=1&since=n1%3A2'
  ])
})

t.test('svc logs -f without a node fails at once', async (t) => {
  t.equal((await cli(['logs', '-f', '--url', 'http://127.0.0.1:1'], { plugins: [logs] })).status, 7)
})
