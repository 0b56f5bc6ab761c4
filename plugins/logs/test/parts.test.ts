import t from 'tap'
import { createLineText, gapText } from '../cli/logs.js'
import { inOrder, readLine, readPage } from '../lines.js'
import { pathFor, readQuery, wantOf } from '../query.js'
import { lineAt } from './kit.js'

const AT = '2026-01-31T08:00:00.000Z'
const self = { nodeId: 'n1', node: 'attic' }

t.test('the query', (t) => {
  const ms = Date.parse(AT)
  const rows: [Parameters<typeof readQuery>, object][] = [
    [[{}], { sinceMs: null, position: null, limit: 200, follow: false, want: {} }],
    [[{ since: AT }], { sinceMs: ms, limit: 1000 }], [[{ since: AT, limit: 5 }], { limit: 5 }],
    [[{ since: '2026-01-31' }], { sinceMs: Date.parse('2026-01-31') }],
    [[{ since: 'abcdef:12' }], { sinceMs: null, position: { nodeId: 'abcdef', seq: 12 }, limit: 200 }],
    [[{ follow: '1' }], { follow: true, limit: 0 }], [[{ follow: '1', limit: 3 }], { limit: 3 }],
    [[{ follow: '1', since: AT }, 'abc:7'], { sinceMs: null, position: { nodeId: 'abc', seq: 7 } }],
    [[{ since: AT }, 'abc:7'], { sinceMs: ms }],
    [[{ level: 'warn', model: 'a/b', plugin: 'chat' }],
      { want: { level: 'warn', modelId: 'a/b', plugin: 'chat' } }]
  ]
  for (const [given, expect] of rows) t.match(readQuery(...given), expect, JSON.stringify(given))
  const bad = ['yesterday', '5', 'a:b', ':5', 'a b:5', '2026-99-01', '2026-01-31T08:00:00Z:5', '../x:1']
  for (const since of bad) {
    t.throws(() => readQuery({ since }), { message: /since is .* it must be a time/ }, since)
  }
  t.same(wantOf(readQuery({ since: 'n1:5' }), 'n1'), { limit: 200, afterSeq: 5 })
  t.same(wantOf(readQuery({ since: 'old:5' }), 'n1'), { limit: 200, afterSeq: 0 }, 'it has started anew')
  t.equal(pathFor(readQuery({ follow: '1' })), '/v1/logs?follow=1')
  t.equal(pathFor(readQuery({ follow: '1', since: 'n:1' }, 'n:2')), '/v1/logs?since=n%3A2&follow=1')
  t.equal(pathFor(readQuery({ level: 'warn', model: 'a/b', plugin: 'c', since: AT, limit: 2 })),
    '/v1/logs?level=warn&model=a%2Fb&plugin=c&since=2026-01-31T08%3A00%3A00.000Z&limit=2')
  t.end()
})

t.test('what another node sends is read, or is nothing', (t) => {
  const fine = lineAt(3, AT, { source: 'runner', modelId: 'a/b', plugin: null })
  t.same(readLine(fine, self), { ...fine, ...self }, 'whose it is does not come from it')
  t.same(readLine({ ...fine, extra: 1, plugin: 5 }, self), { ...fine, ...self })
  const bad: unknown[] = [
    null, 5, [], {}, { ...fine, seq: '3' }, { ...fine, seq: 1.5 }, { ...fine, at: 'now' }, { ...fine, at: 5 },
    { ...fine, level: 'loud' }, { ...fine, message: {} }, { ...fine, fields: null }, { ...fine, fields: [] }
  ]
  for (const value of bad) t.equal(readLine(value, self), null, JSON.stringify(value))
  const page = { nodeId: 'x', node: 'y', firstSeq: 1, nextSeq: 4, lines: [fine] }
  t.same(readPage(JSON.stringify(page), self), { ...page, ...self, lines: [{ ...fine, ...self }] })
  const none = ['', 'null', '[]', '{"lines":[]}', '{"nextSeq":1,"lines":{}}', '{"nextSeq":1,"lines":[5]}']
  for (const text of none) {
    t.equal(readPage(text, self), null, text)
  }
  t.end()
})

t.test('order of time, and of writing within a node', (t) => {
  const a = (seq: number, second: number): ReturnType<typeof lineAt> =>
    lineAt(seq, `2026-01-31T08:00:0${second}.000Z`, { nodeId: 'a' })
  const b = (seq: number, second: number): ReturnType<typeof lineAt> => ({ ...a(seq, second), nodeId: 'b' })
  const shown = inOrder([b(1, 2), a(2, 3), a(1, 1), b(2, 3)]).map(({ nodeId, seq }) => `${nodeId}${seq}`)
  t.same(shown, ['a1', 'b1', 'a2', 'b2'])
  t.end()
})

t.test('lines for people', (t) => {
  const text = createLineText((_, words) => words)
  const ready = { node: 'attic', message: 'runner ready', fields: { warmupMs: 5, path: '/a b' } }
  t.equal(text(lineAt(1, AT, ready)),
    `${AT}  attic  info   chat  runner ready  warmupMs=5  path="/a b"`)
  t.equal(text(lineAt(2, AT, {
    node: 'me', level: 'error', plugin: null, message: 'it \u001b[31mfell',
    fields: { err: { type: 'Error', message: 'no disk', stack: 'at x' }, long: 'x'.repeat(999) }
  })), `${AT}  me     error  node  it  [31mfell  err="no disk"  long=${'x'.repeat(999)}`)
  t.equal(text(lineAt(3, AT, {
    source: 'runner', node: 'me', modelId: 'acme/chat', runnerId: '0123456789', message: 'loaded',
    fields: { instanceId: 'i', stream: 'stderr' }
  })), `${AT}  me     info   acme/chat#01234567  loaded`)
  const painted = createLineText((style, words) => `<${style}>${words}`)
  t.match(painted(lineAt(1, AT, { level: 'warn' })), /<dim>2026.*<bold>liar {2}<yellow>warn /)
  t.equal(gapText({ ...self, lost: 3 }), '3 lines of attic were dropped before they could be read')
  t.end()
})
