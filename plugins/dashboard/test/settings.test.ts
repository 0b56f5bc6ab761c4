import t from 'tap'
import { grouped, kindOf, originText, readText, textOf } from '../page/settings/editor.js'
import type { Setting, SettingSchema } from '../page/settings/editor.js'

const port: SettingSchema = { type: 'integer', minimum: 0, maximum: 65535 }
const hosts: SettingSchema = { type: 'array', items: { type: 'string', format: 'host' }, uniqueItems: true }
const quorum: SettingSchema = { enum: [1, 'majority'] }

t.test('a setting has the control of its schema', (t) => {
  const cases: [SettingSchema | null, string][] = [
    [{ type: 'boolean' }, 'switch'], [port, 'number'], [{ type: 'string' }, 'text'], [hosts, 'lines'],
    [quorum, 'choice'], [{ type: ['string', 'null'] }, 'text'], [{ type: 'object' }, 'json'],
    [{ type: 'array', items: { type: 'object' } }, 'json'], [{ type: ['string', 'integer'] }, 'json'],
    [null, 'json'], [{}, 'json']
  ]
  for (const [schema, kind] of cases) t.equal(kindOf(schema), kind, JSON.stringify(schema))
  t.end()
})

t.test('what is typed becomes the value, or says why it is none', (t) => {
  const good: [SettingSchema | null, string, unknown][] = [
    [port, '5000', 5000], [port, '', null], [{ type: 'boolean' }, 'false', false], [quorum, '1', 1],
    [quorum, 'majority', 'majority'], [hosts, ' a \n\nb', ['a', 'b']], [hosts, '', []],
    [{ type: 'object' }, '{"a": 1}', { a: 1 }], [{ type: 'string' }, ' x ', ' x '], [null, '[1]', [1]]
  ]
  for (const [schema, text, value] of good) t.same(readText(schema, text), { value }, text)
  const bad: [SettingSchema, string][] = [
    [port, 'many'], [port, '70000'], [port, '1.5'], [quorum, '2'], [hosts, 'a\na'], [{ type: 'object' }, '{'],
    [{ type: 'object' }, '3']
  ]
  for (const [schema, text] of bad) t.match(readText(schema, text), { problem: /\w/ }, text)
  t.end()
})

t.test('a value goes into the control and back unchanged', (t) => {
  const cases: [SettingSchema, unknown][] = [
    [port, 1], [hosts, ['a', 'b']], [quorum, 'majority'], [{ type: 'boolean' }, true],
    [{ type: 'object' }, { a: [1] }]
  ]
  for (const [schema, value] of cases) {
    t.same(readText(schema, textOf(kindOf(schema), value)), { value })
  }
  t.equal(textOf('text', undefined), '')
  t.end()
})

t.test('settings are grouped, found by their words, and told where they come from', (t) => {
  const settings: Setting[] = [
    { path: 'name', value: 'attic', origin: 'flag', source: 'command line', schema: null },
    { path: 'api.port', value: 1, origin: 'file', line: 3, schema: { description: 'Where clients ask.' } },
    { path: 'plugins.chat.max_tools', value: 1, origin: 'env', source: 'SVC_X', schema: null },
    { path: 'api.host', schema: null }
  ]
  const names = (search: string): string[] => grouped(settings, search).map(([group]) => group)
  t.same(names(''), ['general', 'api', 'plugins.chat'])
  t.same(names('CLIENTS'), ['api'])
  t.same(names('nothing'), [])
  t.same(settings.map(originText), ['command line', 'svc.yaml, line 3', 'environment: SVC_X', 'not set'])
  t.end()
})
