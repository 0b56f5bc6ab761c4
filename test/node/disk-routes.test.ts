import t from 'tap'
import { mkdirSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { parse } from 'yaml'
import { noSmallDisk, smallDisk } from '../tools/small-disk.js'
import { ask, refusal } from './http.js'
import { cli, faultsConfig, placeOn, run, sparing, startNode, svc, until, type TestNode } from './kit.js'
import { routesOf } from './routes.js'
import { cardText, makeModel } from './staging-kit.js'

const SMALL = '/store/models/acme%2Fsmall'

/** A request and its expected status on a full disk; the status is absent if several are right. */
interface Request { path: string, body?: unknown, status?: number }

/** Creates one resource of each kind; returns, by route, requests that use these resources. */
async function furnish (
  t: Parameters<typeof makeModel>[0], node: TestNode
): Promise<Record<string, Request>> {
  const made = async <T>(path: string, body?: unknown): Promise<T> => {
    const answer = await ask(node, path, body === undefined ? {} : { body })
    if (answer.status >= 300) throw new Error(`${path}: ${answer.text}`)
    return answer.json as T
  }
  const source = pathToFileURL(makeModel(t, 'acme/small', { 'weights.data': 4096 }).folder).href
  await made(`${SMALL}/download`, { source })
  await until('the model', async () =>
    (await made<{ status: string }>(`${SMALL}/download/status`)).status === 'complete')
  const instance = await placeOn(node, 'test/b')
  const token = { label: 'x', authorities: ['read'], local: true }
  const { record: { id } } = await made<{ record: { id: string } }>('/v1/tokens', token)
  await made('/cluster/join-tokens', { local: true })
  const { tokens: [joinToken] } = await made<{ tokens: { id: string }[] }>('/cluster/join-tokens')
  const { revision } = await made<{ revision: string }>('/config')
  return {
    'PUT /config': { path: '/config', body: { revision, set: { name: 'other' } }, status: 507 },
    'POST /v1/plugins/{name}': { path: '/v1/plugins/mcp', body: { enabled: false }, status: 507 },
    'POST /v1/tokens': { path: '/v1/tokens', body: token, status: 507 },
    'DELETE /v1/tokens/{id}': { path: `/v1/tokens/${id}`, status: 507 },
    'POST /cluster/join-tokens': { path: '/cluster/join-tokens', body: { local: true }, status: 507 },
    'DELETE /cluster/join-tokens/{id}': { path: `/cluster/join-tokens/${joinToken!.id}` },
    'PUT /v1/tracing': { path: '/v1/tracing', body: { enabled: true } },
    'POST /v1/traces/delete': { path: '/v1/traces/delete', body: { taskIds: [] }, status: 200 },
    'PUT /v1/approvals/budgets/{caller}':
      { path: '/v1/approvals/budgets/app_x', body: { per_day: '5 EUR' } },
    'POST /v1/devices/pairing': { path: '/v1/devices/pairing', body: {} },
    'POST /models/add': { path: '/models/add', body: { card: parse(cardText('acme/card')) } },
    'POST /store/models/{model_id}/stage': { path: `${SMALL}/stage`, body: { wait: true } },
    'POST /store/models/{model_id}/download':
      { path: '/store/models/acme%2Fmore/download', body: { source } },
    'POST /store/purge-staging': { path: '/store/purge-staging', body: { dry_run: true }, status: 200 },
    'POST /place_instance': { path: '/place_instance', body: { model_id: 'test/c', wait: true } },
    'DELETE /instance/{instance_id}': { path: `/instance/${instance}`, status: 200 },
    'PUT /nodes/{node}/drain': { path: '/nodes/local/drain' },
    'DELETE /nodes/{node}/drain': { path: '/nodes/local/drain' },
    'DELETE /store/models/{model_id}': { path: SMALL, status: 200 }
  }
}

t.test('a full disk', { skip: noSmallDisk }, async (t) => {
  const disk = smallDisk(t, '16m')
  const [home, store] = [join(disk.path, 'home'), join(disk.path, 'store')]
  const node = await startNode(t, {
    home, config: faultsConfig({ model_store: { store_path: store } }),
    env: sparing(1024)
  })
  const requests = await furnish(t, node)
  disk.fill()
  const routes = (await routesOf(node)).filter(({ method, path }) =>
    method !== 'GET' && path !== '/admin/restart')
  const keys = new Set(routes.map(({ method, path }) => `${method} ${path}`))
  t.same(Object.keys(requests).filter((key) => !keys.has(key)), [], 'every request has its route')
  for (const { method, path, body } of routes) {
    const key = `${method} ${path}`
    const { path: at, body: sent, status } = requests[key] ??
      { path: path.replaceAll(/\{\w+\}/g, 'nobody'), ...body ? { body: {} } : {} }
    disk.fill()
    const answer = await ask(node, at, { method, ...sent === undefined ? {} : { body: sent } })
    const told = `${key}: ${answer.status} ${refusal(answer)?.message ?? ''}`
    const full = { reason: 'insufficient_storage', message: disk.path }
    if (answer.status === 507) t.match(refusal(answer), full, told)
    else t.ok(answer.status < 500, told)
    if (status !== undefined) t.equal(answer.status, status, told)
  }
  disk.fill()
  const restarted = await ask(node, '/admin/restart', { method: 'POST' })
  t.equal(restarted.status, 200, restarted.text)
  await until('the node to be back', async () => {
    if (node.child.over()) throw new Error(node.child.stderr())
    const { status, json } = await ask(node, '/state').catch(() => ({ status: 0, json: {} }))
    return status === 200 && !JSON.stringify(json).includes(node.nodeId)
  })
  // Starting the node released its disk reserve, so the disk has free space and must be filled again.
  disk.fill()
  const told = await until('its health', async () =>
    ((await ask(node, '/state').catch(() => ({ text: '' }))).text.match(/"state_not_durable".{0,200}/))?.[0])
  t.ok(told)
  const { stdout } = await svc(['doctor', '--home', home, '--url', node.url], { env: { HOME: home } })
  t.match(stdout, /fail +home .*\/write-test\S+ \(65536 bytes\) cannot be written: the disk is full/)
  disk.free()
  t.equal((await ask(node, '/v1/tokens', { body: { label: 'y', authorities: ['read'] } })).status, 200)
})

for (const left of [0, 4096]) {
  t.test(`a start with ${left} bytes free`, { skip: noSmallDisk }, async (t) => {
    const disk = smallDisk(t, '4m')
    const home = join(disk.path, 'home')
    mkdirSync(home, { mode: 0o700 })
    disk.fill(left)
    const child = run(process.execPath, [cli, 'up', '--home', home, '--port', '0'], { env: { HOME: home } })
    await until('its end', child.over)
    const text = child.stderr()
    t.match(text, `${home}/run/write-test`, 'the path')
    t.match(text, /65536 bytes\) cannot be written: the disk is full \(ENOSPC\)\. A node needs 64 KiB/)
    t.match(text, `free disk space for ${home}`)
    t.notMatch(text, /\n +at /, 'no stack')
    disk.free()
    await startNode(t, { home })
  })
}
