import t from 'tap'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { definePlugin, type Plugin } from '../api/plugin.js'
import { startTicks } from '../boot/home.js'
import { loadPlugins } from '../plugins/load.js'
import { cli, sendError, sendJson, standIn, type Ran } from './cli-helpers.js'

const base = { version: '1.0.0', kernel: '^1.0.0' } as const
const plugins: Plugin[] = [
  definePlugin({ ...base, name: 'store', summary: 'Keeps things.',
    authorities: { 'store:write': 'Change the store.' },
    errors: { store_full: { status: 507, retryable: false, message: 'Full.', remedy: 'Free some.' } },
    config: { type: 'object', additionalProperties: false, properties: {
      size: { type: 'integer', minimum: 1, default: 5, description: 'GiB.' },
      key: { type: 'string', 'x-secret': true } } }
  }, () => ({})),
  definePlugin({ ...base, name: 'shop', summary: 'Sells things.', requires: ['store'] }, () => ({})),
  definePlugin({ ...base, name: 'bell', summary: 'Rings.' }, () => ({}))
]

t.test('disable and enable edit svc.yaml and say what goes with it', async (t) => {
  const home = t.testdir({ 'svc.yaml': '# mine\nname: attic\n' })
  const run = async (...words: string[]): Promise<Ran> => await cli([...words, '--home', home], { plugins })
  const file = (): string => readFileSync(join(home, 'svc.yaml'), 'utf8')
  const off = await run('plugin', 'disable', 'store')
  t.equal(off.status, 0, off.err)
  t.match(off.out, /store is disabled in .*svc\.yaml\.\nAlso disabled: shop /)
  t.match(off.out, /next restart of the node: \.\/svc restart --home /)
  t.match(file(), /# mine\nname: attic\n[\s\S]*store:\n +enabled: false/)
  const ls = await run('plugin', 'ls', '--json')
  t.match(JSON.parse(ls.out).plugins, [{ name: 'store', state: 'disabled' }, { name: 'shop', state: 'off' },
    { name: 'bell', state: 'enabled' }])
  t.match(ls.err, /"shop" is off because it requires "store"/)
  const on = await run('plugin', 'enable', 'store')
  t.match(on.out, /store adds:\n {2}authority store:write: Change the store\.\nstore is enabled in /)
  t.match(on.out, /Also enabled: shop\./)
  t.equal(file(), '# mine\nname: attic\n', 'nothing is left behind')
  await run('plugin', 'disable', 'store')
  t.match((await run('plugin', 'enable', 'shop')).out, /It stays disabled for now: .*requires "store"/)
  t.same(JSON.parse((await run('plugin', 'enable', 'store', '--json')).out).plugins[0].comesBack, ['shop'])
  const wrong = await run('plugin', 'disable', 'stor')
  t.equal(wrong.status, 3)
  t.match(wrong.err, /no plugin "stor"; did you mean store\?/)
})

t.test('with the address of another node that one is changed, or nothing', async (t) => {
  const home = join(t.testdir({}), 'home')
  const far = { name: 'far', version: '2.0.0', summary: 'Far.', enabled: false, why: 'It is off there.' }
  const { url, asked } = await standIn(t, {
    'GET /v1/plugins': (response) => { sendJson(response, { plugins: [far] }) },
    'POST /v1/plugins/bell': (response) => {
      sendJson(response, { revision: 'r', restart_needed: true, in_effect: false, why: 'It rings.' })
    }
  })
  const run = async (words: string[], env: NodeJS.ProcessEnv = {}): Promise<Ran> =>
    await cli([...words, '--home', home, '--token', 'T'], { plugins, env })
  for (const [words, env] of [[['--url', url], {}], [[], { SVC_URL: url }]] as const) {
    const off = await run(['plugin', 'disable', 'bell', ...words], env)
    t.equal(off.status, 0)
    t.equal(off.out, `bell is disabled at ${url}.\nIt rings.\n` +
    `It takes effect at the next restart of the node: ./svc restart --url ${url}\n`)
    const headers = { authorization: 'Bearer T' }
    t.match(asked.at(-1), { method: 'POST', body: { enabled: false }, headers })
    const ls = await run(['plugin', 'ls', ...words], env)
    t.match(ls, { status: 0, err: 'It is off there.\n', out: /\nfar +2\.0\.0 +off +http/ })
    const refused = ['config set name x', 'config get', 'config check']
    for (const verb of refused) {
      const { status, err } = await run([...verb.split(' '), ...words], env)
      t.equal(status, 2)
      t.match(err, new RegExp(`the home ${home}, but none of its nodes has the address ${url}`), verb)
    }
  }
  t.equal((await run(['plugin', 'enable', 'bell', '--url', url, '--config', 'x'])).status, 2)
  t.notOk(existsSync(home), 'the home of the caller is as it was')
})

t.test('ls shows what runs, not only what svc.yaml says', async (t) => {
  const row = (name: string, enabled: boolean): object =>
    ({ name, version: '1.0.0', summary: 's', enabled, why: null })
  const { url } = await standIn(t, { 'GET /v1/plugins': (response) => {
    sendJson(response, { plugins: [row('store', true), row('shop', true), row('bell', false)] })
  } })
  const processes = [{ pid: process.pid, startTicks: startTicks(process.pid) }]
  const home = t.testdir({
    'svc.yaml': 'plugins:\n  store:\n    enabled: false\n',
    run: { 'node.json': JSON.stringify({ format: 1, url, processes }) }
  })
  const ls = await cli(['plugin', 'ls', '--json', '--home', home], { plugins })
  t.match(JSON.parse(ls.out).plugins, [
    { name: 'store', state: 'running', why: /has store disabled; the node applies that at its next restart/ },
    { name: 'shop', state: 'running', why: /has shop off; the node applies/ },
    { name: 'bell', state: 'waiting' }
  ])
})

t.test('a home without svc.yaml gets one, for its owner only', async (t) => {
  const home = join(t.testdir({}), 'new')
  t.equal((await cli(['plugin', 'disable', 'bell', '--home', home], { plugins })).status, 0)
  t.match(readFileSync(join(home, 'svc.yaml'), 'utf8'), /bell:\n +enabled: false/)
})

t.test('a home that cannot be made is an error', async (t) => {
  for (const home of ['/proc/x', '/proc/x/y']) {
    const { status, err } = await cli(['plugin', 'disable', 'bell', '--home', home], { plugins })
    t.equal(status, 1)
    t.match(err, /cannot write \/proc\/x.*ENOENT/)
  }
})

t.test('a local verb of a plugin that is off names the plugin and how to enable it', async (t) => {
  const home = t.testdir({ 'svc.yaml': 'plugins:\n  store:\n    enabled: false\n' })
  const verbs = (name: string) => ({
    [name]: { summary: 's', local: true as const, load: async () => ({ default: { run: async () => 0 } }) }
  })
  const [store, shop, bell] = plugins.map(({ manifest, start }) =>
    ({ start, manifest: { ...manifest, verbs: verbs(`say-${manifest.name}`) } }))
  const run = async (name: string, env = {}): Promise<Ran> =>
    await cli([`say-${name}`, '--home', home], { plugins: [store!, shop!, bell!], env })
  t.match(await run('store'), { status: 3, err:
    'svc say-store is a verb of a plugin. The plugin "store" is disabled; `svc plugin enable store`' })
  t.match(await run('shop'),
    { status: 3, err: /requires "store", which is disabled; `svc plugin enable store`/ })
  t.equal((await run('bell')).status, 0)
  t.match(await run('bell', { SVC_PLUGINS_BELL_ENABLED: 'false' }), { status: 3, err: /enable bell/ })
})

t.test('config check, get and set', async (t) => {
  const home = t.testdir({ 'svc.yaml': 'api:\n  port: 99999\nplugins:\n  store:\n    sise: 3\n' })
  const run = async (words: string, env: NodeJS.ProcessEnv = {}): Promise<Ran> =>
    await cli([...words.split(' '), '--home', home], { plugins, cwd: home, env })
  const bad = await run('config check')
  t.equal(bad.status, 1)
  t.match(bad.out, /svc\.yaml:2:\d+ +api\.port: /)
  t.match(bad.out, /svc\.yaml:5:\d+ .*sise.*did you mean[\s\S]*2 problems\n$/)
  t.equal(JSON.parse((await run('config check --json')).out).problems.length, 2)
  t.equal((await run('config get')).status, 1, 'no values from settings that are wrong')
  t.equal((await run('config set api.port 8080')).status, 0, 'one problem can be mended while another stays')
  t.match((await run('config check')).out, /1 problem\n$/)
  const fresh = t.testdir({ 'svc.yaml': 'api:\n  port: 8080\nplugins:\n  store:\n    key: hush\n' })
  t.equal(fresh, home)
  t.equal((await run('config check')).status, 0)
  t.equal((await run('config get api.port')).out, '8080\n')
  t.equal((await run('config get api.port', { SVC_API_PORT: '1' })).out, '1\n')
  t.match((await run('config get --origin')).out, /api\.port +8080 +.*svc\.yaml:2\n/)
  t.match((await run('config get --origin', { SVC_API_PORT: '1' })).out, /api\.port +1 +env SVC_API_PORT\n/)
  t.notMatch((await run('config get')).out, /hush/)
  t.match(JSON.parse((await run('config get plugins.store.size --json')).out),
    { settings: [{ value: 5, origin: 'default' }] })
  t.match(await run('config get api.prt'),
    { status: 3, err: /no setting "api\.prt"; did you mean api\.port\?/ })
  t.match(await run('config set api.port many'),
    { status: 2, err: /expected a whole number from 0 to 65535/ })
  t.match(await run('config set api.port 70000'), { status: 2, err: /not changed:\n.*api\.port/ })
  t.match(await run('config set nothing.here 1'), { status: 3 })
  const list = async (key: string, text: string): Promise<Ran> =>
    await cli(['config', 'set', key, text, '--home', home], { plugins })
  for (const text of ['[read, invoke]', '["read","invoke"]', 'read,invoke']) {
    t.equal((await list('access.local', text)).status, 0, text)
    t.equal((await run('config get access.local')).out, '["read","invoke"]\n', text)
  }
  t.match(await list('access.local', '[read'), { status: 2, err: /expected a list/ })
  t.match(await list('access.local', '[*a]'), { status: 2 })
  t.match(readFileSync(join(home, 'svc.yaml'), 'utf8'), /port: 8080/)
  t.match(await run('config set api.port 81', { SVC_API_PORT: '1' }),
    { status: 0, err: /SVC_API_PORT is set and overrides the file/ })
})

t.test('config get shows the variables of the node that runs', async (t) => {
  const { url } = await standIn(t, { 'GET /config': (response) => {
    sendJson(response, { entries: [
      { path: 'api.port', value: 7, origin: 'env', source: 'SVC_API_PORT', schema: {} },
      { path: 'name', value: 'old', origin: 'file', line: 1, schema: {} },
      { path: 'logging.level', value: 'warn', origin: 'default', schema: {} }
    ] })
  } })
  const processes = [{ pid: process.pid, startTicks: startTicks(process.pid) }]
  const home = t.testdir({
    'svc.yaml': 'name: new\napi:\n  port: 8080\n',
    run: { 'node.json': JSON.stringify({ format: 1, url, processes }) }
  })
  const get = async (key: string): Promise<string> =>
    (await cli(['config', 'get', key, '--origin', '--home', home],
      { plugins, env: { SVC_LOGGING_LEVEL: 'error' } })).out
  t.match(await get('api.port'), /api\.port +7 +env SVC_API_PORT\n/)
  t.match(await get('name'), /name +"new" /, 'the file has it from the next restart')
  t.match(await get('logging.level'), /"warn" +default/, 'not the variable of this shell')
})

t.test('config get shows the file if the node does not answer GET /config', async (t) => {
  const rows: [answer: Parameters<typeof standIn>[1][string], err: RegExp][] = [
    [(response) => { sendError(response, 403, 'missing_grant') }, /token with the authority "operator"/],
    [(response) => { sendError(response, 500, 'internal') }, /`svc doctor` finds the cause/],
    [(response) => { response.destroy() }, /`svc doctor` finds the cause/]
  ]
  for (const [answer, err] of rows) {
    const { url } = await standIn(t, { 'GET /config': answer })
    const processes = [{ pid: process.pid, startTicks: startTicks(process.pid) }]
    const home = t.testdir({
      'svc.yaml': 'name: new\n', 'run': { 'node.json': JSON.stringify({ format: 1, url, processes }) }
    })
    const ran = await cli(['config', 'get', 'name', '--home', home], { plugins })
    t.match(ran, { status: 0, out: 'new\n', err: /does not answer GET \/config, so these are the values/ })
    t.match(ran.err, err)
  }
})

t.test('config set says why the node does not apply a setting', async (t) => {
  const radio = definePlugin({ ...base, name: 'radio', summary: 'Plays.', reloads: true, settings: {
    radio: { type: 'object', description: 'R.', properties: { tone: { type: 'string', description: 'T.' } } }
  } }, () => ({}))
  const rows: [reason: string, status: number, code: number, text: RegExp, kept: string][] = [
    ['plugin_failed', 409, 1, /svc: it is plugin_failed \(409/, 'low'],
    ['missing_grant', 403, 0, /is set in [^]*it is missing_grant \(403[^]*at the next restart/, 'high']
  ]
  for (const [reason, status, code, text, kept] of rows) {
    const { url } = await standIn(t, { 'POST /v1/plugins/radio': (response) => {
      sendError(response, status, reason)
    } })
    const processes = [{ pid: process.pid, startTicks: startTicks(process.pid) }]
    const before = '# mine\nradio:\n  tone: low\n'
    const home = t.testdir({
      'svc.yaml': before, 'run': { 'node.json': JSON.stringify({ format: 1, url, processes }) }
    })
    const ran = await cli(['config', 'set', 'radio.tone', 'high', '--home', home], { plugins: [radio] })
    t.equal(ran.status, code, reason)
    t.match(ran.out + ran.err, text)
    t.equal(readFileSync(join(home, 'svc.yaml'), 'utf8'), before.replace('low', kept))
  }
})

t.test('config check finds what a start refuses', async (t) => {
  const { default: capabilities } = await import('../../plugins/capabilities/index.js')
  const capability = (more: string): string => `export default { start () {}, manifest: { name: 'demo',
    version: '1.0.0', kernel: '^1.0.0', summary: 'S.', capabilities: { say: { id: 'Say', version: '1',
    title: 'T', description: 'D', io_mode: 'unary', annotations: {}, ${more} } } } }`
  const home = t.testdir({
    'svc.yaml': 'plugins:\n  capabilities:\n    enabled: false\n  demo:\n    module: ./demo.mjs\n' +
      '    enabled: true\n',
    'demo.mjs': capability('input_schema: { type: \'objekt\' }')
  })
  const ran = await cli(['config', 'check', '--home', home], { plugins: [capabilities] })
  const started = await loadPlugins({ home, env: {}, flags: {}, bundled: [capabilities] }).then(
    () => 'it starts', (error: unknown) => (error as Error).message)
  for (const message of [/input_schema.*type/, /version must look like 1\.0\.0/, /requires "capabilities"/]) {
    t.match(ran.out, message)
    t.match(started, message)
  }
  t.equal(ran.status, 1)
})
