import t from 'tap'
import { limitsOf } from '../http/limits.js'
import { brief, guest, owners, resolveText, type Given } from './config-fixture.js'

const plain = (value: unknown): unknown => value === undefined ? undefined : JSON.parse(JSON.stringify(value))

t.test('an empty configuration is complete', async (t) => {
  const { config, problems, warnings } = resolveText('')
  t.strictSame([problems, warnings], [[], []])
  t.strictSame(plain(config.kernel), {
    api: {
      host: '127.0.0.1', port: 52415, allowed_hosts: [], allowed_origins: [], trust_proxy: [], tls: 'off'
    },
    cluster: {
      peers: [], quorum: 1, discovery: true, heartbeat_ms: 2000, election_timeout_ms: 3000
    },
    access: { local: ['read', 'invoke'], remote: [] },
    limits: {
      connections: 1024,
      connections_per_address: 64,
      streams_per_token: 256,
      headers_timeout_seconds: 10,
      request_timeout_seconds: 30,
      keep_alive_seconds: 15,
      handler_timeout_seconds: 60,
      body_kib: 256,
      calls_at_once: 8,
      calls_queued: 32,
      stream_buffer_kib: 1024,
      stream_stall_seconds: 30,
      media_buffer_kib: 8192,
      media_stall_seconds: 900
    },
    logging: { enabled: false, level: 'info' }
  })
  const { limits, callLimits } = limitsOf(config.kernel)
  t.match([limits.streamStallMs, callLimits], [30_000, { streamStallMs: 30_000, mediaStallMs: 900_000 }],
    'only a player is waited for so long')
  t.strictSame(plain(config.plugin('runners')),
    { threads: 2, backends: {}, retry: { tries: 3, base_seconds: 0.5 } })
  t.strictSame(plain(config.plugin('empty')), {})
  t.strictSame(plain(config.settings('model_store')),
    { staging: { cleanup_on_deactivate: true, staging_keep_recent_gb: 40 } })
  t.equal(config.settings('node_cache_path'), '~/.svc/staging')
  t.equal(config.settings('node_overrides'), undefined)
})

t.test('values and sections', async (t) => {
  const check = (text: string, path: string, expected: unknown, given: Given = {}): void => {
    const { config, problems } = resolveText(text, given)
    t.strictSame(brief(problems), [], text)
    t.strictSame(config.entries(path).map(({ value }) => value), [expected], `${path} of ${text}`)
  }
  check('name: attic', 'name', 'attic')
  check('api:\nplugins:\n  runners:\n    retry:\n', 'api.port', 52415)
  check('api:\nplugins:\n  runners:\n    retry:\n', 'plugins.runners.retry.tries', 3)
  check('plugins: { runners: { retry: { tries: 0 } } }', 'plugins.runners.retry.base_seconds', 0.5)
  check('plugins: { runners: { backends: { "a.b": cpu } } }', 'plugins.runners.backends."a.b"', 'cpu')
  check('plugins: { hub: { mode: 7 } }', 'plugins.hub.mode', 7)
  check('plugins: { guest: { module: ./g.js, city: Rome } }', 'plugins.guest.city', 'Rome',
    { owners: [guest] })
})

t.test('plugins are enabled unless the file says otherwise', async (t) => {
  const { config, problems } = resolveText('plugins: { runners: { enabled: false, threads: 9 }, hub: }')
  t.strictSame(problems, [])
  t.strictSame(['runners', 'hub', 'empty', 'unheard-of'].map((name) => config.enabled(name)),
    [false, true, true, true])
  t.strictSame(Object.keys(config.plugin('runners')).sort(), ['backends', 'retry', 'threads'])
})

t.test('a plugin whose module is not loaded is a warning', async (t) => {
  const { problems, warnings } = resolveText('plugins:\n  mine: { module: ./m.js, whatever: 1 }\n')
  t.strictSame(problems, [])
  t.strictSame(brief(warnings),
    ['2:3 plugins.mine: its keys are not checked, because its module is not loaded'])
  const off = resolveText('plugins:\n  mine: { module: ./m.js, enabled: maybe }\n')
  t.strictSame(brief(off.problems), ['2:27 plugins.mine.enabled: expected true or false, found "maybe"'])
})

t.test('flags count more than variables, these more than the file, this more than defaults', async (t) => {
  const check = (given: Given, text: string, expected: object): void => {
    const { config, problems } = resolveText(text, given)
    t.strictSame(problems, [])
    t.strictSame(config.entries('api.port'), [{ path: 'api.port', ...expected }])
  }
  const env = { SVC_API_PORT: '2' }
  const file = '\napi:\n  port: 1\n'
  check({ flags: { 'api.port': 3 }, env }, file, { value: 3, origin: 'flag', source: 'command line' })
  check({ flags: { 'api.port': undefined }, env }, file, { value: 2, origin: 'env', source: 'SVC_API_PORT' })
  check({}, file, { value: 1, origin: 'file', line: 3 })
  check({}, '', { value: 52415, origin: 'default' })
})

