import { createServer, type RequestListener, type Server } from 'node:http'
import { once } from 'node:events'
import t from 'tap'
import { WebSocket } from 'ws'
import { addressProblem, hostProblem, isOwnServer, type Trust } from '../net/addresses.js'
import { AddressRefused, outgoingAgent, outgoingDispatcher } from '../net/outgoing.js'
import type { AddressInfo } from 'node:net'

const publicOnes = ['8.8.8.8', '99.84.1.1', '172.32.0.1', '100.128.0.1', '2606:4700::1',
  '2a00:1450:4001::8a', '64:ff9b::808:808']
/** Addresses in local networks; only hosts named in svc.yaml may resolve to them. */
const localOnes = ['0.0.0.0', '0.1.2.3', '10.1.2.3', '100.64.0.1', '100.127.255.255', '127.0.0.1',
  '127.255.255.254', '172.16.0.1', '172.31.255.255', '192.0.0.1', '192.0.2.1', '192.168.1.1', '198.18.0.1',
  '198.51.100.7', '203.0.113.9', '240.0.0.1', '::', '::1', '::ffff:127.0.0.1', '::ffff:8.8.8.8',
  '::ffff:7f00:1', '::7f00:1', '64:ff9b::7f00:1', '64:ff9b:1::a00:1', '::ffff:0:10.0.0.1', 'fc00::1',
  'fd12:3456::1', '2001:db8::1', '3fff::1']
const neverOnes = ['169.254.169.254', '169.254.1.2', 'fe80::1', 'fe80::1%eth0', 'fd00:ec2::254',
  '100.100.100.200', '168.63.129.16', '::ffff:169.254.169.254', '::ffff:a9fe:a9fe', '64:ff9b::a9fe:a9fe',
  '64:ff9b::169.254.169.254', '64:ff9b:1::6464:64c8', '::a9fe:a9fe', '2002:a9fe:a9fe::', '2001::1',
  '224.0.0.1', 'ff02::1', '255.255.255.255', '', 'x', 'localhost', '1.2.3', '0x7f.1']
const judged = (['public', 'named'] as const).flatMap((trust) => [
  ...publicOnes.map((address) => [address, trust, true] as const),
  ...localOnes.map((address) => [address, trust, trust === 'named'] as const),
  ...neverOnes.map((address) => [address, trust, false] as const)
])
for (const [address, trust, fine] of judged) {
  t.equal(addressProblem(address, trust) === null, fine, `${trust} ${address}`)
}
const names: [host: string, named: boolean, anybody: boolean][] = [
  ['example.org', true, true], ['8.8.8.8', true, true], ['localhost', true, false], ['nas', true, false],
  ['nas.local', true, false], ['x.LOCALHOST.', true, false], ['[::1]', true, false],
  ['127.0.0.1', true, false],
  ['metadata.google.internal', false, false], ['METADATA.google.internal.', false, false],
  ['metadata', false, false], ['169.254.169.254', false, false], ['[::ffff:a9fe:a9fe]', false, false],
  // The URL parser has already normalised other spellings of an address.
  [new URL('http://2852039166/').hostname, false, false],
  [new URL('http://0251.0376.0xa9fe/').hostname, false, false],
  [new URL('http://0177.1/').hostname, true, false], [new URL('http://2130706433/').hostname, true, false]
]
for (const [host, named, anybody] of names) {
  t.equal(hostProblem(host, 'named') === null, named, `named ${host}`)
  t.equal(hostProblem(host, 'public') === null, anybody, `public ${host}`)
}

async function serve (
  t: { teardown (fn: () => void): void }, listener: RequestListener, mark = (server: Server) => server
): Promise<number> {
  const server = mark(createServer(listener))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close().closeAllConnections() })
  return (server.address() as AddressInfo).port
}

/** Sends a request with fake name resolution; each lookup of a name returns its next answer. */
async function ask (
  t: { teardown (fn: () => void): void }, url: string, trust: Trust, answers: Record<string, string[][]> = {}
): Promise<string> {
  const dispatcher = await outgoingDispatcher(trust, {
    lookup: async (name) => (answers[name]?.shift() ?? [])
      .map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
  })
  t.teardown(() => { void dispatcher.destroy() })
  const { origin, pathname } = new URL(url)
  try {
    const { body } = await dispatcher.request({ origin, path: pathname, method: 'GET' })
    return await body.text()
  } catch (error) {
    return error instanceof AddressRefused ? `refused: ${error.why}` : (error as Error).message
  }
}

