import t from 'tap'
import { formatProblems } from '../config/problems.js'
import { resolveConfig } from '../config/resolve.js'
import { readConfigText } from '../config/text.js'
import { brief, guest, owners, resolveText, type Given } from './config-fixture.js'

t.test('ten mistakes give ten lines, each with its place', async (t) => {
  const text = `# a file with ten mistakes
nam: attic
api:
  port: "52415"
  allowedHosts: [a.example]
threads: 4
plugins:
  runners:
    threds: 3
    backends:
      onnx: gpu
  runers:
    enabled: true
model_store:
  node_cache_path: /a
  staging:
    node_cache_path: /b
access:
  remote: [read]
api: {}
`
  const { problems } = resolveConfig(readConfigText(text, '/etc/svc/svc.yaml'), { owners, env: {} })
  t.strictSame(formatProblems(problems, '/etc/svc').split('\n'), [
    'svc.yaml:2:1  nam: unknown key; did you mean "name"?',
    'svc.yaml:4:3  api.port: expected a whole number from 0 to 65535, found "52415"',
    'svc.yaml:5:3  api.allowedHosts: unknown key; did you mean "allowed_hosts"?',
    'svc.yaml:6:1  threads: unknown key; did you mean "plugins.runners.threads"?',
    'svc.yaml:9:5  plugins.runners.threds: unknown key; did you mean "threads"?',
    'svc.yaml:11:7  plugins.runners.backends.onnx: expected one of "cpu", "cuda", "webgpu", found "gpu"; ' +
    'did you mean "cpu"?',
    'svc.yaml:12:3  plugins.runers: there is no such plugin, and no `module` gives its location; ' +
    'did you mean "runners"?',
    'svc.yaml:15:3  model_store.node_cache_path: unknown key; ' +
    '"node_cache_path" stands at the top of the file',
    'svc.yaml:17:5  model_store.staging.node_cache_path: unknown key; ' +
    '"node_cache_path" stands at the top of the file',
    'svc.yaml:19:3  access.remote: a remote request without a credential gets no authority; ' +
    'see `svc token create`',
    'svc.yaml:20:1  api: the key is repeated; the first is on line 3'
  ])
})

