import t from 'tap'
import { WebSocket } from 'ws'
import { coreCluster } from './core-kit.js'
import { kernelsOn, type NodeRig } from './core-rig.js'
import type { AddressInfo } from 'node:net'

const HOST = { host: '127.0.0.1:80' }

/** The responses to a page of this origin: to a fetch, to a CORS preflight, and to a WebSocket. */
async function visit ({ kernel, ask }: NodeRig, origin: string): Promise<Record<string, unknown>> {
  const { port } = kernel.app.server.address() as AddressInfo
  const fetched = await ask('GET', '/healthz', undefined, { origin })
  const closed = await ask('GET', '/state', undefined, { origin })
  const first = await ask('OPTIONS', '/place_instance', undefined, {
    origin, 'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type'
  })
  const socket = new WebSocket(`ws://127.0.0.1:${port}/state/sync`, { origin, headers: HOST })
  const upgraded = await new Promise((resolve) => {
    socket.on('open', () => { resolve(101) }).on('error', () => {})
    socket.on('unexpected-response', (_, { statusCode }) => { resolve(statusCode) })
  })
  socket.terminate()
  const allowed = [fetched, closed, first]
    .map(({ headers }) => headers['access-control-allow-origin'] ?? null)
  const credentials = [fetched, first].some(({ headers }) => 'access-control-allow-credentials' in headers)
  return {
    fetched: fetched.statusCode, closed: closed.statusCode, first: first.statusCode, upgraded,
    allowed: [...new Set(allowed)], credentials
  }
}

t.test('pages of members may call each other; those of a removed one and all others may not', async (t) => {
  const c = await coreCluster(t, { nodes: 3 })
  const rigs = await kernelsOn(t, c, {
    own: ({ name }) => ({ url: () => name === 'n3' ? 'http://127.0.0.1:81' : `http://${name}:80` })
  })
  const [one, two] = rigs as [NodeRig, NodeRig, NodeRig]
  await one.kernel.app.listen({ host: '127.0.0.1', port: 0 })
  await c.until('the others have told where their APIs are', () =>
    [...one.node.core.replicas.entries()].filter(({ key }) => key === 'node/identity').length === 3)
  const refused =
    { fetched: 403, closed: 403, first: 403, upgraded: 403, allowed: [null], credentials: false }
  // Loopback gives no authority to a page that came from another machine.
  const there = { fetched: 200, closed: 401, first: 204, upgraded: 401, credentials: false }
  const live = await visit(one, 'http://n2')
  t.strictSame(live, { ...there, allowed: ['http://n2'] }, 'a member')
  const others = ['http://n2:81', 'https://n2', 'http://n4', 'https://evil.example', 'null',
    'http://n2.evil',
    // A loopback origin with the port of a member on another machine.
    'http://127.0.0.1:81']
  for (const origin of others) t.strictSame(await visit(one, origin), refused, origin)
  const own = await one.ask('GET', '/state', undefined, { origin: 'http://127.0.0.1' })
  t.equal(own.statusCode, 200, 'the own page keeps its rights')
  t.equal(own.headers['access-control-allow-origin'], undefined)
  const wrong = await one.ask('GET', '/state', undefined,
    { origin: 'http://n2', authorization: 'Bearer svc_app_x' })
  t.equal(wrong.statusCode, 401)
  t.equal(wrong.headers['access-control-allow-origin'], 'http://n2', 'a page can read why it is refused')
  t.match(wrong.headers['access-control-expose-headers'], 'retry-after')
  for (const method of ['GET', 'OPTIONS']) {
    const rebound = { origin: 'http://n2', host: 'evil.example', 'access-control-request-method': 'GET' }
    const answer = await one.ask(method, '/healthz', undefined, rebound)
    t.equal(answer.statusCode, 421, 'the Host counts all the same')
  }

  c.kill(two.node)
  await c.until('it is missed', () =>
    !one.node.core.directory.nodes().some(({ name, live }) => name === 'n2' && live))
  t.strictSame(await visit(one, 'http://n2'), live, 'a member that is gone is still one')
  await c.settled(one.node.core.membership.remove(two.node.installId))
  t.strictSame(await visit(one, 'http://n2'), refused, 'a removed one is none, at once')
})

t.test('a node that is alone knows no other pages', async (t) => {
  const c = await coreCluster(t, { nodes: 1 })
  const [one] = await kernelsOn(t, c)
  await one!.kernel.app.listen({ host: '127.0.0.1', port: 0 })
  t.match(await visit(one!, 'http://n1'), { fetched: 403, first: 403, upgraded: 403, allowed: [null] })
  const plain = await one!.ask('OPTIONS', '/healthz')
  t.match(plain.json(), { error: { reason: 'method_not_allowed' } })
})
