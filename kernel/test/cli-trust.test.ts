import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer as plain } from 'node:http'
import { createServer } from 'node:https'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { WebSocketServer } from 'ws'
import { createClient } from '../cli/client.js'
import {
  addKnownNode, forgetKnownNodes, knownNodesFile, placeOf, readKnownNodes
} from '../cli/known-nodes.js'
import { verifyPeer, type PresentedIdentity, type TrustOptions } from '../cli/trust.js'
import { ownIdentity } from '../boot/api-tls.js'
import * as x509 from '../http/tls/x509.js'
import { tlsOf } from '../http/tls/port.js'
import { tempHome } from '../../plugins/cluster/test/identity-kit.js'
import type { AddressInfo } from 'node:net'

const PIN = `sha256//${'A'.repeat(43)}=`
const OTHER = `sha256//${'B'.repeat(43)}=`
const at = new URL('https://Attic.lan:52415/')

interface Row {
  title: string
  shown?: Partial<PresentedIdentity>
  options?: Omit<TrustOptions, 'home'>
  known?: string
  /** Expected error message; undefined if the node is trusted. */
  says?: RegExp
  /** Expected contents of the known nodes file afterwards. */
  kept?: string[]
}

const rows: Row[] = [
  { title: 'the node of this home', options: { own: PIN } },
  { title: 'the node of this home, with another key', options: { own: OTHER },
    says: /expected sha256\/\/B.*\n.*A/ },
  { title: 'a good certificate', shown: { problem: null } },
  { title: 'nobody to ask', says: /certificate is not trusted.*SELF_SIGNED[^]*--fingerprint sha256\/\/A/ },
  { title: 'asked, yes', options: { ask: async () => true }, kept: [PIN] },
  { title: 'asked, no', options: { ask: async () => false }, says: /nothing was sent/ },
  { title: 'the fingerprint was given', options: { given: 'A'.repeat(43) }, kept: [PIN] },
  { title: 'another was given', options: { given: OTHER, ask: async () => true },
    says: /expected sha256\/\/B/ },
  { title: 'another was given, with a good certificate', options: { given: OTHER }, shown: { problem: null },
    says: /expected sha256\/\/B/ },
  { title: 'no fingerprint was given', options: { given: 'x' }, says: /expected sha256\/\/ and 44 / },
  { title: 'known', known: `attic.lan:52415 ${PIN}\n`, kept: [PIN] },
  { title: 'known at another port', known: `attic.lan:1 ${PIN}\n`, says: /is not trusted/, kept: [PIN] },
  { title: 'changed', known: `attic.lan:52415 ${OTHER}\n`, kept: [OTHER], options: { ask: async () => true },
    says: /HAS CHANGED[^]*known sha256\/\/B[^]*found sha256\/\/A[^]*svc known rm attic\.lan:52415/ },
  { title: 'changed, and given', known: `attic.lan:52415 ${OTHER}\n`, kept: [OTHER], options: { given: PIN },
    says: /HAS CHANGED/ },
  { title: 'changed, with a good certificate', known: `attic.lan:52415 ${OTHER}\n`, kept: [OTHER],
    shown: { problem: null }, says: /HAS CHANGED/ },
  { title: 'a line that cannot be read', known: 'attic.lan:52415 sha256//AAA\n', shown: { problem: null },
    says: /known-nodes, line 1.*svc known rm attic\.lan:52415/ }
]

t.test('who is believed', async (t) => {
  for (const { title, shown = {}, options = {}, known, says, kept = [] } of rows) {
    const home = join(tempHome(t), 'new')
    if (known !== undefined) {
      mkdirSync(home)
      writeFileSync(knownNodesFile(home), known)
    }
    const seen: PresentedIdentity = { fingerprint: PIN, problem: 'SELF_SIGNED_CERT_IN_CHAIN', ...shown }
    const judged = verifyPeer(at, seen, { home, ...options })
    if (says === undefined) await t.resolves(judged, title)
    else await t.rejects(judged, { message: says }, title)
    if (known?.includes('AAA\n') === true) continue
    t.same(readKnownNodes(home).map(({ fingerprint }) => fingerprint), kept, `${title}: what is known`)
  }
})