t.test('each kind of mistake', async (t) => {
  const check = (text: string, expected: string[], given: Given = {}): void => {
    t.strictSame(brief(resolveText(text, given).problems), expected, text)
  }
  // Values of the wrong type or out of range
  check('api: 5', ['1:1 api: expected keys with values, found 5'])
  check('api: []', ['1:1 api: expected keys with values, found an empty list'])
  check('api: { port: -1 }', ['1:8 api.port: expected a whole number from 0 to 65535, found -1'])
  check('api: { port: 1.5 }', ['1:8 api.port: expected a whole number from 0 to 65535, found 1.5'])
  check('api: { port: .inf }', ['1:8 api.port: expected a whole number from 0 to 65535, found Infinity'])
  check('api: { port: }', ['1:8 api.port: expected a whole number from 0 to 65535, found nothing'])
  check('logging: { enabled: yes }', ['1:12 logging.enabled: expected true or false, found "yes"'])
  check('name: ""', ['1:1 name: expected text of 1 to 64 characters on one line, found ""'])
  check('name: "a\\nb"', ['1:1 name: expected text of 1 to 64 characters on one line, found "a\\nb"'])
  check('plugins: { runners: { retry: { base_seconds: 0 } } }',
    ['1:32 plugins.runners.retry.base_seconds: expected a number above 0, found 0'])
  check('plugins: { hub: { mode: slow } }',
    ['1:19 plugins.hub.mode: expected "fast" or a whole number of at least 1, found "slow"'])
  check('plugins: { runners: { enabled: 1 } }',
    ['1:23 plugins.runners.enabled: expected true or false, found 1'])
  check('plugins: { runners: true }', ['1:12 plugins.runners: expected keys with values, found true'])
  check('plugins: [runners]', ['1:1 plugins: expected the names of plugins, each with its keys'])
  check('[]', ['1:1 : expected keys with values at the top of the file'])
  check('just text', ['1:1 : expected keys with values at the top of the file'])
  // Values in the wrong format
  check('api: { host: "256.1.1.1" }',
    ['1:8 api.host: expected a host name or an IP address, found "256.1.1.1"'])
  check('api: { allowed_origins: ["https://a.example", "*"] }',
    ['1:47 api.allowed_origins[1]: expected an origin like https://host:port or app://name, ' +
      'without a path, found "*"'])
  check('api: { allowed_origins: ["https://a.example/x"] }',
    ['1:26 api.allowed_origins[0]: expected an origin like ' +
      'https://host:port or app://name, without a path, found "https://a.example/x"'])
  check('api: { allowed_origins: ["https://name:secret@a.example"] }',
    ['1:26 api.allowed_origins[0]: expected an origin like https://host:port or app://name, ' +
      'without a path, found "https://********@a.example"'])
  check(`access: { local: [${'x'.repeat(4097)}] }`,
    [`1:19 access.local[0]: expected text, at most 4096 long, found "${'x'.repeat(60)}…"`])
  check('api: { trust_proxy: [10.0.0.0/33] }',
    ['1:22 api.trust_proxy[0]: expected an IP address or a range like 10.0.0.0/8, found "10.0.0.0/33"'])
  check('api: { allowed_hosts: [a, a] }', ['1:8 api.allowed_hosts: the list repeats a value'])
  check('logging: { ingest_url: "ftp://x" }', ['1:12 logging.ingest_url: expected an http or https address ' +
    'without a password, and not a cloud metadata service, found a hidden value'])
  for (const host of ['169.254.169.254', '0xa9fea9fe', '2852039166', '[fd00:ec2::254]',
    '[::ffff:169.254.169.254]', '100.100.100.200', 'metadata.google.internal', 'METADATA.google.internal.']) {
    check(`logging: { ingest_url: "http://${host}/x" }`, ['1:12 logging.ingest_url: expected an http or ' +
      'https address without a password, and not a cloud metadata service, found a hidden value'])
    for (const key of ['peers', 'advertise']) {
      const given = JSON.stringify(`${host}:80`)
      const at = key === 'peers' ? '1:20 cluster.peers[0]' : '1:12 cluster.advertise'
      const value = key === 'peers' ? `[${given}]` : given
      check(`cluster: { ${key}: ${value} }`, [`${at}: expected an address with a port, ` +
        'like attic.lan:52416, neither link-local nor a cloud metadata service, found ' + given])
    }
  }
  // Unknown or misplaced keys
  check('runners: { threads: 2 }', ['1:1 runners: unknown key [plugins.runners]'])
  check('api.port: 80', ['1:1 "api.port": unknown key; sections are nested: api: port:'])
  check('runners: { threads: 2, zzzz: 1 }', ['1:1 runners: unknown key [plugins.runners]'])
  check('api: { threads: 2 }', ['1:8 api.threads: unknown key [plugins.runners.threads]'])
  check('zzzzzz: 1', ['1:1 zzzzzz: unknown key'])
  check('model_store: { staging: { store_path: /x } }',
    ['1:27 model_store.staging.store_path: unknown key [model_store.store_path]'])
  check('model_store: { node_cach_path: /x }',
    ['1:16 model_store.node_cach_path: unknown key'])
  check('plugins: { runners: { module: ./x.js } }',
    ['1:23 plugins.runners.module: is only for plugins of your own; runners is part of svc'])
  check('node_overrides: { "a.b": { keep: 1 } }', ['1:28 node_overrides."a.b".keep: unknown key'])
  // Disabled plugins are checked as well, but required keys may be missing
  check('plugins: { runners: { enabled: false, threads: 0 } }',
    ['1:39 plugins.runners.threads: expected a whole number from 1 to 64, found 0'])
  check('plugins: { guest: { module: ./guest.js } }', ['1:12 plugins.guest.city: is missing; expected text'],
    { owners: [guest] })
  check('plugins: { guest: { module: ./guest.js, enabled: false } }', [], { owners: [guest] })
  check('', ['- plugins.guest.city: is missing; expected text'], { owners: [guest] })
  // Invalid plugin modules
  const module = 'expected a path starting with ./, ../ or /, or a package name; never a URL'
  const urls = ['https://a.example/p.js', 'file:///p.js', 'data:text/javascript,1', 'node:fs']
  for (const bad of [...urls, '~/p.js', '']) {
    check(`plugins: { mine: { module: "${bad}" } }`, [`1:20 plugins.mine.module: ${module}, found "${bad}"`])
  }
  check('plugins: { Mine: { module: mine } }',
    ['1:12 plugins.Mine: a plugin name consists of lower-case letters, digits and single dashes'])
  // Rules that involve several values
  check('limits: { headers_timeout_seconds: 40 }',
    ['1:11 limits.headers_timeout_seconds: is above limits.request_timeout_seconds: 40 > 30'])
  check('access: { local: [read, invok] }', ['1:25 access.local[1]: there is no authority "invok" [invoke]'],
    { authorities: ['read', 'invoke'] })
  check('access: { local: [own:thing] }', [], { authorities: ['own:thing'] })
})

t.test('a schema that is itself faulty is reported with its plugin', async (t) => {
  const check = (schema: Record<string, unknown>, expected: RegExp): void => {
    const faulty = { name: 'bad', bundled: false, config: { type: 'object', properties: { a: schema } } }
    const { problems } = resolveText('', { owners: [faulty] })
    t.match(brief(problems), [expected], JSON.stringify(schema))
    t.equal(problems.length, 1)
  }
  check({ type: 'integer', minimun: 3 },
    /^- plugins\.bad: the schema that bad declares is invalid: .*minimun/)
  check({ type: 'integer', minimum: 'x' },
    /^- plugins\.bad: the schema that bad declares is invalid: .*minimum/)
  check({ type: 'strin' }, /^- plugins\.bad: the schema that bad declares is invalid: .*strin/)
  check({ type: 'string', format: 'nope' },
    /^- plugins\.bad: the schema that bad declares is invalid: .*nope/)
})

t.test('problems from the environment and the command line name their source', async (t) => {
  const check = (given: Given, expected: string[]): void => {
    t.strictSame(brief(resolveText('', given).problems), expected)
  }
  check({ flags: { 'api.port': 70000 } },
    ['command line api.port: expected a whole number from 0 to 65535, found 70000'])
  check({ flags: { 'api.prt': 1 } }, ['command line api.prt: unknown key [port]'])
  check({ flags: { 'constructor.x': 1 } }, ['command line constructor.x: the key is not accepted'])
  check({ env: { SVC_API_PORT: '-1' } },
    ['SVC_API_PORT api.port: expected a whole number from 0 to 65535, found -1'])
})
