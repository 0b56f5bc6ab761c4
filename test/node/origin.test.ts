import t from 'tap'
import { request } from 'node:http'
import { WebSocket } from 'ws'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { quiet, startCluster } from './cluster-kit.js'
import { ask, dial, refusal } from './http.js'
import { faultsConfig, figure, folder, startNode, svc, until, writeConfig, type TestNode } from './kit.js'
import { SESSION } from './routes.js'

/** Sends a request with any Host header; the connection always goes to loopback. */
function hosted (node: TestNode, method: string, path: string, headers: Record<string,
  string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const req = request({ host: '127.0.0.1', port: node.port, method, path, headers, agent: false,
      setHost: false }, (res) => {
      res.resume()
      resolve(res.statusCode ?? 0)
    })
    req.on('upgrade', (_res, socket) => { socket.destroy(); resolve(101) })
    req.on('error', reject)
    req.end()
  })
}

t.test('the origin of a request', async (t) => {
  const outside = Object.values(networkInterfaces()).flat().find((i) => i?.family === 'IPv4' &&
    !i.internal)?.address
  const node = await startNode(t, { config: faultsConfig({ api: { allowed_hosts: ['svc.example'] } }) })
  const { port } = node

  t.test('T-A04: Host names, on every method and on WebSockets', async (t) => {
    const good = [`127.0.0.1:${port}`, '127.0.0.1', `localhost:${port}`, 'LOCALHOST', 'svc.example',
      `Svc.Example:${port}`, `[::1]:${port}`, '[::1]']
    const bad = ['evil.example', `evil.example:${port}`, 'localhost.evil', '[::2]', `[::2]:${port}`,
      '0.0.0.0', `0.0.0.0:${port}`,
      'localhost.', '127.0.0.1.', `127.0.0.1:${port + 1}`, '127.1', '2130706433', '0x7f000001', '127.0.0.2',
      'a@127.0.0.1',
      '127.0.0.1:evil', '', 'localhost:', 'svc.example.evil', '127.0.0.1, evil.example']
    const upgrade = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' }
    for (const [hosts, allowed] of [[good, true], [bad, false]] as const) {
      for (const host of hosts) {
        for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
          const status = await hosted(node, method, '/healthz', { host })
          t.equal(status !== 421, allowed, `${method} with Host "${host}": ${status}`)
        }
        const status = await hosted(node, 'GET', SESSION, { host, ...upgrade })
        t.equal(status, allowed ? 101 : 421, `WebSocket with Host "${host}"`)
        t.equal(await hosted(node, 'GET', '/no/such/route', { host }), allowed ? 404 : 421,
          'also where there is no route')
      }
    }
    const none = await dial(port)
    none.socket.write('GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n')
    await none.closed
    t.match(none.text(), /^HTTP\/1\.1 400 /, 'no Host at all')
    const old = await dial(port)
    old.socket.write('GET /healthz HTTP/1.0\r\n\r\n')
    await old.closed
    t.match(old.text(), /^HTTP\/1\.1 400 /, 'HTTP/1.0 without Host')
    const absolute = await dial(port)
    absolute.socket.write(['GET http://evil.example/healthz HTTP/1.1', 'host: evil.example',
      'connection: close', '', '']
      .join('\r\n'))
    await absolute.closed
    t.match(absolute.text(), /^HTTP\/1\.1 421 /, 'an absolute address does not help')
    figure(t, 'T-A04', t.passing(), { hosts: good.length + bad.length })
  })

  t.test('pages of other sites', async (t) => {
    const host = `127.0.0.1:${port}`
    for (const [headers, status] of [
      [{ origin: 'https://evil.example' }, 403], [{ origin: 'null' }, 403],
      [{ origin: `http://127.0.0.1:${port + 1}` }, 403],
      [{ 'sec-fetch-site': 'cross-site' }, 403], [{ 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' },
        403],
      [{ origin: `http://${host}` }, 200], [{ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' },
        200], [{ 'sec-fetch-site': 'none' }, 200]
    ] as const) t.equal(await hosted(node, 'GET', '/healthz', { host, ...headers }), status,
      JSON.stringify(headers))
    for (const method of ['POST', 'DELETE']) {
      t.equal(await hosted(node, method, '/v1/tokens', { host, 'sec-fetch-site': 'cross-site',
        'sec-fetch-mode': 'navigate' }), 403)
    }
    t.equal(await hosted(node, 'GET', SESSION, { host, origin: 'https://evil.example', connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' }), 403,
    'nor over a WebSocket')
  })

  t.test('T-A09: forwarded addresses are not believed',
    { skip: outside === undefined ? 'this machine has only loopback' : false }, async (t) => {
      const open = await startNode(t, { config: faultsConfig(), args: ['--host', '0.0.0.0'] })
      const claims = ['x-forwarded-for', 'x-real-ip', 'forwarded', 'x-client-ip', 'true-client-ip',
        'x-forwarded-host', 'via']
      for (const name of claims) {
        const value = name === 'forwarded' ? 'for=127.0.0.1' : '127.0.0.1'
        const away = await ask({ url: `http://${outside}:${open.port}` }, '/node_id',
          { headers: { [name]: value } })
        t.match([away.status, refusal(away)?.reason], [401, 'unauthenticated'], `${name} from outside`)
        const here = await ask(open, '/node_id', { token: null, headers: { [name]: '203.0.113.9' } })
        t.equal(here.status, 200, `${name} takes nothing away either`)
      }
      t.equal((await ask({ url: `http://${outside}:${open.port}`, token: open.token }, '/node_id')).status,
        200)
      t.equal((await ask({ url: `http://${outside}:${open.port}` }, '/healthz')).status, 200)
      figure(t, 'T-A09', t.passing(), { headers: claims.length })
    })

  t.test('T-A07: foreign origins are never granted access', async (t) => {
    const home = join(folder(t), 'home')
    writeConfig(home, { access: { remote: ['read'] } })
    for (const args of [['up', '--host', '0.0.0.0', '--port', '0'], ['up', '--port', '0'],
      ['config', 'check']]) {
      const { status, stderr, stdout } = await svc([...args, '--home', home])
      t.equal(status, 1, args.join(' '))
      t.match(stdout + stderr, /access\.remote: a remote request without a credential gets no authority/)
    }
    figure(t, 'T-A07', t.passing(), {})
  })
})

t.test('a page moves to another node when its own is gone, until that one is removed', async (t) => {
  const cluster = await startCluster(t, { nodes: 3, config: quiet })
  const [one, two] = cluster.members
  const [page, at] = [two!.node.url, one!.node]
  const visit = async (origin: string): Promise<unknown[]> => {
    const got = await ask(at, '/state', { token: null, headers: { origin } })
    const first = await ask(at, '/place_instance', { method: 'OPTIONS', token: null, headers: {
      origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization'
    } })
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/state/sync`, ['svc'], { origin })
    const upgraded = await new Promise((resolve) => {
      socket.on('open', () => { resolve(101) }).on('error', () => {})
      socket.on('unexpected-response', (_, { statusCode }) => { resolve(statusCode) })
    })
    socket.terminate()
    const allowed = [got, first].map(({ headers }) => headers['access-control-allow-origin'])
    return [got.status, first.status, upgraded, ...allowed]
  }
  const open = [200, 204, 101, page, page]
  const shut = [403, 403, 403, undefined, undefined]
  await until('the address of its node is known here', async () => isDeepStrictEqual(await visit(page), open))
  for (const other of [page.replace('127.0.0.1', 'localhost'), page.replace('http', 'https'), `${page}0`,
    'http://127.0.0.1', 'https://evil.example', 'null']) t.strictSame(await visit(other), shut, other)
  await two!.kill()
  await until('the node to be missed', async () => (await one!.state())?.cluster.liveNodes === 2)
  t.strictSame(await visit(page), open, 'its node is gone')
  const { members } = (await one!.ask('/cluster/members'))?.json as
    { members: { name: string, installId: string }[] }
  const { installId } = members.find(({ name }) => name === two!.name)!
  t.equal((await one!.ask(`/cluster/members/${installId}`, { method: 'DELETE' }))?.status, 200)
  t.strictSame(await visit(page), shut, 'its node was removed')
})
