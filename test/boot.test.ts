import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { BootError } from '../kernel/api/errors.js'
import { createNode, type SvcNode } from '../kernel/boot/node.js'
import { neededBy } from '../kernel/plugins/graph.js'
import { schemaFaults } from '../kernel/plugins/load.js'
import { bundled } from '../plugins/index.js'
import { full } from './node/kit.js'
import type { Plugin } from '../kernel/index.js'

const hasIpv6 = Object.values(networkInterfaces()).flat().some((one) => one?.address === '::1')

interface Given {
  /** Bundled plugins to boot with; all if absent. */
  plugins?: readonly Plugin[]
  yaml?: string
  /** Other files in the home, by name. */
  files?: Record<string, string>
}

function home (t: Test, { yaml, files = {} }: Given): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-boot-'))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  const all = yaml === undefined ? files : { ...files, 'svc.yaml': yaml }
  for (const [name, text] of Object.entries(all)) writeFileSync(join(folder, name), text)
  return folder
}

/** Boots without models: the engines need the built package, and other tests cover them with it. */
async function boot (folder: string, { plugins = bundled }: Given = {}): Promise<SvcNode> {
  const places = plugins.some((p) => p.manifest.name === 'placement')
  return await createNode({
    home: folder, env: {}, bundled: plugins,
    flags: { 'api.port': 0, 'logging.level': 'fatal',
      ...(places ? { 'plugins.placement.autoplace': [] } : {}) }
  })
}

/** A listening node, stopped at the end of the test. */
async function up (t: Test, given: Given = {}): Promise<SvcNode> {
  const node = await boot(home(t, given), given)
  t.teardown(() => node.stop('test'))
  await node.listen()
  return node
}

/** Boots a node, which must fail, and returns the problems in the error. */
async function problems (t: Test, given: Given): Promise<readonly string[]> {
  const folder = home(t, given)
  const flags = { 'cluster.port': 0 }
  const refusal = async (): Promise<unknown> =>
    await createNode({ home: folder, env: {}, bundled: given.plugins ?? bundled, flags })
      .then(() => null, (error: unknown) => error)
  const first = await refusal()
  t.match(await refusal(), { name: 'BootError' }, 'the second try finds the home free')
  t.ok(first instanceof BootError)
  return (first as BootError).problems
}

/** The plugins that some of them need, and those themselves, in the order of `bundled`. */
function closed (some: readonly Plugin[]): Plugin[] {
  const names = new Set(some.map(({ manifest }) => manifest.name))
  for (const name of names) {
    const { manifest } = bundled.find((one) => one.manifest.name === name)!
    for (const need of neededBy(manifest)) names.add(need)
  }
  return bundled.filter(({ manifest }) => names.has(manifest.name))
}

/** Sets of plugins: none, all, and for each plugin the smallest set with it and the largest without it. */
const extremes = (): Plugin[][] => [[], [...bundled], ...bundled.flatMap((plugin) =>
  [closed([plugin]), bundled.filter((one) => !closed([one]).includes(plugin))])]

/** Sets of plugins with their needs, spread over all of them. */
const others = (count: number): Plugin[][] => Array.from({ length: count }, (_, i) =>
  closed(bundled.filter((_, at) => (Math.imul(i + 1, 2654435761) >>> at & 1) === 1)))

t.test('closed subsets of the bundled plugins boot, answer and stop', async (t) => {
  // The number of sets doubles with each plugin, so `npm run test:faults` tries some more of them.
  const all = [...extremes(), ...full ? others(300) : []]
  const nameOf = (plugins: readonly Plugin[]): string => plugins.map((p) => p.manifest.name).join()
  const subsets = [...new Map(all.map((plugins) => [nameOf(plugins), plugins])).values()]
  t.ok(subsets.length > bundled.length, 'more than the plugins one by one')
  for (const plugins of subsets) {
    const names = plugins.map((p) => p.manifest.name)
    await t.test(names.join(' + ') || 'no plugin', async (t) => {
      const node = await up(t, { plugins })
      const state = await (await fetch(`${node.url}/state`)).json() as Record<string, unknown>
      t.equal(state['localNodeId'], node.nodeId)
      t.equal(state['masterNodeId'], node.nodeId, 'a lone node is its own master')
      const answer = await fetch(`${node.url}/v1/capabilities`)
      const listing = await answer.json() as { capabilities?: { id: string }[] }
      const declared = plugins.flatMap((p) => Object.values(p.manifest.capabilities ?? {}).map((c) => c.id))
      const expected = names.includes('capabilities') ? declared.sort() : undefined
      t.same(listing.capabilities?.map((c) => c.id).sort(), expected)
      t.equal((await fetch(`${node.url}/readyz`)).status, 200, 'nothing is set to start, so all is ready')
      await node.stop('test')
      await t.rejects(fetch(`${node.url}/healthz`), 'nobody listens any more')
    })
  }
})

