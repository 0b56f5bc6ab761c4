import t from 'tap'
import { parseTimeOrIndex } from '../cli/text.js'
import { definePlugin } from '../api/plugin.js'
import { kernelError } from '../api/errors.js'
import { StateHistoryService } from '../api/services.js'
import { startPlugin } from '../testing/index.js'

const keeper = definePlugin({
  name: 'keeper', version: '1.0.0', kernel: '^1.0.0', summary: 'Remembers one state.',
  provides: { history: StateHistoryService }
}, () => ({
  services: {
    history: {
      async at (moment: string) {
        if (moment !== '7') throw kernelError('not_recorded')
        return { at: 7, state: { nodeIdentities: { a: { apiUrl: 'http://a:1' } } }, events: [{ idx: 7 }] }
      }
    }
  }
}))

t.test('GET /state?at= asks whoever keeps the history', async (t) => {
  const rig = await startPlugin(t, keeper)
  const then = await rig.inject({ url: '/state?at=7' })
  t.match(then.json(),
    { at: 7, state: { nodeIdentities: { a: { apiUrl: 'http://a:1' } } }, events: [{ idx: 7 }] })
  const missing = await rig.inject({ url: '/state?at=8' })
  t.match([missing.statusCode, missing.json()], [404, { error: { reason: 'not_recorded',
    details: { remedy: /svc events/ } } }])
  t.match((await rig.inject({ url: '/state?at=7&follow=1' })).json(),
    { error: { reason: 'invalid_request', param: 'at' } })
  t.match((await rig.inject({ url: '/state?at=7&follow=0' })).json(), { at: 7 })
  const reader = await startPlugin(t, keeper, { allow: ['read'] })
  t.same((await reader.inject({ url: '/state?at=7' })).json(),
    { at: 7, state: { nodeIdentities: { a: { apiUrl: null } } }, events: null })
})

t.test('a kept state without its plugin', async (t) => {
  const other = definePlugin(
    { name: 'other', version: '1.0.0', kernel: '^1.0.0', summary: 'Nothing.' }, () => ({}))
  const off = await startPlugin(t, other, { off: [keeper] })
  t.match((await off.inject({ url: '/state?at=7' })).json(), { error: { reason: 'plugin_disabled',
    message: /^This node does not record earlier states\. The plugin "keeper" is disabled; /,
    details: { plugin: 'keeper' } } })
  const bare = await startPlugin(t, other)
  t.match((await bare.inject({ url: '/state?at=7' })).json(), { error: { reason: 'plugin_disabled',
    message: /No installed plugin records it/ } })
})

t.test('what a moment may be on the command line', (t) => {
  const now = Date.UTC(2026, 0, 2)
  const check = (text: string, expected: string | null): void => {
    t.equal(parseTimeOrIndex(text, now), expected, text)
  }
  check('10m', '2026-01-01T23:50:00.000Z')
  check('1d', '2026-01-01T00:00:00.000Z')
  check('90s', '2026-01-01T23:58:30.000Z')
  check('1200', '1200')
  check('0', '0')
  check('2026-01-01T08:00Z', '2026-01-01T08:00:00.000Z')
  for (const text of ['2026-99-01', '', '-5', '1e3', 'now', '999999999d', '1'.repeat(16)]) check(text, null)
  t.end()
})