t.test('known nodes are kept, listed and forgotten', async (t) => {
  const home = join(tempHome(t), 'a', 'b')
  t.same(readKnownNodes(home), [])
  for (const [name, fingerprint] of [['a:1', PIN], ['a:2', OTHER], ['[::1]:1', PIN]] as const) {
    addKnownNode(home, { at: name, fingerprint })
  }
  t.equal(statSync(knownNodesFile(home)).mode & 0o777, 0o600)
  t.equal(readKnownNodes(home).length, 3)
  t.same(forgetKnownNodes(home, 'b'), [])
  t.same(forgetKnownNodes(home, 'A:2'), [{ at: 'a:2', fingerprint: OTHER }])
  t.equal(forgetKnownNodes(home, 'a').length, 1)
  t.equal(readFileSync(knownNodesFile(home), 'utf8'), `[::1]:1 ${PIN}\n`)
  t.equal(statSync(knownNodesFile(home)).mode & 0o777, 0o600)
  t.equal(forgetKnownNodes(home, '[::1]').length, 1)
  t.equal(placeOf(new URL('https://A.example/x')), 'a.example:443')
  t.equal(placeOf(new URL('https://[::1]:8/')), '[::1]:8')
})

/** Starts a fake TLS API that records requests with their tokens. */
async function start (t: Test): Promise<{ url: string, pin: string, heard: string[] }> {
  const identity = ownIdentity({
    x509, home: tempHome(t), installId: 'i', names: () => ['127.0.0.1'], now: Date.now
  }).next()!
  const heard: string[] = []
  const server = createServer(tlsOf(identity), (asked, response) => {
    heard.push(`${asked.url} ${asked.headers.authorization}`)
    response.end('{"fine":true}')
  })
  server.on('secureConnection', (socket) => { socket.on('data', () => {}) })
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket, { url, headers }) => {
    heard.push(`${url} ${headers.authorization}`)
    socket.close(1011, 'enough')
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { sockets.close(); server.close(); server.closeAllConnections() })
  return {
    heard, pin: identity.fingerprint, url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  }
}

t.test('nothing is sent before the key is found good, by requests and by sockets', async (t) => {
  const { url, pin, heard } = await start(t)
  const home = tempHome(t)
  const { signal } = new AbortController()
  const client = (trust: Omit<TrustOptions, 'home'>): ReturnType<typeof createClient> =>
    createClient({ url, token: 'tok', signal, trust: { home, ...trust } })
  for (const trust of [{}, { given: OTHER }, { own: OTHER }]) {
    await t.rejects(client(trust).json('/state'), { message: /sha256/, exitCode: 1 })
    await t.rejects(client(trust).open('/state?follow=1'), { message: /sha256/, exitCode: 1 })
  }
  t.same(heard, [])
  let questions = 0
  const asking = client({ ask: async (question) => {
    questions++
    t.match(question, new RegExp(pin.replace(/[+/]/g, '\\$&')))
    return true
  } })
  t.same(await Promise.all([1, 2, 3].map(() => asking.json('/state'))), Array(3).fill({ fine: true }))
  t.equal(questions, 1, 'one question for all connections')
  t.equal((await asking.agent())!.fingerprint, pin)
  await client({}).open('/state?follow=1')
  t.match(heard.at(-1), /^\/state\?follow=1 Bearer tok$/, 'known from then on')
  t.equal(readKnownNodes(home).length, 1)
})

t.test('a port without TLS is named as one', async (t) => {
  const server = plain((_request, response) => { response.end() })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.close(); server.closeAllConnections() })
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { signal } = new AbortController()
  const client = createClient({ url, token: 'tok', signal, trust: { home: tempHome(t) } })
  await t.rejects(client.json('/state'), { exitCode: 7, message: /the server does not speak TLS/ })
})