t.test('a stopped home can be used again, one in use cannot', async (t) => {
  const folder = home(t, {})
  const first = await boot(folder, { plugins: [] })
  await t.rejects(boot(folder, { plugins: [] }), { name: 'HomeError', message: /in use by process \d+/ })
  await first.stop('test')
  const second = await boot(folder, { plugins: [] })
  t.not(second.nodeId, first.nodeId, 'each start has a node id of its own')
  await second.stop('test')
})

t.test('a node on loopback answers at both loopback addresses', async (t) => {
  const node = await up(t, { plugins: [] })
  const { port } = new URL(node.url)
  for (const host of ['127.0.0.1', 'localhost', ...hasIpv6 ? ['[::1]'] : []]) {
    const answer = await fetch(`http://${host}:${port}/node_id`)
    t.equal(await answer.json(), node.nodeId, host)
  }
  await node.stop('test')
  if (hasIpv6) await t.rejects(fetch(`http://[::1]:${port}/node_id`), 'both are given back')
})

t.test('HEAD works for every GET', async (t) => {
  const node = await up(t)
  const token = readFileSync(join(node.home, 'operator.token'), 'utf8').trim()
  const routes = bundled.flatMap(({ manifest }) => Object.values(manifest.routes ?? {}))
  for (const { url } of routes.filter(({ method, socket }) => method === 'GET' && socket !== true)) {
    const path = url.replace(/:[a-z_]+|\*/gi, 'x')
    const { status } = await fetch(`${node.url}${path}`, {
      method: 'HEAD', headers: { authorization: `Bearer ${token}` }
    })
    t.notOk([405, 500].includes(status), `${url}: ${status}`)
  }
})

t.test('a svc.yaml with ten mistakes lists all ten, with their lines', async (t) => {
  const lines = await problems(t, { yaml: [
    'nam: attic',
    'api:',
    '  port: "52415"',
    '  hosts: [a.example]',
    'limits:',
    '  body_kib: 0',
    '  headers_timeout_seconds: 60',
    'logging:',
    '  level: loud',
    '  ingest_url: ftp://logs.example',
    'access:',
    '  local: [reed]',
    '  remote: [read]',
    'plugins:',
    '  runners:',
    '    threds: 2'
  ].join('\n') })
  const wanted = [
    /:1:.*nam: unknown key.*"name"/, /:3:.*api\.port: expected a whole number/,
    /:4:.*api\.hosts: unknown key/,
    /:6:.*limits\.body_kib: expected a whole number/, /:7:.*headers_timeout_seconds: is above/,
    /:9:.*logging\.level: expected/, /:10:.*logging\.ingest_url: expected an http/,
    /:12:.*access\.local\[0\]: there is no authority "reed".*"read"/,
    /:13:.*access\.remote: a remote request without/,
    /:16:.*plugins\.runners\.threds: unknown key.*"threads"/
  ]
  t.equal(lines.length, wanted.length, lines.join('\n'))
  for (const pattern of wanted) t.ok(lines.some((line) => pattern.test(line)), String(pattern))
})

t.test('a disabled plugin disables its dependants; its routes name the remedy', async (t) => {
  const node = await up(t, { yaml: 'plugins: { runners: { enabled: false } }' })
  const names = ['placement', 'capabilities-tts', 'capabilities-stt', 'llama-cpp', 'openai-programs', 'chat',
    'realtime', 'upstreams', 'wyoming']
  const down = names.map((name) =>
    `plugin "${name}" is off because it requires "runners", which is disabled; ` +
    '`svc plugin enable runners` enables it')
  t.same(node.warnings, down)
  const rows: [string, string, string][] = [
    ['POST', '/v1/cancel/some-command', 'svc plugin enable runners'],
    ['GET', '/v1/audio/voices', 'svc plugin enable runners'],
    ['GET', '/ollama/api/tags', 'svc plugin enable runners']
  ]
  for (const [method, path, line] of rows) {
    const answer = await fetch(node.url + path, { method })
    t.equal(answer.status, 404, path)
    const { error } = await answer.json() as { error: { reason: string, message: string } }
    t.equal(error.reason, 'plugin_disabled')
    t.ok(error.message.includes(line), error.message)
  }
  const speech = await fetch(`${node.url}/v1/audio/speech`, { method: 'POST', body: '{"anything":1}',
    headers: { 'content-type': 'application/json' } })
  t.equal(speech.status, 404, 'the body of a route that is off is not judged')
  t.equal((await fetch(`${node.url}/v1/nothing`)).status, 404)
})

