import t from 'tap'
import { expressionsIn, judge } from './redos.mjs'

t.test('expressions are found everywhere in a source', async (t) => {
  const source = [
    'const a = /x\\/[/]y/gi.test(b)', 'const c = new RegExp("\\\\d+"), d = RegExp(`e`, "i")',
    'const f = { type: "string", pattern: "^g+$" }',
    'const h = new RegExp(`${i}`), j = 4 / 2 / 1, k = RegExp("l|" + "m" +\n"n")'
  ].join('\n')
  t.same(expressionsIn('a.ts', source), [
    { pattern: 'x\\/[/]y', flags: 'gi', line: 1 }, { pattern: '\\d+', flags: '', line: 2 },
    { pattern: 'e', flags: 'i', line: 2 }, { pattern: '^g+$', flags: 'u', line: 3 },
    { pattern: 'l|mn', flags: '', line: 4 }
  ])
})

t.test('slow expressions are distinguished from harmless ones', async (t) => {
  const rows: [RegExp, RegExp][] = [
    [/^(a+)+$/, /^exponential in the length of /], [/\s*;\s*/, /^polynomial/], [/0+$/, /^polynomial/],
    [/(?<!0)0+$/, /^linear$/], [/^[a-z]{1,20}$/, /^linear$/]
  ]
  for (const [{ source, flags }, says] of rows) t.match(judge({ pattern: source, flags }), says, source)
})
