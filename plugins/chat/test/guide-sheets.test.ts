import t from 'tap'
import { declaredSheets } from '../guide/declared.js'
import { parsePattern, wordChances } from '../guide/patterns.js'
import { allSheets, readSheets, writtenSheets } from '../guide/entries.js'
import { declarations } from './guide-kit.js'
import { linesOf } from '../cli/help.js'

const written = writtenSheets()
const sheets = allSheets(written, declaredSheets(declarations))

t.test('every sheet: one id, one answer, patterns that can be read', (t) => {
  t.equal(new Set(sheets.map(({ id }) => id)).size, sheets.length, 'ids')
  for (const { id, answer, title, asked } of sheets) {
    if (answer === '' || title === '') t.fail(`${id}: no answer or title`)
    if ((answer.split('`').length - 1) % 2 !== 0) t.fail(`${id}: a code mark without its partner`)
    for (const pattern of Object.values(asked).flat()) parsePattern(pattern)
  }
  for (const { id, answer = '' } of written) {
    if (answer.length > 235) t.fail(`${id}: ${answer.length} characters`)
  }
  t.end()
})

t.test('verbs, settings and routes that written answers name exist', (t) => {
  const verbs = new Set(sheets.flatMap(({ id, code }) => id.startsWith('verb:') ? [code!.slice(4)] : []))
  for (const { id, answer = '' } of written) {
    for (const [, first = '', second = ''] of answer.matchAll(/`svc ([a-z][a-z-]*)(?: ([a-z]+))?/g)) {
      const known = verbs.has(first) || verbs.has(`${first} ${second}`)
      if (!known) t.fail(`${id}: there is no svc ${first} ${second}`)
    }
  }
  const settings = sheets.flatMap(({ id, code }) => id.startsWith('config:') ? [code!] : [])
  const named = /`((?:api|cluster|limits|logging|model_store|plugins|tracing)\.[a-z_.]+)/g
  for (const { id, answer = '' } of written) {
    for (const [, key = ''] of answer.matchAll(named)) {
      const known = settings.some((one) => one === key || one.startsWith(`${key}.`))
      if (!known) t.fail(`${id}: no setting ${key}`)
    }
  }
  t.end()
})

t.test('what is written for a word that nobody declares is left out', (t) => {
  const text = '- id: error:gone\n  free: it went\n- id: a\n  title: A\n  answer: B'
  const only = allSheets(readSheets(text), [])
  t.same(only.map(({ id }) => id), ['a'])
  t.end()
})

t.test('patterns', (t) => {
  const words = (text: string): string[] => text.split(' ').filter((word) => word !== '')
  const chances = (text: string): Record<string, number> =>
    Object.fromEntries(wordChances(parsePattern(text), words))
  t.same(chances('a {b|c d} [e]'), { a: 1, b: 0.5, c: 0.5, d: 0.5, e: 0.5 })
  t.same(chances('{a|{b|c}} a'), { a: 1, b: 0.25, c: 0.25 })
  t.same(chances('a | b'), { a: 1, '|': 1, b: 1 })
  for (const broken of ['{a', 'a}', '[a', 'a]', '{a]']) t.throws(() => parsePattern(broken), broken)
  t.end()
})

t.test('lines for people', (t) => {
  const near = [{ id: 'a', title: 'A' }, { id: 'b', title: 'B' }]
  t.same(linesOf({ id: 'a', answer: 'It is a.', sure: true, near }), ['It is a.', '', 'See also:', '  B'])
  const unsure = linesOf({ id: 'a', answer: 'It is a.', sure: false, near }).join('\n')
  t.match(unsure, /not sure[\s\S]*A\n {2}B\n\nA: It is a\./)
  t.same(linesOf({ id: 'decline', answer: 'No.', sure: true, near: [] }), ['No.'])
  t.end()
})
