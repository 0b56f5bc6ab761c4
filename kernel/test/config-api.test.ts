import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { createConfigApi, type ConfigApi } from '../config/api.js'
import { kernelManifest } from '../plugins/kernel-manifest.js'
import { resolveConfig } from '../config/resolve.js'
import { readConfigText } from '../config/text.js'
import type { Caller } from '../api/plugin.js'

const callerWith = (...authorities: string[]): Caller => ({
  id: 'app_1', mode: 'direct', authorities: new Set(authorities)
})
const manager = callerWith('read', 'invoke', 'operator', 'plugin:manage')

const owners = [{
  name: 'probe',
  bundled: true,
  config: {
    type: 'object',
    additionalProperties: false,
    properties: {
      size: { type: 'integer', minimum: 1, default: 3 },
      program: { 'type': 'string', 'x-local': true },
      names: { type: 'array', items: { type: 'string' } },
      at: {
        type: 'object', default: {},
        additionalProperties: {
          type: 'object',
          properties: { url: { type: 'string' }, path: { 'type': 'string', 'x-local': true } }
        }
      },
      options: {
        'type': 'object', 'default': {}, 'x-local': true, 'additionalProperties': { type: 'object' }
      }
    }
  },
  settings: {
    shelf: {
      type: 'object', properties: { size: { type: 'integer' }, cache: { 'type': 'string', 'x-local': true } }
    }
  }
}, { name: 'guest', bundled: false }]

interface Listed { path: string, value?: unknown, origin?: string, schema?: object | null }

interface Opened { api: ConfigApi, path: string }

function open (t: { teardown (fn: () => void): void }, text: string): Opened {
  const folder = mkdtempSync(join(tmpdir(), 'svc-config-'))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  const path = join(folder, 'svc.yaml')
  if (text !== '') writeFileSync(path, text, { mode: 0o600 })
  const written = readConfigText(text, path)
  const { config } = resolveConfig(written, { owners, env: {} })
  const api = createConfigApi({
    path, config, written: written.value, owners, authorities: Object.keys(kernelManifest.authorities),
    env: { NODE_NAME: 'attic', SVC_API_PORT: '7000' }
  })
  return { api, path }
}

