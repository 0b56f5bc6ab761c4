import t from 'tap'
import { StopFinder } from '../../runners/language/stop.js'
import { decodeAll, textStream, type TokenTable } from '../text/stream.js'

/** A vocabulary with a token per byte, then a special token and an added one. */
const table: TokenTable = {
  size: 258, bytesOf: (id) => id < 256 ? Uint8Array.of(id) : Buffer.from(id === 256 ? '<e>' : '<t>'),
  special: new Set([256]), added: new Map([['<e>', 256], ['<t>', 257]]), strip: 1
}
const idsOf = (text: string): number[] => [...Buffer.from(text)]
const streamed = (ids: number[], stop: string[] = [], how = {}): string[] => {
  const stream = textStream(table, stop, how)
  return [...ids.map((id) => stream.push(id).text), stream.end().text]
}

t.test('text comes at once if nothing can change', async (t) => {
  t.same(streamed(idsOf('a😀e\u0301')), ['a', '', '', '', '😀', 'e', '', '\u0301', ''])
  t.same(streamed([0xff]), ['\ufffd', ''])
  t.same(streamed([0xe2]), ['', '\ufffd'])
})

t.test('leading spaces and special tokens', async (t) => {
  t.equal(streamed(idsOf('  x ')).join(''), ' x ')
  t.equal(streamed(idsOf(' x'), [], { continues: true }).join(''), ' x')
  t.equal(streamed([256, 257, 256]).join(''), '<t>', 'only the token that is not special')
  t.equal(streamed([256, 257], [], { markers: ['<e>'] }).join(''), '<e><t>')
  t.equal(decodeAll(table, [32, 256, 97, 0xe2]), '<e>a\ufffd')
})

t.test('a stop string over the borders of tokens', async (t) => {
  const stream = textStream(table, ['本語 f'])
  const pieces = idsOf('the 日本語 fox').map((id) => stream.push(id))
  t.equal(pieces.map(({ text }) => text).join(''), 'the 日')
  t.equal(pieces.at(-1)?.stopped, true)
  t.equal(stream.stop, '本語 f')
})

t.test('stop strings', async (t) => {
  const cases: [string[], string, string, boolean][] = [
    [['stop'], 'go on, stop here', 'go on, ', true],
    [['stop'], 'sto sstop', 'sto s', true],
    [['stop'], 'it may be a sto', 'it may be a sto', false],
    [['aab'], 'aaaab', 'aa', true],
    [['abcd', 'bc'], 'xabcd', 'xa', true],
    [['ab', 'b'], 'xab', 'x', true],
    [['😀'], 'a😁😀', 'a😁', true],
    [['\n\n', '###'], 'a\n#\n##b', 'a\n#\n##b', false],
    [[''], 'abc', 'abc', false]
  ]
  for (const [stops, text, wanted, stopped] of cases) {
    for (let cut = 0; cut <= text.length; cut++) {
      for (const parts of [[text.slice(0, cut), text.slice(cut)], text.split('')]) {
        const finder = new StopFinder(stops)
        const pieces = parts.map((p) => finder.push(p))
        const got = pieces.map((p) => p.text).join('') + finder.end()
        const last = pieces.at(-1)?.stopped
        if (got !== wanted || last !== stopped) {
          t.fail(`${JSON.stringify(text)} cut at ${cut}`, { stops, got, wanted })
        }
      }
    }
  }
  const finder = new StopFinder(['stop'])
  t.strictSame(['s', 't', 'a', 'st'].map((p) => finder.push(p).text), ['', '', 'sta', ''],
    'held back only while it may become one')
  t.equal(finder.end(), 'st')
  t.strictSame([finder.push('stop'), finder.push('more')].map((p) => [p.text, p.stopped]),
    [['', true], ['', true]])
})
