/** Tests clients that leave a TLS API in different ways, and a node that closes while clients stay. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { HttpListener } from '../http/http-listener.js'
import { ownIdentity } from '../boot/api-tls.js'
import * as x509 from '../http/tls/x509.js'
import { tempHome } from '../../plugins/cluster/test/identity-kit.js'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { HttpLimits } from '../http/limits.js'

const limits: HttpLimits = {
  connections: 64, connectionsPerAddress: 64, streamsPerToken: 4, headersTimeoutMs: 60_000,
  requestTimeoutMs: 60_000, keepAliveMs: 60_000, handlerTimeoutMs: 60_000, bodyBytes: 1024,
  streamStallMs: 60_000
}

async function start (t: Test): Promise<{ front: HttpListener, port: number }> {
  const home = tempHome(t)
  const source = ownIdentity({ x509, home, installId: 'i', names: () => ['localhost'], now: Date.now })
  const front = new HttpListener(limits, { identity: source.next()! })
  const table = {
    routing: (request: IncomingMessage, response: ServerResponse) => {
      front.begins(request, response)
      setTimeout(() => { response.end('hi') }, 20)
    },
    close: async () => {}
  }
  front.swap(table as unknown as FastifyInstance)
  t.teardown(() => front.close())
  const { port } = new URL(await front.listen({ port: 0, host: '127.0.0.1' }))
  return { front, port: Number(port) }
}

const openOn = ({ server }: HttpListener): Promise<number> => new Promise((resolve, reject) => {
  server.getConnections((error, count) => { if (error === null) resolve(count); else reject(error) })
})

interface Client { raw: Socket, tls: TLSSocket }

/** A client that has finished its half of the TLS handshake. */
async function arrive (t: Test, port: number): Promise<Client> {
  const raw = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {})
  const tls = connectTls({ socket: raw, rejectUnauthorized: false }).on('error', () => {})
  t.teardown(() => { raw.destroy() })
  await once(tls, 'secureConnect')
  return { raw, tls }
}

/** Milliseconds, well below the 10 s that a handshake may take. */
const SOON_MS = 3000

const ways: [title: string, leave: (client: Client) => void][] = [
  ['says that it leaves', ({ tls }) => { tls.end() }],
  ['is gone before the node has seen the end of the handshake', ({ tls }) => { tls.destroy() }],
  ['ends the connection under TLS', ({ raw }) => { raw.end() }],
  ['leaves within a request', ({ tls }) => { tls.end('GET / HT') }],
  ['leaves within a request, without a word', ({ tls }) => { tls.write('GET / HT', () => tls.destroy()) }]
]

for (const [title, leave] of ways) {
  t.test(`a client that ${title} holds no place`, async (t) => {
    const { front, port } = await start(t)
    const clients = await Promise.all(Array.from({ length: 8 }, () => arrive(t, port)))
    for (const client of clients) leave(client)
    const end = Date.now() + SOON_MS
    while (await openOn(front) > 0 && Date.now() < end) {
      await new Promise((resolve) => { setTimeout(resolve, 5) })
    }
    t.equal(await openOn(front), 0)
  })
}

t.test('a client that leaves within its handshake holds no place', async (t) => {
  const { front, port } = await start(t)
  const raw = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {})
  t.teardown(() => { raw.destroy() })
  raw.end(Buffer.from([0x16, 3, 1, 0, 200, 1]))
  const end = Date.now() + SOON_MS
  await once(raw, 'connect')
  do await new Promise((resolve) => { setTimeout(resolve, 5) })
  while (await openOn(front) > 0 && Date.now() < end)
  t.equal(await openOn(front), 0)
})

t.test('one that ends its side after the request has its answer', async (t) => {
  const { port } = await start(t)
  const { tls } = await arrive(t, port)
  tls.end('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  t.match(await text(tls), /^HTTP\/1\.1 200 [^]*hi/)
})

t.test('a node that closes waits for no client that has said nothing', async (t) => {
  const { front, port } = await start(t)
  const silent = connect({ port, host: '127.0.0.1' }).on('error', () => {})
  const begun = connect({ port, host: '127.0.0.1' }).on('error', () => {})
  begun.write(Buffer.from([0x16, 3, 1, 0, 200, 1]))
  t.teardown(() => { silent.destroy(); begun.destroy() })
  await arrive(t, port)
  while (await openOn(front) < 3) await new Promise((resolve) => { setTimeout(resolve, 5) })
  const closed = await Promise.race([
    front.close().then(() => 'closed'),
    new Promise((resolve) => { setTimeout(resolve, SOON_MS, 'still waiting').unref() })
  ])
  t.equal(closed, 'closed')
})
