/** No route reveals a machine's host name, addresses or folders to a caller with only `read`. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { WebsocketProvider } from 'y-websocket'
import { Doc } from 'yjs'
import { pairAt } from './devices-kit.js'
import { ask, open } from './http.js'
import { faultsConfig, folder, startNode, until, type TestNode } from './kit.js'
import { routesOf, SESSION, tokenWith } from './routes.js'

const HOST = 'canary-host.example'
const ADDRESS = '198.51.100.77'
const DEVICE = 'canary-device'

/** A module that fakes the machine's host name and adds an address, so that leaks are recognised. */
const disguise = `import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
const real = os.networkInterfaces()
const canary = { address: '${ADDRESS}', netmask: '255.255.255.0', family: 'IPv4', mac: '02:00:5e:10:00:77',
  internal: false, cidr: '${ADDRESS}/24' }
os.hostname = () => '${HOST}'
os.networkInterfaces = () => ({ ...real, canary0: [canary] })
syncBuiltinESMExports()
`

async function disguised (t: Test): Promise<TestNode> {
  const base = folder(t)
  const script = join(base, 'disguise.mjs')
  writeFileSync(script, disguise)
  const home = join(base, 'canary-home')
  mkdirSync(join(home, 'gone'), { recursive: true, mode: 0o700 })
  // The unreachable relay causes a health problem whose text names an address.
  const config = { ...faultsConfig(), name: 'kitchen', access: { local: [] },
    relay: { url: `http://${ADDRESS}:9` }, model_store: { store_path: join(home, 'store') } }
  return await startNode(t, {
    home, config, env: { NODE_OPTIONS: `--import ${pathToFileURL(script).href}` }
  })
}

/** Ids of existing resources for the routes' path parameters. */
async function knownIds (node: TestNode): Promise<Record<string, string>> {
  const { instances, runners } = (await ask(node, '/state')).json as Record<string, Record<string, unknown>>
  const { devices } = (await ask(node, '/v1/devices')).json as { devices: { deviceId: string }[] }
  return {
    instance_id: Object.keys(instances!)[0]!, runner_id: Object.keys(runners!)[0]!, model_id: 'test/ok',
    node: node.nodeId, id: devices[0]!.deviceId
  }
}

/** The answer from a GET route: the whole body, or the beginning of a stream. */
async function said (node: TestNode, path: string, token: string | null): Promise<string> {
  const response = await open(node, path, { token })
  let text = JSON.stringify(response.headers)
  const ended = new Promise<void>((resolve) => {
    response.on('data', (part: Buffer) => {
      text += part.toString()
      if (/event-stream/.test(response.headers['content-type'] ?? '') || text.length > 1e6) resolve()
    })
    response.on('close', resolve).on('error', resolve)
  })
  await ended
  response.destroy()
  return text
}

/** All of the state replica that this token may read. */
async function replica (t: Test, { url }: TestNode, token: string): Promise<string> {
  const doc = new Doc()
  const provider = new WebsocketProvider(`${url.replace('http', 'ws')}/state`, 'sync', doc, {
    disableBc: true, protocols: ['svc', `svc.bearer.${token}`],
    WebSocketPolyfill: WebSocket as unknown as typeof globalThis.WebSocket
  })
  t.teardown(() => { provider.destroy(); doc.destroy() })
  await until('the state comes', () => provider.synced && doc.getArray('entries').length > 0)
  provider.disconnect()
  return JSON.stringify(doc.getArray('entries').toJSON())
}

t.test('no GET route names hosts, addresses, folders or devices to callers below `operator`', async (t) => {
  const node = await disguised(t)
  await pairAt(t, node, '--name', DEVICE, '--authorities', 'read')
  const canaries = [HOST, ADDRESS, 'canary-home', DEVICE]
  const shown = await until('the node reports itself', async () => {
    const { text } = await ask(node, '/state')
    return canaries.slice(0, 1).every((one) => !text.includes(one)) && text.includes(ADDRESS) && text
  })
  const devices = (await ask(node, '/v1/devices')).text
  const health = (await ask(node, '/node/identity')).text + (await ask(node, '/store/health')).text
  for (const one of canaries) t.match(`${shown}${devices}${health}`, one, `an operator sees ${one}`)
  const ids = await knownIds(node)
  const routes = (await routesOf(node)).filter(({ method, path }) => method === 'GET' && path !== SESSION)
  t.ok(routes.length > 50, `${routes.length} routes`)
  const token = await tokenWith(node, ['read'])
  const check = (what: string, text: string): void => {
    for (const one of canaries) t.notOk(text.includes(one), `${what}: ${one}`)
  }
  for (const { path } of routes) {
    const query = path === '/instance/await' ? '?model_id=test/ok&timeout_seconds=1'
      : ['/instance/previews', '/instance/placement'].includes(path) ? '?model_id=test/ok' : ''
    const concrete = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? 'nothing') + query
    for (const [who, shown] of [['read', token], ['nobody', null]] as const) {
      check(`GET ${concrete} as ${who}`, await said(node, concrete, shown))
    }
  }
  for (const path of ['/state?follow=1', '/readyz?model=test/ok']) {
    check(`${path} as read`, await said(node, path, token))
  }
  check('/state/sync as read', await replica(t, node, token))
  const asked = await ask(node, '/v1/steward/ask', { token,
    body: { question: 'Which addresses, folders and host names does this cluster have?' } })
  check('POST /v1/steward/ask as read', asked.text)
  const ready = (await ask(node, '/readyz', { token: null })).json as { checks: { detail: string }[] }
  t.ok(ready.checks.length > 0 && ready.checks.every(({ detail }) => detail === ''), 'names of checks only')
})
