import t from 'tap'
import { hubToken } from '../manager/start.js'
import { systemClock } from '../../../kernel/index.js'
import { HostRules } from '../hub/http.js'
import { createHubClient } from '../hub/client.js'
import { HubError, type HubClientOptions } from '../hub/types.js'
import { startHub } from './hub-kit.js'

const REFUSED = { constructor: HubError, reason: 'refused_redirect', message: /refused/ }

const rules = new HostRules(new URL('https://hub.example/base'),
  ['cdn.example', 'lan.local:8080', '*.files.example', '127.0.0.1:9000', '*.odd.example:444',
    '169.254.169.254'])
const judged: [string, 'named' | 'public' | undefined][] = [
  ['https://hub.example/x', 'named'], ['http://hub.example/x', undefined],
  ['https://hub.example:444/', 'public'], ['https://cdn.example/', 'named'],
  ['http://cdn.example/', 'named'], ['http://cdn.example:81/', undefined],
  ['https://lan.local:8080/', 'named'], ['http://lan.local:8080/', 'named'],
  ['http://lan.local/', undefined], ['http://a.files.example/', 'public'],
  ['http://files.example/', undefined], ['http://afiles.example/', undefined],
  ['http://a.files.example:8080/', undefined], ['http://a.odd.example:444/', 'public'],
  ['https://anything.example/', 'public'], ['http://anything.example/', undefined],
  ['https://127.0.0.1/', undefined], ['http://127.0.0.1:9000/', 'named'],
  ['https://127.0.0.1:9001/', undefined], ['https://2130706433/', undefined],
  ['https://0x7f.1/', undefined], ['https://[::1]/', undefined],
  ['https://[::ffff:10.0.0.1]/', undefined], ['https://169.254.169.254/', undefined],
  ['http://169.254.169.254/latest/meta-data', undefined], ['https://8.8.8.8/', 'public'],
  ['https://user:pass@anything.example/', undefined], ['file:///etc/passwd', undefined],
  ['ftp://hub.example/', undefined], ['https://hub.example@evil.example/', undefined],
  ['https://CDN.example/', 'named']
]
for (const [url, trust] of judged) {
  if (trust !== undefined) t.equal(rules.trust(new URL(url)), trust, url)
  else t.throws(() => rules.trust(new URL(url)), REFUSED, url)
}
t.ok(rules.isHub(new URL('https://hub.example/any')))
t.notOk(rules.isHub(new URL('http://hub.example/any')))

t.test('the client follows no redirect into the own network', async (t) => {
  const hub = await startHub({ models: { 'acme/x': { files: { 'm.onnx': 'weights' } } } })
  const looked: string[] = []
  const addresses: Record<string, string[]> = {
    'localhost': ['127.0.0.1'], 'rebind.example': ['8.8.8.8', '192.168.0.1'], 'six.example': ['fd12::1'],
    'meta.files.example': ['169.254.169.254'], 'named.example': ['169.254.169.254'], 'none.example': []
  }
  const make = (more: Partial<HubClientOptions>): ReturnType<typeof createHubClient> => createHubClient({
    url: hub.url, redirectHosts: ['*.files.example', 'named.example'], clock: systemClock, random: () => 0,
    limits: { connectMs: 500, headersMs: 500, retries: 0 },
    lookup: async (name) => {
      looked.push(name)
      return addresses[name]!.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    },
    ...more
  })
  const client = make({})
  t.teardown(async () => { await client.close(); await hub.close() })
  const selection = await client.resolve('acme/x')
  const open = (): Promise<unknown> => client.open(selection, selection.files[0]!, { start: 0 })
  const port = new URL(hub.cdnUrl).port
  const targets = [
    hub.cdnUrl, `https://127.0.0.1:${port}/`, 'http://169.254.169.254/latest/', 'https://169.254.169.254/',
    `https://localhost:${port}/`, 'https://rebind.example/', 'https://six.example/',
    'http://meta.files.example/',
    'http://named.example/', `https://[::1]:${port}/`, `http://[::ffff:127.0.0.1]:${port}/`,
    'file:///etc/passwd',
    `//localhost:${port}/x`
  ]
  for (const redirect of targets) {
    hub.faults = { redirect }
    hub.reset()
    await t.rejects(open(), REFUSED, redirect)
    t.same(hub.requests.map((r) => r.origin), ['hub'], 'nothing else was asked')
  }
  t.ok(looked.includes('rebind.example'), 'names were judged by their addresses')
  hub.faults = { redirect: 'https://none.example/' }
  await t.rejects(open(), { reason: 'unavailable', message: /no address/ })
  hub.faults = { redirect: 'http://[' }
  await t.rejects(open(), { reason: 'bad_answer', message: /location/ })
  hub.faults = { redirect: '/acme/x/resolve/main/m.onnx' }
  hub.reset()
  await t.rejects(open(), { reason: 'refused_redirect', message: /more than 5 redirects/ })
  t.equal(hub.requests.length, 6)
  const named = make({ redirectHosts: [hub.cdnHost] })
  t.teardown(() => named.close())
  hub.faults = {}
  const stream = await named.open(selection, selection.files[0]!, { start: 0 })
  const parts: Uint8Array[] = []
  for await (const part of stream) parts.push(part)
  t.equal(String(Buffer.concat(parts)), 'weights', 'what the operator names is followed')
  t.throws(() => createHubClient({ url: 'hub', redirectHosts: [], clock: systemClock, random: () => 0 }),
    TypeError)
})

t.test('the token of a hub goes to that hub only, and by https', (t) => {
  const named = { SVC_HUB_TOKEN: 'a', SVC_HUB_TOKEN_HOST: 'hub.example', HF_TOKEN: 'b' }
  const rows: [NodeJS.ProcessEnv, string, string | undefined][] = [
    [{ SVC_HUB_TOKEN: 'a', HF_TOKEN: 'b' }, 'https://huggingface.co', 'a'],
    [{ HF_TOKEN: 'b' }, 'https://huggingface.co/', 'b'],
    [{ SVC_HUB_TOKEN: 'a', HF_TOKEN: 'b' }, 'http://huggingface.co', undefined],
    [{ SVC_HUB_TOKEN: 'a', HF_TOKEN: 'b' }, 'https://hub.example', undefined],
    [named, 'https://hub.example/x', 'a'],
    [named, 'http://hub.example', undefined],
    [named, 'https://hub.example:8443', undefined],
    [named, 'https://huggingface.co', 'b']
  ]
  for (const [env, url, token] of rows) t.equal(hubToken(env, url), token, JSON.stringify([env, url]))
  t.end()
})
