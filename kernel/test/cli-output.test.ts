import t from 'tap'
import { clean, createProgress, formatTable, plain, visible } from '../cli/output.js'
import { readSpan, showBytes, formatDuration } from '../cli/text.js'
import { cli, sendJson, standIn } from './cli-helpers.js'
import { Writable } from 'node:stream'
import access from '../../plugins/access/index.js'

t.test('a table is padded, and control characters are left out', async (t) => {
  const rows = [['x', 'y'], ['wide one', '\x1b[31mred\x07']]
  t.equal(formatTable(['A', 'LONG'], rows), 'A         LONG\nx         y\nwide one  [31mred')
})

t.test('a table fits the terminal: its widest columns are cut, but not below 8 letters', async (t) => {
  const rows = [['attic', 'uwdmrdfvoaksbywzdqy2teaii4', 'http://192.168.1.20:52415'], ['b', 'é', 'x']]
  for (const columns of [200, 58, 40, 10]) {
    const lines = formatTable(['NAME', 'NODE', 'URL'], rows, columns).split('\n')
    t.ok(lines.every((line) => [...line].length <= Math.max(columns, 8 + 8 + 5 + 4)), `${columns} columns`)
    t.equal(lines[1]!.includes('…'), columns < 60)
  }
})

t.test('a group of verbs without a word lists', async (t) => {
  const node = await standIn(t, { 'GET /v1/tokens': (response) => { sendJson(response, { tokens: [] }) } })
  t.equal((await cli(['token', '--url', node.url], { plugins: [access] })).status, 0)
  t.equal(node.asked.length, 1)
  t.match(await cli(['token', 'creat', '--url', node.url], { plugins: [access] }),
    { status: 2, err: /svc token has no "creat", only create, ls, rotate, revoke/ })
  t.match((await cli(['token', '--help'], { plugins: [access] })).out, /create .*a token/)
})

t.test('bytes and spans, as people write them', async (t) => {
  const check = (found: unknown, expected: unknown): void => { t.equal(found, expected) }
  check(showBytes(0), '0 B')
  check(showBytes(1536), '1.5 KiB')
  check(showBytes(200 * 2 ** 30), '200 GiB')
  check(formatDuration(0), '0s')
  check(formatDuration(72), '1m12s')
  check(formatDuration(3600), '1h')
  check(formatDuration(90_000), '1d1h')
  check(readSpan('90'), 90)
  check(readSpan('15m'), 900)
  check(readSpan('1d'), 86_400)
  for (const wrong of ['', 'm', '1w', '-1', '1.5h']) check(readSpan(wrong), undefined)
})

t.test('nothing from the network steers a terminal, or turns the direction of writing', (t) => {
  const text = 'a\x1b[31m\x9b31m\u202eb\u2066c\u200f\u061c\u2028d\r\n\te'
  t.equal(visible(text), 'a[31m31mbcd\n\te')
  t.equal(clean(text), 'a[31m31mbcde')
  t.equal(plain(text), 'a [31m 31m b c d e')
  t.equal(visible('👩‍👩‍👧 naïve שלום'), '👩‍👩‍👧 naïve שלום')
  t.end()
})

t.test('colours and replaced lines only where they are wanted', async (t) => {
  const check = (terminal: boolean, env: NodeJS.ProcessEnv, expected: string): void => {
    let text = ''
    const stderr: Writable & { isTTY?: boolean } = new Writable({
      write (chunk, _encoding, done) { text += String(chunk); done() }
    })
    stderr.isTTY = terminal
    const err = createProgress({ stderr, env })
    err.update('half')
    err.line(err.paint('red', 'whole'))
    t.equal(text, expected, JSON.stringify({ terminal, env }))
  }
  check(false, {}, 'whole\n')
  check(true, {}, '\r\x1b[Khalf\n\x1b[31mwhole\x1b[39m\n')
  check(true, { NO_COLOR: '1' }, '\r\x1b[Khalf\nwhole\n')
  check(true, { NO_COLOR: '' }, '\r\x1b[Khalf\n\x1b[31mwhole\x1b[39m\n')
})

t.test('state is the body of the route, on one line with --json', async (t) => {
  const state = { sessionId: 's', nodeHealth: { n: { level: 'ok' } } }
  const { url } = await standIn(t, { 'GET /state': (response) => { sendJson(response, state) } })
  const json = await cli(['state', '--json', '--url', url])
  t.equal(json.out, `${JSON.stringify(state)}\n`)
  t.same(JSON.parse((await cli(['state', '--url', url])).out), state)
})
