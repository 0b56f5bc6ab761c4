/** A proxy between a client and a node, which records the requests and answers; the report of a client. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSocket, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { root, until } from '../node/kit.js'
import { check } from './published.js'
import type { Test } from 'tap'

/**
 * A request of a client with its headers `asked`, and svc's answer. `ended` is undefined until the answer or
 * the client ended it.
 */
export interface Exchange {
  method: string, path: string, asked: IncomingMessage['headers'], sent: string
  status?: number, headers?: IncomingMessage['headers'], got: string
  ended?: 'answered' | 'client left'
}

export interface Recorder {
  url: string
  exchanges: Exchange[]
  /** Withholds the rest of chats that start from now on, after their first words, until the client leaves. */
  hold (on: boolean): void
}

/** Passes requests on to the node and records them. */
export async function recorder (t: Test, { url }: { url: string }): Promise<Recorder> {
  const target = new URL(url)
  const exchanges: Exchange[] = []
  let holds = false
  const pass = (from: IncomingMessage, to: ServerResponse): void => {
    const exchange: Exchange =
      { method: from.method ?? '', path: from.url ?? '', asked: from.headers, sent: '', got: '' }
    // A character may be divided between two chunks.
    const [sent, got] = [new StringDecoder(), new StringDecoder()]
    exchanges.push(exchange)
    const onward = request({
      host: target.hostname, port: target.port, path: from.url, method: from.method,
      // Nodes serve only names that they know.
      headers: { ...from.headers, host: target.host }
    }, (answer) => {
      const { statusCode: status = 0, headers } = answer
      Object.assign(exchange, { status, headers })
      const held = holds && headers['content-type']?.startsWith('text/event-stream') === true
      to.writeHead(status, headers)
      answer.on('data', (bytes: Buffer) => {
        if (held && textOf(exchange) !== '') return
        exchange.got += got.write(bytes)
        to.write(bytes)
      })
      answer.on('end', () => {
        if (held) return
        exchange.ended = 'answered'
        to.end()
      })
    })
    onward.on('error', () => { to.destroy() })
    to.on('close', () => {
      exchange.ended ??= 'client left'
      onward.destroy()
    })
    from.on('data', (bytes: Buffer) => {
      exchange.sent += sent.write(bytes)
      onward.write(bytes)
    })
    from.on('end', () => { onward.end() })
  }
  const server = createServer(pass).listen(0, '127.0.0.1')
  t.teardown(() => { server.close(); server.closeAllConnections() })
  await until('the recorder', () => server.listening)
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, exchanges, hold: (on) => { holds = on } }
}

export async function freePort (): Promise<number> {
  const socket = createSocket().listen(0, '127.0.0.1')
  await until('a free port', () => socket.listening)
  const { port } = socket.address() as AddressInfo
  await new Promise((done) => socket.close(done))
  return port
}

/** The text of a streamed answer. */
export function textOf ({ got }: Exchange): string {
  const events = got.split('\n').filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as { choices: { delta: { content?: string } }[] })
  return events.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
}

/** An answer of 400 or more that is right for this client, with the reason. All others are faults. */
export interface Expected { path: string, status: number, sent: RegExp, got: RegExp, why: string }

/** A line of the table of clients in the documentation. `set` says what to set, with URL for the node's. */
export interface Client { client: string, version: string, set: string, works: string[] }

/**
 * Writes .tap/real/clients/CLIENT.json: the client, and svc's answers of 400 and more with their reasons.
 * Returns the answers that `expected` does not list, and what breaks the published schemas, where those are
 * available.
 */
export function reportClient (
  client: Client, exchanges: Exchange[], expected: Expected[] = []
): { unexpected: Exchange[], broken: string[] } {
  const errors = new Map<string, { path: string, status: number, why: string, count: number }>()
  const unexpected: Exchange[] = []
  for (const exchange of exchanges) {
    const { path: target, status = 0, sent, got } = exchange
    if (status < 400) continue
    const path = target.split('?')[0] ?? target
    const one = expected.find((one) =>
      one.path === path && one.status === status && one.sent.test(sent) && one.got.test(got))
    if (one === undefined) {
      unexpected.push(exchange)
      continue
    }
    const { why } = one
    const error = errors.get(`${path} ${status} ${why}`) ?? { path, status, why, count: 0 }
    errors.set(`${path} ${status} ${why}`, { ...error, count: error.count + 1 })
  }
  const broken = [...check(exchanges)?.broken.keys() ?? []]
  const folder = join(root, '.tap/real/clients')
  mkdirSync(folder, { recursive: true })
  const report = { ...client, date: new Date().toISOString().slice(0, 10), requests: exchanges.length,
    errors: [...errors.values()], faults: unexpected.length + broken.length }
  const name = client.client.toLowerCase().replace(/[^a-z0-9]+/g, '-')
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(report, null, 2)}\n`)
  return { unexpected, broken }
}