t.test('without the capabilities plugin the plugins that declare some are off', async (t) => {
  const node = await up(t, {
    yaml: 'plugins: { capabilities: { enabled: false }, hello: { module: ./hello.mjs } }',
    files: { 'hello.mjs': guest('hello', 'return {}', `capabilities: { hi: {
      id: 'hi', version: '1.0.0', title: 'Hi', description: 'Greets.', io_mode: 'unary', annotations: {},
      input_schema: { type: 'object' } } },`) }
  })
  for (const name of ['chat', 'capabilities-tts', 'hello']) {
    t.ok(node.warnings.includes(`plugin "${name}" is off because it requires "capabilities", which is ` +
      'disabled; `svc plugin enable capabilities` enables it'), name)
  }
  for (const path of ['/v1/capabilities', '/v1/capabilities/session']) {
    const answer = await fetch(node.url + path)
    t.match(await answer.json(), { error: {
      reason: 'plugin_disabled', message: /svc plugin enable capabilities/,
      details: { plugin: 'capabilities' }
    } })
  }
})

t.test('without the cluster every other plugin runs; its switch waits for a restart', async (t) => {
  const node = await up(t, { yaml: 'plugins: { cluster: { enabled: false } }' })
  const token = readFileSync(join(node.home, 'operator.token'), 'utf8').trim()
  const headers = { 'authorization': `Bearer ${token}`, 'content-type': 'application/json' }
  const listing = await (await fetch(`${node.url}/v1/plugins`, { headers })).json() as
    { plugins: { name: string, enabled: boolean, why: string | null }[] }
  const off = listing.plugins.filter(({ enabled }) => !enabled)
  t.same(off.map(({ name }) => name), ['cluster'])
  t.equal(listing.plugins.length, bundled.length)
  const members = await fetch(`${node.url}/cluster/members`, { headers })
  t.equal(members.status, 404)
  t.match(await members.json(), { error: { reason: 'plugin_disabled', details: { plugin: 'cluster' } } })
  const turn = async (enabled: boolean): Promise<unknown> =>
    await (await fetch(`${node.url}/v1/plugins/cluster`, {
      method: 'POST', headers, body: JSON.stringify({ enabled })
    })).json()
  t.match(await turn(true), {
    in_effect: false, why: /starts before the other plugins/, restart_needed: true
  })
  t.match(await turn(false), { restart_needed: false }, 'as it runs')
  const other = await up(t)
  const answer = await fetch(`${other.url}/v1/plugins/cluster`, {
    method: 'POST', body: JSON.stringify({ enabled: false }), headers: { ...headers, authorization:
      `Bearer ${readFileSync(join(other.home, 'operator.token'), 'utf8').trim()}` }
  })
  t.match(await answer.json(), { in_effect: false, why: /starts before/, restart_needed: true })
  t.equal((await fetch(`${other.url}/cluster/touch`, { method: 'POST', headers: { ...headers, authorization:
    `Bearer ${readFileSync(join(other.home, 'operator.token'), 'utf8').trim()}` } })).status, 200)
})

t.test('an explicitly enabled plugin is not disabled silently', async (t) => {
  const yaml = 'plugins: { runners: { enabled: false }, capabilities-tts: { enabled: true } }'
  t.match(await problems(t, { yaml }), [/"capabilities-tts" is off because it requires "runners"/])
})

t.test('the settings of a disabled plugin are still checked', async (t) => {
  const yaml = 'plugins: { runners: { enabled: false, threads: many } }'
  t.match(await problems(t, { yaml }), [/plugins\.runners\.threads: expected a whole number/])
})

/** Source of a plugin module; `start` is the body of its start function. */
const guest = (name: string, start: string, extra = ''): string => `export default {
  manifest: { name: '${name}', version: '1.0.0', kernel: '^1.0.0', summary: 'A guest.', ${extra} },
  start (ctx) { ${start} }
}\n`
const route = "routes: { hi: { method: 'GET', url: '/v1/hi', summary: 'Greets.', authority: 'read' } },"
const setting = `config: { type: 'object', additionalProperties: false,
  properties: { whom: { type: 'string', default: 'world' } } },`

const answers = (what: string): string => `return { routes: { hi: () => ({ hi: ${what} }) } }`

