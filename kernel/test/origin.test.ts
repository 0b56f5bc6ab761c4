import t from 'tap'
import { systemClock } from '../api/clock.js'
import { HttpListener } from '../http/http-listener.js'
import { createAccess } from '../http/access.js'
import { CallerSchemes } from '../http/callers.js'
import { callerOf, createTable } from '../http/server.js'
import { limitsOf } from '../http/limits.js'
import { resolveConfig } from '../config/resolve.js'
import { readConfigText } from '../config/text.js'
import type { Logger } from '../api/plugin.js'
import type { TokenStore } from '../http/tokens.js'
import { pageOf, type KnownApi } from '../../plugins/cluster/host.js'
import { foreignPage, hostAllowed, parseHost } from '../http/origin.js'

const served = {
  addresses: new Set(['127.0.0.1']),
  port: 52415,
  secure: false,
  allowedHosts: ['box.lan'],
  allowedOrigins: ['https://ops.example']
}

const hosts: [string | undefined, boolean][] = [
  ['127.0.0.1:52415', true], ['127.0.0.1', true],
  ['localhost:52415', true], ['LOCALHOST:52415', true], ['localhost', true],
  ['box.lan', true], ['box.lan:8080', true],
  ['evil.example', false], ['localhost.evil', false],
  ['localhost.:52415', false], ['127.0.0.1.:52415', false],
  ['[::1]:52415', false], ['0.0.0.0:52415', false], ['127.0.0.1:1', false], ['127.0.0.2:52415', false],
  ['', false], [undefined, false], ['127.0.0.1:52415@evil', false], ['2130706433', false],
  ['a b', false], ['[::1', false]
]
for (const [host, expect] of hosts) {
  t.equal(hostAllowed(host, served), expect, `Host ${String(host)}`)
}
t.equal(hostAllowed('[::1]:52415', { ...served, addresses: new Set(['::1']) }), true,
  'IPv6 where we listen on it')
t.same(parseHost('[fe80::1]:9'), { name: 'fe80::1', port: 9 })

interface Row { origin?: string, site?: string, mode?: string, method?: string, foreign: boolean }
const pages: Row[] = [
  { foreign: false },
  { origin: 'http://127.0.0.1:52415', foreign: false },
  { origin: 'http://localhost:52415', foreign: false },
  { origin: 'https://ops.example', foreign: false },
  { origin: 'https://ops.example', site: 'cross-site', foreign: false },
  { origin: 'https://evil.example', foreign: true },
  { origin: 'null', foreign: true },
  { origin: 'http://127.0.0.1:1', foreign: true },
  { origin: 'https://127.0.0.1:52415', foreign: true },
  { site: 'cross-site', foreign: true },
  { site: 'same-site', method: 'POST', foreign: true },
  { site: 'cross-site', mode: 'navigate', foreign: false },
  { site: 'cross-site', mode: 'navigate', method: 'POST', foreign: true },
  { site: 'same-origin', foreign: false },
  { site: 'none', foreign: false }
]
for (const { origin, site, mode, method = 'GET', foreign } of pages) {
  t.equal(foreignPage({ origin, site, mode }, method, served), foreign,
    JSON.stringify({ origin, site, mode, method }))
}