t.test('the address that was checked is the one that is connected to', async (t) => {
  let asked = 0
  const port = await serve(t, (_request, response) => { asked++; response.end('here') })
  const at = (host: string): string => `http://${host}:${port}/`
  t.equal(await ask(t, at('named.example'), 'named', { 'named.example': [['127.0.0.1']] }), 'here')
  t.equal(await ask(t, at('127.0.0.1'), 'named'), 'here')
  t.equal(await ask(t, at('mixed.example'), 'named', { 'mixed.example': [['fe80::1', '127.0.0.1']] }), 'here',
    'a link-local address beside a good one is passed over')
  t.equal(asked, 3)
  const refused: [url: string, trust: Trust, answers: Record<string, string[][]>, why: RegExp][] = [
    [at('127.0.0.1'), 'public', {}, /127\.0\.0\.1 is not a public address/],
    [at('[::ffff:127.0.0.1]'), 'public', {}, /is not a public address/],
    [at('2130706433'), 'public', {}, /127\.0\.0\.1 is not/],
    [at('localhost'), 'public', {}, /local network/],
    [at('cdn.example'), 'public', { 'cdn.example': [['8.8.8.8', '192.168.0.1']] }, /192\.168\.0\.1 is not/],
    // DNS rebinding: a name that resolves to a public address first, then to this machine.
    [at('rebind.example'), 'public', { 'rebind.example': [['127.0.0.1'], ['8.8.8.8']] },
      /127\.0\.0\.1 is not/],
    [at('imds.example'), 'named', { 'imds.example': [['169.254.169.254']] }, /link-local/],
    [at('169.254.169.254'), 'named', {}, /link-local/],
    [at('metadata.google.internal'), 'named', { 'metadata.google.internal': [['127.0.0.1']] }, /metadata/]
  ]
  for (const [url, trust, answers, why] of refused) {
    t.match(await ask(t, url, trust, answers), why, `${trust} ${url}`)
  }
  t.match(await ask(t, at('none.example'), 'named'), /none\.example has no address/)
  t.equal(asked, 3, 'nothing else was asked')
})

t.test('the ports of this process are never connected to', async (t) => {
  const port = await serve(t, (_request, response) => { response.end('itself') }, isOwnServer)
  for (const host of ['127.0.0.1', 'localhost', '0.0.0.0', '[::ffff:127.0.0.1]']) {
    t.match(await ask(t, `http://${host}:${port}/`, 'named', { localhost: [['127.0.0.1']] }),
      /is this node itself/, host)
  }
})

t.test('an agent for requests and WebSockets checks the same', async (t) => {
  const port = await serve(t, (_request, response) => { response.end() })
  const why = async (host: string, trust: Trust): Promise<string> => {
    const url = `ws://${host}:${port}/`
    const ws = new WebSocket(url, { agent: outgoingAgent(url, trust) })
    const [error] = await once(ws, 'error') as [Error]
    return error.message
  }
  t.match(await why('127.0.0.1', 'named'), /Unexpected server response: 200/)
  t.match(await why('localhost', 'public'), /local network/)
  t.match(await why('127.0.0.1', 'public'), /not a public address/)
  t.match(await why('169.254.169.254', 'named'), /link-local/)
})

t.test('behind HTTPS_PROXY the name is checked, and the proxy resolves it', async (t) => {
  const asked: string[] = []
  const proxy = createServer()
  proxy.on('connect', (request, socket) => {
    asked.push(request.url!)
    socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n')
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => { proxy.close().closeAllConnections() })
  const before = process.env['HTTPS_PROXY']
  process.env['HTTPS_PROXY'] = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
  t.teardown(() => {
    if (before === undefined) delete process.env['HTTPS_PROXY']
    else process.env['HTTPS_PROXY'] = before
  })
  t.match(await ask(t, 'https://hub.example/', 'public'), /Proxy response \(502\)/)
  for (const host of ['169.254.169.254', 'localhost', '10.0.0.1', '[::1]', 'metadata.google.internal']) {
    t.match(await ask(t, `https://${host}/`, 'public'), /^refused/, host)
  }
  t.match(await ask(t, 'https://metadata.google.internal/', 'named'), /^refused/)
  t.same(asked, ['hub.example:443'])
})