t.test('a third-party plugin loads by its path, with its own settings', async (t) => {
  const node = await up(t, {
    plugins: bundled.filter(({ manifest }) => manifest.name === 'diagnostics'),
    yaml: 'plugins: { hello: { module: ./hello.mjs, whom: you } }',
    files: { 'hello.mjs': guest('hello', answers('ctx.config.whom'), route + setting) }
  })
  t.same(await (await fetch(`${node.url}/v1/hi`)).json(), { hi: 'you' })
  const { paths } = await (await fetch(`${node.url}/openapi.json`)).json() as { paths: object }
  t.ok('/v1/hi' in paths, 'it is documented by itself')
})

const counts = "let told = 0; ctx.on('NodeRestarted', () => { told++ }); "

t.test('a second restart request is restart_pending', async (t) => {
  const node = await up(t, {
    plugins: [], yaml: 'plugins: { hello: { module: ./hello.mjs } }',
    files: { 'hello.mjs': guest('hello', counts + answers('told'), route) }
  })
  let asked = 0
  node.onRestart(() => { asked++ })
  const token = readFileSync(join(node.home, 'operator.token'), 'utf8').trim()
  const restart = async (): Promise<Response> => await fetch(`${node.url}/admin/restart`,
    { method: 'POST', headers: { authorization: `Bearer ${token}` } })
  t.match(await (await restart()).json(), { status: 'restarting', node_id: node.nodeId })
  const second = await restart()
  t.equal(second.status, 409)
  t.match(await second.json(), { error: { reason: 'restart_pending', retryable: true } })
  t.equal(asked, 1)
  t.same(await (await fetch(`${node.url}/v1/hi`)).json(), { hi: 1 }, 'the event NodeRestarted was told once')
})

t.test('plugins that fail in start end the boot, every one named', async (t) => {
  const lines = await problems(t, {
    plugins: [], yaml: ['plugins:', '  one: { module: ./one.mjs }', '  two: { module: ./two.mjs }',
      '  three: { module: ./three.mjs }'].join('\n'),
    files: {
      'one.mjs': guest('one', "throw new Error('no disk')"), 'two.mjs': guest('two', 'return {}', route),
      'three.mjs': guest('three', 'return {}', "requires: ['one'],")
    }
  })
  t.match(lines, [/plugin "one" failed to start: no disk/,
    /plugin "two" failed to start: .*declared route "hi"/])
  t.equal(lines.length, 2, 'one that needs a failed plugin is not tried')
})

t.test('every bundled schema compiles; a start compiles none of them', async (t) => {
  for (const { manifest } of bundled) t.strictSame(schemaFaults(manifest), [], manifest.name)
})

t.test('a route schema that cannot be compiled ends the boot, not the first request', async (t) => {
  const bad = (part: string): string => `routes: { hi: { method: 'POST', url: '/v1/hi', summary: 'Greets.',
    authority: 'read', ${part}: { type: 'object', properties: { a: { type: 'strin' } } } } },`
  for (const part of ['body', 'query']) {
    const lines = await problems(t, {
      plugins: [], yaml: 'plugins: { hello: { module: ./hello.mjs } }',
      files: { 'hello.mjs': guest('hello', answers('1'), bad(part)) }
    })
    t.match(lines, [new RegExp(`plugin "hello", route "hi", ${part}: .*strin`)])
  }
})

t.test('modules that are no plugins, and two plugins with one name, are problems of the boot', async (t) => {
  const lines = await problems(t, {
    yaml: [
      'plugins:', '  gone: { module: ./gone.mjs }', '  empty: { module: ./empty.mjs }',
      '  other: { module: ./hello.mjs }', '  hello: { module: ./hello.mjs }',
      '  greet: { module: ./greet.mjs }', '  needy: { module: ./needy.mjs }'
    ].join('\n'),
    files: {
      'empty.mjs': 'export default 5\n',
      'hello.mjs': guest('hello', 'return {}', route),
      'greet.mjs': guest('greet', 'return {}', route),
      'needy.mjs': guest('needy', 'return {}', "requires: ['nowhere', 'hello@^2.0.0'],")
    }
  })
  const wanted = [
    /plugins\.gone\.module: cannot load \.\/gone\.mjs/,
    /plugins\.empty\.module: .*its default export is not the result of definePlugin/,
    /plugins\.other\.module: .*its name is "hello"; use that name as the key/,
    /"needy" requires "nowhere", which is not installed/, /"needy" requires hello@\^2\.0\.0, found 1\.0\.0/,
    /route "GET \/v1\/hi" is declared by both "hello" and "greet"/
  ]
  for (const pattern of wanted) t.ok(lines.some((line) => pattern.test(line)), String(pattern))
  const [first] = bundled
  const twice = await problems(t, { plugins: [first!, first!] })
  const { name } = first!.manifest
  t.ok(twice.includes(`2 plugins are named "${name}"; names must be unique`), twice.join('\n'))
})