t.test('whose page an origin is', (t) => {
  const lan: KnownApi = { apiUrl: 'http://192.0.2.7:52415', address: '192.0.2.7:40001' }
  const own: KnownApi = { apiUrl: 'http://192.0.2.1:52425', address: '192.0.2.1:40001' }
  const here: KnownApi = { apiUrl: 'http://127.0.0.1:52425', address: '[::ffff:127.0.0.1]:40001' }
  const there: KnownApi = { apiUrl: 'http://127.0.0.1:52425', address: '192.0.2.7:40001' }
  const rows: [origin: string, members: KnownApi[], whose: ReturnType<typeof pageOf>][] = [
    ['http://192.0.2.7:52415', [here, lan], 'elsewhere'], ['http://192.0.2.7:52415', [], null],
    ['https://192.0.2.7:52415', [lan], null], ['http://192.0.2.7:52416', [lan], null],
    ['http://192.0.2.7', [lan], null], ['http://192.0.2.7:52415/', [lan], null],
    ['http://192.0.2.7:52415.evil.example', [lan], null], ['http://192.0.2.70:52415', [lan], null],
    ['null', [lan, { apiUrl: 'file:///etc', address: '127.0.0.1:1' }], null],
    ['*', [lan], null], ['', [lan], null],
    ['http://192.0.2.1:52425', [own], 'here'],
    ['http://127.0.0.1:52425', [here], 'here'], ['http://localhost:52425', [here], null],
    // A local program on the same port as a remote member is not that member.
    ['http://127.0.0.1:52425', [there], null], ['http://127.0.0.1:52425', [there, here], 'here'],
    ['http://127.0.0.1:52425', [{ ...here, address: undefined }], null],
    ['http://[::1]:80', [{ apiUrl: 'http://[::1]:80', address: '192.0.2.7:1' }], null],
    ['http://[::1]', [{ apiUrl: 'http://[::1]:80/', address: '[::1]:1' }], 'here'],
    ['http://a.example', [{ apiUrl: 'http://a.example:80/x', address: undefined }], 'elsewhere'],
    ['http://a.example', [{ apiUrl: null, address: '127.0.0.1:1' }], null],
    ['http://a.example', [{ apiUrl: 'a.example', address: '' }], null]
  ]
  for (const [origin, members, whose] of rows) {
    t.equal(pageOf(origin, members, (host) => host === '192.0.2.1'), whose,
      `${origin} among ${members.map((one) => `${String(one.apiUrl)} from ${one.address}`).join(', ')}`)
  }
  t.end()
})

t.test('who comes through a trusted proxy is never local, whatever it says', async (t) => {
  const { config } = resolveConfig(readConfigText('', null), { owners: [], env: {} })
  const tokens = { check: () => undefined } as unknown as TokenStore
  const { limits } = limitsOf(config.kernel)
  const app = createTable({
    front: new HttpListener(limits), log: { error: () => {} } as unknown as Logger, limits,
    trustProxy: ['127.0.0.1', '10.0.0.0/8', 'fd00::/8'],
    served: () => ({
      addresses: new Set(['127.0.0.1']), port: 80, secure: false, allowedHosts: [], allowedOrigins: []
    }),
    vouchedBy: (_member, caller) => caller,
    authenticate: createAccess({
      tokens, schemes: new CallerSchemes(), local: new Set(['read']), clock: systemClock
    }),
    methodsAt: () => [], rewrite: (_method, url) => url
  })
  t.teardown(async () => { await app.close() })
  app.get('/', (request) => callerOf(request).id)
  const rows: [remoteAddress: string, forwarded: string | undefined, who: string][] = [
    ['127.0.0.1', undefined, 'anonymous'], ['127.0.0.1', '127.0.0.1', 'anonymous'],
    ['::ffff:127.0.0.1', undefined, 'anonymous'], ['127.0.0.1', '192.0.2.1', 'anonymous'],
    ['10.1.2.3', '127.0.0.1', 'anonymous'], ['10.1.2.3', '::1', 'anonymous'],
    ['fd00::1', '127.0.0.1', 'anonymous'],
    ['127.0.0.2', undefined, 'local'], ['::1', undefined, 'local'], ['127.0.0.2', '192.0.2.1', 'local'],
    ['192.0.2.1', '127.0.0.1', 'anonymous']
  ]
  for (const [remoteAddress, forwarded, who] of rows) {
    const from = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
    const headers = { host: '127.0.0.1:80', ...from }
    const answer = await app.inject({ url: '/', remoteAddress, headers })
    t.equal(answer.body, who, `${remoteAddress} for ${forwarded ?? 'nobody'}`)
  }
})
