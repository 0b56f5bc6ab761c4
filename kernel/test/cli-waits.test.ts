// Checks that every wait of the command line ends with a result or a message about the state.
import { createServer, type RequestListener } from 'node:http'
import t, { type Test } from 'tap'
import { createClient } from '../cli/client.js'
import { stallDetector, NO_PROGRESS_MS } from '../cli/waiting.js'
import { cli, sendError, sendJson, standIn } from './cli-helpers.js'
import type { AddressInfo } from 'node:net'

async function clientOf (t: Test, handler: RequestListener): Promise<ReturnType<typeof createClient>> {
  const server = createServer(handler).listen(0, '127.0.0.1')
  await new Promise((resolve) => { server.once('listening', resolve) })
  t.teardown(() => { server.closeAllConnections(); server.close() })
  return createClient({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: undefined,
    signal: new AbortController().signal, trust: { home: '/nowhere', own: undefined }, quietMs: 50
  })
}

t.test('a node that stands still is given up, before its answer and in the middle of one', async (t) => {
  const silent = await clientOf(t, () => {})
  await t.rejects(silent.json('/state'), { exitCode: 7, message: /gives no sign of life; `svc doctor`/ })
  const halting = await clientOf(t, (request, response) => {
    if (request.url === '/healthz') return
    response.write('data')
  })
  const { bytes } = await halting.open('/events')
  await t.rejects((async () => { for await (const _ of bytes) { /* to its end */ } })(),
    { exitCode: 7, message: /no sign of life/ })
})

t.test('a slow answer of a node that is there is waited for', async (t) => {
  let asked = 0
  let late = (): void => {}
  const slow = await clientOf(t, (request, response) => {
    if (request.url === '/healthz') {
      response.end('{}')
      // Answers only after the client has checked several times that the node is alive.
      if (++asked === 3) late()
    } else late = () => { response.end('{"late":true}') }
  })
  t.same(await slow.json('/state'), { late: true })
  t.equal(asked, 3)
})

const identity = (name: string, install: string): object =>
  ({ friendlyName: name, svcVersion: '1', apiUrl: null, nodeInstallId: install })

t.test('svc restart waits for the next process of the node', async (t) => {
  let [restarted, looks, back] = [false, 0, true]
  const { url, asked } = await standIn(t, {
    'GET /state': (response) => {
      if (restarted && ++looks === 1) return sendError(response, 503, 'not_ready')
      const now = restarted && back && looks > 2 ? 'new' : 'old'
      sendJson(response, { localNodeId: 'me', nodeIdentities: { me: identity('here', 'i1'),
        [now]: identity('attic', 'i2') }, topology: { nodes: ['me', now] } })
    },
    'POST /admin/restart': (response, { url }) => {
      const node = new URL(url, 'http://x').searchParams.get('node_id')
      if (node === 'attik') return sendError(response, 404, 'node_not_found')
      restarted = true
      sendJson(response, { status: 'restarting', node_id: node === null ? 'me' : 'old' })
    }
  })
  const run = async (...words: string[]): ReturnType<typeof cli> =>
    await cli(['restart', ...words, '--url', url])
  t.match(await run('attic'), { status: 0, out: 'attic is back, as new\n', err: /attic restarts as soon as/ })
  t.equal(asked.find(({ method }) => method === 'POST')!.url, '/admin/restart?node_id=attic')
  restarted = false
  t.match(await run('--no-wait', '--json'), { status: 0, out: '{"status":"restarting","node_id":"me"}\n' })
  t.match(await run('attik'), { status: 3, err: /node_not_found/ })
  ;[restarted, looks, back] = [false, 0, false]
  t.match(await run('attic', '--wait=1'), { status: 4, err: /attic has not come back within 1 s; its log/ })
  const stop = new AbortController()
  restarted = false
  const cut = cli(['restart', 'attic', '--url', url], { signal: stop.signal })
  while (!restarted) await new Promise((resolve) => setImmediate(resolve))
  stop.abort()
  t.match(await cut, { status: 130, err: /restarts all the same|interrupted/ })
})

t.test('a wait that shows the same again and again makes no progress', (t) => {
  let now = 0
  const isStill = stallDetector({ mono: () => now })
  for (const text of ['waits', 'copying', 'waits', 'copying']) {
    t.notOk(isStill(text))
    now += NO_PROGRESS_MS / 4
  }
  t.notOk(isStill('waits'))
  now += NO_PROGRESS_MS / 4
  t.ok(isStill('copying'))
  t.notOk(isStill('ready'))
  t.end()
})