t.test('a change at the right revision is written and kept with its comments', (t) => {
  const { api, path } = open(t, '# mine\napi:\n  port: 5000 # here\n')
  const before = api.read()
  const after = api.write({ revision: before.revision, set: { 'api.port': 5001, 'plugins.probe.size': 9 } },
    manager)
  t.not(after.revision, before.revision)
  t.equal(api.read().restart_needed, true)
  t.equal(api.pending(), true)
  t.match(readFileSync(path, 'utf8'), /# mine\napi:\n {2}port: 5001 # here\n/)
  t.equal(api.read().revision, after.revision)
  const { entries } = api.read() as { entries: (Listed & { restart?: true })[] }
  t.same(entries.flatMap(({ path, restart }) => restart === true ? [path] : []).sort(),
    ['api.port', 'plugins.probe.size'], 'what counts after a restart only')
  t.end()
})

t.test('a plugin that is switched off and on again needs no restart', (t) => {
  for (const text of ['', 'plugins:\n  probe: {}\n', 'plugins:\n  probe:\n    enabled: true\n']) {
    const { api, path } = open(t, text)
    api.write({ set: { 'plugins.probe.enabled': false } }, manager)
    t.equal(api.pending(), true)
    api.write({ set: { 'plugins.probe.enabled': null } }, manager)
    const { config } = resolveConfig(readConfigText(readFileSync(path, 'utf8'), path), { owners, env: {} })
    api.took(['plugins.probe.enabled'], config)
    t.same([api.pending(), api.read().restart_needed], [false, false], JSON.stringify(text))
  }
  t.end()
})

t.test('every setting has its schema, with a value or without, and never a plugin\'s module', (t) => {
  const { api } = open(t, 'plugins:\n  guest:\n    module: ./guest.mjs\n')
  const { entries, unset } = api.read() as { entries: Listed[], unset: Listed[] }
  const size = entries.find(({ path }) => path === 'plugins.probe.size')
  t.match(size, { value: 3, origin: 'default', schema: { type: 'integer', minimum: 1 } })
  t.ok(entries.every(({ schema }) => schema !== undefined))
  t.match(unset.find(({ path }) => path === 'cluster.advertise'), { schema: { type: 'string' } })
  const both = new Set(entries.map(({ path }) => path))
  t.notOk(unset.some(({ path }) => both.has(path)))
  t.notOk(unset.some(({ path }) => path.endsWith('.module')))
  t.end()
})

t.test('it says whether the file says anything else than at the start', (t) => {
  const { api, path } = open(t, 'api:\n  port: 5000\n')
  const after = (text: string): boolean => {
    writeFileSync(path, text)
    return api.read().restart_needed
  }
  t.equal(api.read().restart_needed, false)
  t.equal(after('# the same\napi: { port: 5000 }\n'), false)
  t.equal(after('api:\n  port: 5001\n'), true)
  t.equal(after(''), true)
  t.end()
})

t.test('a file that was not there', (t) => {
  const { api, path } = open(t, '')
  t.equal(api.read().restart_needed, false)
  writeFileSync(path, 'name: attic\n')
  t.equal(api.read().restart_needed, true)
  t.end()
})

t.test('a stale revision, a wrong value and an unknown key change nothing', (t) => {
  const { api, path } = open(t, 'api:\n  port: 5000\n')
  const { revision } = api.read()
  const refused = (change: Parameters<ConfigApi['write']>[0], reason: string, message: RegExp): void => {
    t.throws(() => api.write(change, manager), { message })
    try { api.write(change, manager) } catch (error) { t.equal((error as { reason: string }).reason, reason) }
  }
  refused({ revision: 'old', set: { 'api.port': 1 } }, 'config_changed', /has changed/)
  refused({ revision, set: { 'api.port': 'x' } }, 'invalid_request', /api\.port/)
  refused({ revision, set: { 'api.prot': 1 } }, 'invalid_request', /api\.prot/)
  refused({ revision, set: { 'plugins.probe.size': 0 } }, 'invalid_request', /probe/)
  t.equal(readFileSync(path, 'utf8'), 'api:\n  port: 5000\n')
  t.end()
})

t.test('variables in the file stay variables, set or not', (t) => {
  const text = 'name: ${env.NODE_NAME} # where it stands\naccess:\n  local: [read]\nlogging:\n' +
    '  ingest_url: ${env.ONLY_THERE}\n'
  const { api, path } = open(t, text)
  const set = (change: Record<string, unknown>): void => {
    api.write({ revision: api.read().revision, set: change }, manager)
  }
  set({ 'plugins.probe.size': 9 })
  t.equal(readFileSync(path, 'utf8'), `${text}plugins:\n  probe:\n    size: 9\n`)
  set({ name: '${env.NODE_NAME}' })
  for (const peer of ['169.254.169.254:80', '[fe80::1]:52416', 'metadata.google.internal:80']) {
    t.throws(() => { set({ 'cluster.peers': [peer] }) },
      { reason: 'invalid_request', status: 400, message: /cluster\.peers\[0\].*neither link-local/ }, peer)
  }
  t.throws(() => { set({ 'api.port': 'x' }) }, { reason: 'invalid_request', message: /api\.port/ },
    'what a variable overrides is checked too')
  t.end()
})

t.test('null removes a setting, and a file is made where there was none', (t) => {
  const made = open(t, '')
  made.api.write({ revision: made.api.read().revision, set: { 'api.port': 5001 } }, manager)
  t.match(readFileSync(made.path, 'utf8'), /port: 5001/)
  made.api.write({ revision: made.api.read().revision, set: { 'api.port': null } }, manager)
  t.notMatch(readFileSync(made.path, 'utf8'), /5001/)
  t.end()
})

t.test('who may change what, however the path is written', (t) => {
  const text = 'access:\n  local: [read, invoke]\nplugins:\n  guest:\n    module: ./guest.js\n  probe: {}\n'
  const check = (set: Record<string, unknown>, authorities: string[], expected: string): void => {
    const { api, path } = open(t, text)
    let got = 'written'
    try {
      api.write({ revision: api.read().revision, set }, callerWith('operator', ...authorities))
    } catch (error) { got = (error as { reason: string }).reason }
    t.equal(got, expected, JSON.stringify([set, authorities]))
    t.equal(readFileSync(path, 'utf8') === text, expected !== 'written', 'what is refused writes nothing')
  }
  const code = { module: './other.js' }
  const all = [...manager.authorities]
  for (const set of [
    { 'plugins.guest.module': code.module }, { '"plugins".guest.module': code.module },
    { 'plugins."guest"."module"': code.module }, { '"plug\\u0069ns".guest.module': code.module },
    { 'plugins.guest': code }, { '"plugins".guest': code }, { plugins: { guest: code } },
    { '"plugins"': { guest: code } }, { 'plugins[0].module': code.module }, { 'Plugins.guest': code },
    { 'plugins.guest': [code] }, { 'plugins.guest.Module': code.module }, { 'plugins.probe': code }
  ]) check(set, all, 'invalid_request')
  for (const set of [{ 'plugins.probe.size': 9 }, { '"plugins".probe.size': 9 },
    { 'plugins."guest".enabled': false }]) {
    check(set, [], 'missing_grant')
    check(set, ['plugin:manage'], 'written')
  }
  for (const set of [{ 'access.local': ['read', 'plugin:manage'] }, { access: { local: ['plugin:manage'] } },
    { '"access"."local"': ['plugin:manage', 'read'] }, { 'access.local[0]': 'plugin:manage' }]) {
    check(set, ['read', 'invoke'], 'access.local[0]' in set ? 'invalid_request' : 'missing_grant')
  }
  check({ 'access.local': ['read', 'operator'] }, [], 'written')
  check({ 'access.local': [] }, [], 'written')
  check({ 'access.local': null }, [], 'written')
  check({ 'access.local': ['${env.WHO}'] }, all, 'invalid_request')
  // Origins, hosts and proxies decide which requests count as local, so setting them grants authorities.
  for (const set of [{ 'api.allowed_origins': ['https://evil.example'] },
    { api: { allowed_hosts: ['evil'] } }, { '"api".trust_proxy': ['192.0.2.1'] }]) {
    check(set, ['read'], 'missing_grant')
    check(set, ['read', 'invoke'], 'written')
  }
  t.end()
})

t.test('what is marked as local changes in the file only, however the change is written', (t) => {
  const text = 'shelf:\n  size: 1\n  cache: /a\nplugins:\n  probe:\n    program: /bin/a\n    at:\n' +
    '      one: { url: u, path: /p }\n    options:\n      llama: { bin: /b }\n' +
    '  guest: { module: ./guest.js }\n  away: { module: ./away.js, command: x }\n'
  const check = (set: Record<string, unknown>, local?: string): void => {
    const { api, path } = open(t, text)
    const what = JSON.stringify(set)
    try {
      api.write({ set }, manager)
      t.equal(local, undefined, what)
    } catch (error) {
      t.match(error, { reason: 'invalid_request', details: { param: local ?? '?' } }, what)
      t.match((error as Error).message, /can only be set in svc\.yaml on the node's machine/, what)
      t.equal(readFileSync(path, 'utf8'), text)
    }
  }
  check({ 'plugins.probe.size': 5 })
  check({ 'plugins.probe.at.one.url': 'other' })
  check({ 'plugins.probe.program': '/bin/a' })
  check({ 'shelf.size': 2 })
  check({ 'plugins.away.enabled': false })
  for (const value of ['/bin/sh', null, '']) {
    check({ 'plugins.probe.program': value }, 'plugins.probe.program')
  }
  check({ 'plugins.probe.at.one.path': '/etc' }, 'plugins.probe.at.one.path')
  check({ 'plugins.probe.at.two': { path: '/etc' } }, 'plugins.probe.at.two.path')
  check({ 'plugins.probe.at': null }, 'plugins.probe.at.one.path')
  check({ 'plugins.probe.options.llama.bin': '/x' }, 'plugins.probe.options.llama.bin')
  check({ 'plugins.probe.options.vllm': { a: 1 } }, 'plugins.probe.options.vllm')
  check({ 'plugins.probe': { size: 5 } }, 'plugins.probe.program')
  check({ 'shelf.cache': '/x' }, 'shelf.cache')
  check({ shelf: null }, 'shelf.cache')
  check({ 'plugins.away.command': 'y' }, 'plugins.away.command')
  check({ 'plugins.guest.module': './other.js' }, 'plugins.guest.module')
  check({ plugins: null }, 'plugins.probe.program')
  const { api, path } = open(t, text)
  api.keep('shelf.cache', '/b', manager)
  t.match(readFileSync(path, 'utf8'), /cache: \/b/, 'what the node itself decides is kept')
  t.match(api.read().entries.find((entry) => (entry as Listed).path === 'plugins.probe.program'),
    { local: true, schema: { 'x-local': true } })
  t.match(api.read().entries.find((entry) => (entry as Listed).path === 'plugins.probe.options.llama.bin'),
    { local: true }, 'inside of a map, too')
  t.end()
})

t.test('no change brings a reference to the environment', (t) => {
  const text = 'name: ${env.NODE_NAME}\nplugins:\n  probe:\n    names: ["${env.NODE_NAME}", b]\n'
  const { api, path } = open(t, text)
  const refused: Record<string, unknown>[] = [
    { name: '${env.SVC_API_PORT}' }, { name: 'x ${env.NODE_NAME}' }, { name: '${env.NOT_THERE}' },
    { 'logging.ingest_url': 'https://x.example/${env.NODE_NAME}' },
    { 'logging': { ingest_url: 'https://x.example/?${env.NODE_NAME}' } },
    { 'plugins.probe.names': ['b', '${env.NODE_NAME}'] }, { 'plugins.probe.names': ['${env.SVC_API_PORT}'] },
    { 'plugins.probe.at': { x: { url: '${env.NODE_NAME}' } } }, { 'api.port': '${env.SVC_API_PORT}' },
    { 'access.local': ['${env.NODE_NAME}'] }, { name: '${env.}' }
  ]
  for (const set of refused) {
    t.throws(() => { api.write({ set }, manager) }, {
      reason: 'invalid_request', message: /\$\{env\.NAME\} works in svc\.yaml only/
    }, JSON.stringify(set))
  }
  t.equal(readFileSync(path, 'utf8'), text)
  api.write({ set: { 'plugins.probe.size': 4 } }, manager)
  api.write({ set: { 'plugins.probe.names': ['${env.NODE_NAME}', 'c'] } }, manager)
  t.match(readFileSync(path, 'utf8'), /^name: \$\{env\.NODE_NAME\}\n[^]*\$\{env\.NODE_NAME\}[^]*c/,
    'those stay')
  t.end()
})

t.test('a change is taken back, unless the file has changed once more', (t) => {
  const { api, path } = open(t, 'api:\n  port: 5000\n')
  const write = (port: number): () => void => api.write({ set: { 'api.port': port } }, manager).undo
  write(5001)()
  t.match(readFileSync(path, 'utf8'), /port: 5000/)
  const undo = write(5002)
  write(5003)
  undo()
  t.match(readFileSync(path, 'utf8'), /port: 5003/)
  t.end()
})

t.test('what is in force already is written, and needs no restart', (t) => {
  const { api, path } = open(t, '# mine\napi:\n  port: 5000\n')
  api.keep('plugins.probe.size', 9, manager)
  t.match(readFileSync(path, 'utf8'), /# mine\napi:\n {2}port: 5000\nplugins:\n {2}probe:\n {4}size: 9\n/)
  const { restart_needed: needed, entries } = api.read()
  t.equal(needed, false)
  t.match(entries.filter((entry) => (entry as { path: string }).path === 'plugins.probe.size'),
    [{ value: 9, origin: 'file' }])
  const refused = (size: number, caller: Caller, reason: string): void => {
    t.throws(() => { api.keep('plugins.probe.size', size, caller) }, { name: 'SvcError', reason })
  }
  refused(0, manager, 'invalid_request')
  refused(8, callerWith('operator'), 'missing_grant')
  api.write({ revision: api.read().revision, set: { 'api.port': 5001 } }, manager)
  t.equal(api.read().restart_needed, true, 'what else changes does')
  t.end()
})
