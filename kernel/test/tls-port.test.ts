import { readFileSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { createServer, request, type Server } from 'node:https'
import { connect, createServer as createTcp, type AddressInfo, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import t, { type Test } from 'tap'
import { ownIdentity } from '../boot/api-tls.js'
import * as x509 from '../http/tls/x509.js'
import { pinOf } from '../http/tls/pin.js'
import { answerInClear, isTls, plainEvent, showIdentity, tlsOf } from '../http/tls/port.js'
import { tempHome } from '../../plugins/cluster/test/identity-kit.js'

interface Rig { port: number, server: Server, ca: string, seen: string[], show: () => string }

/** Starts a TLS server that records its requests. */
async function start (t: Test): Promise<Rig> {
  const home = tempHome(t)
  const source = ownIdentity({ x509, home, installId: 'i', names: () => ['localhost'], now: Date.now })
  const seen: string[] = []
  const server = createServer(tlsOf(source.next()!), (asked, response) => {
    seen.push(`${asked.method} ${asked.url}`)
    asked.resume().on('end', () => { response.end('secret') })
  })
  answerInClear(server, (host) => host === 'attic:7')
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.close(); server.closeAllConnections() })
  return {
    seen, server, port: (server.address() as AddressInfo).port, ca: readFileSync(source.authority!, 'utf8'),
    show: () => {
      const other = ownIdentity({
        x509, home: tempHome(t), installId: 'j', names: () => ['localhost'], now: Date.now
      }).next()!
      showIdentity(server, other)
      return other.fingerprint
    }
  }
}