t.test('entries show every setting once, in the order of the schemas', async (t) => {
  const { config } = resolveText('plugins: { runners: { tags: [a], backends: { x: cpu } } }\nname: attic\n')
  const paths = config.entries().map(({ path }) => path)
  t.strictSame(new Set(paths).size, paths.length)
  t.strictSame(paths.slice(0, 3), ['name', 'api.host', 'api.port'])
  t.strictSame(config.entries('plugins.runners').map(({ path, value, origin }) => [path, value, origin]), [
    ['plugins.runners.enabled', true, 'default'],
    ['plugins.runners.threads', 2, 'default'],
    ['plugins.runners.backends.x', 'cpu', 'file'],
    ['plugins.runners.tags', ['a'], 'file'],
    ['plugins.runners.retry.tries', 3, 'default'],
    ['plugins.runners.retry.base_seconds', 0.5, 'default']
  ])
  t.strictSame(config.entries('api.prt'), [])
})

t.test('secrets', async (t) => {
  const env = { HUB: 'canary-1234', PORT: '8080', HOST: 'a.example', NUMBER: '1234567' }
  const check = (text: string, path: string, value: unknown, shown: unknown): void => {
    const { config, problems } = resolveText(text, { env })
    t.strictSame(brief(problems), [], text)
    const [top = '', name = '', ...rest] = path.split('.')
    const root = top === 'plugins' ? config.plugin(name) : config.settings(top)
    const keys = top === 'plugins' ? rest : [name, ...rest].filter((key) => key !== '')
    t.strictSame(keys.reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], root), value)
    t.strictSame(config.entries(path).map((entry) => entry.value), [shown])
  }
  const hidden = '********'
  check('plugins: { hub: { token: plain-text } }', 'plugins.hub.token', 'plain-text', hidden)
  check('plugins: { hub: { token: "${env.HUB}" } }', 'plugins.hub.token', 'canary-1234', hidden)
  check('plugins: { hub: { headers: { auth: "Bearer ${env.HUB}" } } }', 'plugins.hub.headers.auth',
    'Bearer canary-1234', hidden)
  check('plugins: { runners: { tags: [a, "${env.HUB}"] } }', 'plugins.runners.tags',
    ['a', 'canary-1234'], ['a', hidden])
  check('plugins: { runners: { tags: ["https://ann:pw@h/x?key=1"] } }', 'plugins.runners.tags',
    ['https://ann:pw@h/x?key=1'], [`https://${hidden}@h/x?${hidden}`])
  check('api: { port: "${env.PORT}" }', 'api.port', 8080, hidden)
  check('name: "${env.NUMBER}"', 'name', '1234567', hidden)
  check('node_cache_path: "/x/${env.HOST}"', 'node_cache_path', '/x/a.example', hidden)
})

t.test('secrets that are wrong or missing', async (t) => {
  type Env = Record<string, string>
  const check = (text: string, env: Env, problems: string[], warnings: string[] = []): void => {
    const result = resolveText(text, { env })
    t.strictSame([brief(result.problems), brief(result.warnings)], [problems, warnings], text)
  }
  check('name: "${env.NOPE}"', {}, ['1:1 name: the environment has no variable NOPE'])
  check('name: "${env.A}-${env.B}"', {}, ['1:1 name: the environment has no variables A, B'])
  check('name: "${env.my-name}"', {}, ['1:1 name: write a reference to the environment as ${env.NAME}'])
  check('name: "${HOME}"', {}, [], ['1:1 name: is used literally; write a variable as ${env.NAME}'])
  check('name: "${env.A}"', { A: '${env.B}', B: 'x' }, [])
  check('plugins: { hub: { token: abc } }', {},
    ['1:19 plugins.hub.token: expected text of at least 4 characters, found a hidden value'])
  check('api: { port: "${env.P}" }', { P: 'canary' },
    ['1:8 api.port: expected a whole number from 0 to 65535, found a hidden value'])
  check('', { SVC_PLUGINS_HUB_TOKEN: 'abc' },
    ['SVC_PLUGINS_HUB_TOKEN plugins.hub.token: expected text of at least 4 characters, found a hidden value'])
  const { config } = resolveText('', { env: { SVC_PLUGINS_HUB_TOKEN: 'abcdef' } })
  t.equal(config.entries('plugins.hub.token')[0]?.value, '********')
})

t.test('no key reaches an object\'s prototype', async (t) => {
  const text = 'plugins: { runners: { backends: { __proto__: cpu, constructor: cpu, toString: cpu } } }'
  const { config, problems } = resolveText(text)
  t.strictSame(brief(problems), [
    '1:35 plugins.runners.backends: the key __proto__ is not accepted',
    '1:51 plugins.runners.backends: the key constructor is not accepted'
  ])
  t.strictSame(plain(config.plugin('runners')['backends']), { toString: 'cpu' })
  const env = { SVC_PLUGINS_RUNNERS_BACKENDS: '{"__proto__": "cpu"}' }
  t.strictSame(brief(resolveText('', { env }).problems), ['SVC_PLUGINS_RUNNERS_BACKENDS ' +
    'plugins.runners.backends: expected keys with values, found "{\\"__proto__\\": \\"cpu\\"}"'])
  resolveText('', { flags: { 'plugins.runners.backends': JSON.parse('{"__proto__": {"polluted": 1}}') } })
  t.equal(({} as Record<string, unknown>)['polluted'], undefined)
})

t.test('what is resolved cannot be changed, and two resolutions share nothing', async (t) => {
  const { config } = resolveText('')
  t.throws(() => { (config.kernel.api as { port: number }).port = 1 }, TypeError)
  t.throws(() => { config.kernel.api.allowed_hosts.push('x') }, TypeError)
  t.throws(() => { (config.plugin('runners')['backends'] as Record<string, string>)['x'] = 'cpu' }, TypeError)
  t.equal(resolveText('', { owners }).config.kernel.api.port, 52415)
})
