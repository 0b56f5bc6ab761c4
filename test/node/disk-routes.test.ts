import t from 'tap'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { stringify } from 'yaml'
import { ask, refusal } from './http.js'
import { faultsConfig, placeOn, startNode, until } from './kit.js'
import { routesOf } from './routes.js'
import { cardText, makeModel } from './staging-kit.js'
import { parse } from 'yaml'
import type { Answer } from './http.js'

const root = process.getuid?.() === 0 && process.platform === 'linux'
t.test('every route that changes something', { skip: root ? false : 'needs root' }, async (t) => {
  const where = mkdtempSync(join(tmpdir(), 'svc-disk-'))
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', where]).status !== 0) return
  t.teardown(() => { spawnSync('umount', ['-l', where]); rmSync(where, { recursive: true, force: true }) })
  const home = join(where, 'home')
  const node = await startNode(t, { home, config: faultsConfig({ model_store: { store_path: join(where, 'store') } }),
    env: { SVC_TEST_HEADROOM_BYTES: '1024' } })
  const model = makeModel(t, 'acme/small', { 'weights.data': 4096 })
  t.comment((await ask(node, '/store/models/acme%2Fsmall/download', { body: { source: pathToFileURL(model.folder).href } })).text)
  await until('the model', async () => ((await ask(node, '/store/models/acme%2Fsmall/download/status')).json as { status: string }).status === 'complete')
  const instance = await placeOn(node, 'test/b')
  const { record: { id: token } } = (await ask(node, '/v1/tokens', { body: { label: 'x', authorities: ['read'] } })).json as { record: { id: string } }
  await ask(node, '/cluster/join-tokens', { body: { local: true } })
  const { tokens: [joinToken] } = (await ask(node, '/cluster/join-tokens')).json as { tokens: { id: string }[] }
  const { revision } = (await ask(node, '/config')).json as { revision: string }
  for (const [n, size] of [1 << 20, 1 << 16, 1 << 12, 1].entries()) {
    try { for (let i = 0; ; i++) writeFileSync(join(where, `fill-${n}-${i}`), Buffer.alloc(size)) } catch {}
  }
  const routes = (await routesOf(node)).filter(({ method }) => method !== 'GET')
  const bodies: Record<string, [string, unknown?]> = {
    'PUT /config': ['/config', { revision, set: { name: 'other' } }],
    'POST /v1/plugins/{name}': ['/v1/plugins/mcp', { enabled: false }],
    'POST /v1/tokens': ['/v1/tokens', { label: 'y', authorities: ['read'] }],
    'DELETE /v1/tokens/{id}': [`/v1/tokens/${token}`],
    'POST /cluster/join-tokens': ['/cluster/join-tokens', { local: true }],
    'DELETE /cluster/join-tokens/{id}': [`/cluster/join-tokens/${joinToken!.id}`],
    'POST /cluster/touch': ['/cluster/touch'],
    'PUT /v1/tracing': ['/v1/tracing', { enabled: true }],
    'POST /v1/traces/delete': ['/v1/traces/delete', { taskIds: [] }],
    'PUT /v1/approvals/budgets/{caller}': ['/v1/approvals/budgets/app_x', { per_day: '5 EUR' }],
    'POST /v1/devices/pairing': ['/v1/devices/pairing', {}],
    'DELETE /v1/devices/pairing': ['/v1/devices/pairing'],
    'POST /models/add': ['/models/add', { card: parse(cardText('acme/card')) }],
    'POST /store/models/{model_id}/stage': ['/store/models/acme%2Fsmall/stage', { wait: true }],
    'POST /store/models/{model_id}/download': ['/store/models/acme%2Fmore/download', { source: pathToFileURL(model.folder).href }],
    'POST /store/purge-staging': ['/store/purge-staging', { dry_run: true }],
    'POST /place_instance': ['/place_instance', { model_id: 'test/c', wait: true }],
    'DELETE /instance/{instance_id}': [`/instance/${instance}`],
    'PUT /nodes/{node}/drain': ['/nodes/local/drain'],
    'DELETE /nodes/{node}/drain': ['/nodes/local/drain'],
    'DELETE /store/models/{model_id}': ['/store/models/acme%2Fsmall'],
    'POST /ollama/api/create': ['/ollama/api/create', { model: 'me/made', from: 'svc/guide', system: 'x', stream: false }],
    'POST /ollama/api/copy': ['/ollama/api/copy', { source: 'svc/guide', destination: 'me/copy' }]
  }
  const asked = async (what: string, path: string, method: string, body?: unknown): Promise<void> => {
    const answer: Answer = await ask(node, path, { method, ...body === undefined ? {} : { body } })
    t.comment(`${what}: ${answer.status} ${refusal(answer)?.reason ?? ''} ${answer.text.slice(0, 200)}`)
  }
  for (const { method, path, body } of routes) {
    const key = `${method} ${path}`
    const [at, sent] = bodies[key] ?? [path.replaceAll(/\{\w+\}/g, 'nobody'), body ? {} : undefined]
    if (path !== '/admin/restart') await asked(key, at, method, sent)
  }
  await asked('restart', '/admin/restart', 'POST')
  void stringify
})