/** Sends plain bytes to a TLS port and returns the complete answer. */
async function inClear (port: number, ...parts: (string | Buffer)[]): Promise<string> {
  const socket: Socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', (bytes) => { text += String(bytes) }).on('error', () => {})
  const over = new Promise<string>((resolve) => { socket.on('close', () => { resolve(text) }) })
  for (const part of parts) {
    socket.write(part)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return await over
}

t.test('over TLS requests and bodies come through', async (t) => {
  const { port, ca, seen } = await start(t)
  const asked = (body: Buffer): Promise<string> => new Promise((resolve, reject) => {
    const to = { port, host: '127.0.0.1', servername: 'localhost', ca, method: 'POST', path: '/a' }
    request({ ...to, agent: false }, (response) => {
      response.on('data', (text) => { resolve(String(text)) })
    }).on('error', reject).end(body)
  })
  t.same(await Promise.all([asked(Buffer.alloc(0)), asked(Buffer.alloc(3_000_000)), asked(Buffer.alloc(9))]),
    ['secret', 'secret', 'secret'])
  t.same(seen, ['POST /a', 'POST /a', 'POST /a'])
})

interface Row { title: string, parts: (string | Buffer)[], says: RegExp }

const rows: Row[] = [
  { title: 'a program',
    parts: ['GET /state HTTP/1.1\r\nHost: attic:7\r\nAuthorization: Bearer svc_x\r\n\r\n'],
    says: /^HTTP\/1\.1 400 [^]*connection: close[^]*use https:\/\/attic:7"[^]*"reason":"tls_required"/ },
  { title: 'byte by byte', parts: [...'GET / HTTP/1.1\r\nHost: a\r\n\r\n'],
    says: /^HTTP\/1\.1 400 [^]*tls_required/ },
  { title: 'a browser', parts: ['GET /x?y=1 HTTP/1.1\r\nHost: attic:7\r\nAccept: text/html,*/*\r\n\r\n'],
    says: /^HTTP\/1\.1 307 [^]*location: https:\/\/attic:7\/x\?y=1\r\n/ },
  { title: 'a browser that sends a form', parts: ['POST / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n' +
    'Content-Length: 2\r\n\r\nhi'], says: /^HTTP\/1\.1 400 / },
  { title: 'a name that is none', parts: ['GET / HTTP/1.1\r\nHost: a"b\r\nAccept: text/html\r\n\r\n'],
    says: /^HTTP\/1\.1 400 [^]*https:\/\/HOST:PORT/ },
  { title: 'a browser under a name that is not served',
    parts: ['GET /x HTTP/1.1\r\nHost: evil.example\r\nAccept: text/html\r\n\r\n'],
    says: /^HTTP\/1\.1 400 (?![^]*evil)[^]*https:\/\/HOST:PORT/ },
  { title: 'another target', parts: ['GET http://evil/ HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n'],
    says: /^HTTP\/1\.1 400 / },
  { title: 'an upgrade', parts: ['GET /state/sync HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n' +
    'Upgrade: websocket\r\n\r\n'], says: /^HTTP\/1\.1 400 [^]*tls_required/ },
  { title: 'no HTTP', parts: ['hello there\r\n\r\n'], says: /^HTTP\/1\.1 400 / },
  { title: 'a handshake that is none', parts: [Buffer.from([0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5])],
    says: /^[^H]*$/ }
]

t.test('in clear everybody hears why not, and nothing goes further', async (t) => {
  const { port, seen } = await start(t)
  for (const { title, parts, says } of rows) t.match(await inClear(port, ...parts), says, title)
  t.same(seen, [])
})

t.test('a silent connection that ends is let go', async (t) => {
  const { port, ca } = await start(t)
  const silent = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  await new Promise((resolve) => silent.on('connect', resolve))
  silent.end()
  await new Promise((resolve) => silent.on('close', resolve).resume())
  const good = connectTls({ port, host: '127.0.0.1', servername: 'localhost', ca })
  await new Promise((resolve) => good.on('secureConnect', resolve))
  t.equal(good.authorized, true, 'the next one is served')
  good.destroy()
})

t.test('another identity is shown from the next connection on', async (t) => {
  const { port, show } = await start(t)
  const fingerprint = show()
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
  await new Promise((resolve) => socket.on('secureConnect', resolve))
  t.equal(pinOf(socket.getPeerX509Certificate()!), fingerprint)
  socket.destroy()
  const plain = createHttp()
  t.same([isTls(plain), plainEvent(plain)], [false, 'connection'])
})

t.test('a connection that is plain by the way it came is served as one', async (t) => {
  const { server } = await start(t)
  const way = createTcp((socket) => { server.emit(plainEvent(server), socket) })
  await new Promise<void>((resolve) => { way.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { way.close() })
  const { port } = way.address() as AddressInfo
  t.match(await inClear(port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'), /secret/)
})

t.test('TLS before 1.2 is refused', async (t) => {
  const { port, ca } = await start(t)
  const old = connectTls({
    port, host: '127.0.0.1', servername: 'localhost', ca, minVersion: 'TLSv1', maxVersion: 'TLSv1.1',
    ciphers: 'DEFAULT@SECLEVEL=0'
  })
  t.match(await new Promise((resolve) => {
    old.on('error', ({ code }: NodeJS.ErrnoException) => { resolve(code) })
      .on('secureConnect', () => { resolve('connected') })
  }), /ERR_SSL|ECONNRESET/)
})

t.test('what a handshake may cost is bounded: groups and suites that are offered', async (t) => {
  const { port, ca, show } = await start(t)
  const tried = async (more: ConnectionOptions): Promise<string> => await new Promise((resolve) => {
    const socket = connectTls({ port, host: '127.0.0.1', servername: 'localhost', ca, ...more })
    socket.on('error', () => { resolve('refused') }).on('secureConnect', () => {
      const { name = '' } = socket.getEphemeralKeyInfo() as { name?: string }
      resolve(`${socket.getCipher().name} ${name}`)
      socket.destroy()
    })
  })
  const old = { maxVersion: 'TLSv1.2' } as const
  const rows: [ConnectionOptions, RegExp][] = [
    [{ ecdhCurve: 'ffdhe8192' }, /^refused$/], [{ ecdhCurve: 'ffdhe2048:P-521' }, /^refused$/],
    [{ ecdhCurve: 'X25519' }, /^TLS_.* X25519$/], [{ ecdhCurve: 'P-384' }, /^TLS_.* secp384r1$/],
    [old, /^ECDHE-.*GCM/], [{ ...old, ciphers: 'ECDHE-ECDSA-AES128-SHA256' }, /^refused$/],
    [{ ...old, ciphers: 'ECDHE-ECDSA-AES256-SHA' }, /^refused$/],
    [{ ...old, ciphers: 'ECDHE-ECDSA-AES128-CCM8' }, /^refused$/], [{ ...old, ciphers: 'DHE' }, /^refused$/]
  ]
  for (const [more, says] of rows) t.match(await tried(more), says, JSON.stringify(more))
  show()
  for (const [more, says] of rows.slice(0, 2)) {
    t.match(await tried({ ...more, rejectUnauthorized: false }), says, 'also with another identity')
  }
})
