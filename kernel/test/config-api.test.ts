import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { createConfigApi } from '../config-api.js'
import { readConfigText, resolveConfig } from '../config/index.js'
import type { ConfigApi } from '../config-api.js'

const owners = [{
  name: 'probe',
  bundled: true,
  config: {
    type: 'object',
    additionalProperties: false,
    properties: { size: { type: 'integer', minimum: 1, default: 3 } }
  }
}]

interface Opened { api: ConfigApi, path: string, changes: () => number }

function open (t: { teardown (fn: () => void): void }, text: string): Opened {
  const folder = mkdtempSync(join(tmpdir(), 'svc-config-'))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  const path = join(folder, 'svc.yaml')
  if (text !== '') writeFileSync(path, text, { mode: 0o600 })
  let changes = 0
  const { config } = resolveConfig(readConfigText(text, path), { owners, env: {} })
  const api = createConfigApi({
    path, config, owners, authorities: ['read', 'invoke'], onChange: () => { changes++ }
  })
  return { api, path, changes: () => changes }
}

t.test('a change at the right revision is written and kept with its comments', (t) => {
  const { api, path, changes } = open(t, '# mine\napi:\n  port: 5000 # here\n')
  const before = api.read()
  const after = api.write({ revision: before.revision, set: { 'api.port': 5001, 'plugins.probe.size': 9 } })
  t.not(after.revision, before.revision)
  t.equal(after.restart_needed, true)
  t.match(readFileSync(path, 'utf8'), /# mine\napi:\n {2}port: 5001 # here\n/)
  t.equal(api.read().revision, after.revision)
  t.equal(changes(), 1)
  t.end()
})

t.test('a stale revision, a wrong value and an unknown key change nothing', (t) => {
  const { api, path, changes } = open(t, 'api:\n  port: 5000\n')
  const { revision } = api.read()
  const refused = (change: Parameters<ConfigApi['write']>[0], reason: string, message: RegExp): void => {
    t.throws(() => api.write(change), { message } as never)
    try { api.write(change) } catch (error) { t.equal((error as { reason: string }).reason, reason) }
  }
  refused({ revision: 'old', set: { 'api.port': 1 } }, 'config_changed', /has changed/)
  refused({ revision, set: { 'api.port': 'x' } }, 'invalid_request', /api\.port/)
  refused({ revision, set: { 'api.prot': 1 } }, 'invalid_request', /api\.prot/)
  refused({ revision, set: { 'plugins.probe.size': 0 } }, 'invalid_request', /probe/)
  t.equal(readFileSync(path, 'utf8'), 'api:\n  port: 5000\n')
  t.equal(changes(), 0)
  t.end()
})

t.test('null removes a setting, and a file is made where there was none', (t) => {
  const made = open(t, '')
  made.api.write({ revision: made.api.read().revision, set: { 'api.port': 5001 } })
  t.match(readFileSync(made.path, 'utf8'), /port: 5001/)
  made.api.write({ revision: made.api.read().revision, set: { 'api.port': null } })
  t.notMatch(readFileSync(made.path, 'utf8'), /5001/)
  t.end()
})
