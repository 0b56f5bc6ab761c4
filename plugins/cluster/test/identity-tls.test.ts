import { createServer } from 'node:net'
import { connect } from 'node:tls'
import t from 'tap'
import { joinBinding } from '../identity/join-tokens.js'
import { dial, peerFingerprint, type DialError, type DialOptions } from '../identity/tls.js'
import { systemClock } from '../../../kernel/api/clock.js'
import { manualClock } from '../../../kernel/testing/manual-clock.js'
import { listener, listening, tempKey } from './identity-kit.js'

type Dialled = Pick<DialOptions, 'key' | 'port' | 'expect'> & Partial<DialOptions>

const call = (options: Dialled): ReturnType<typeof dial> =>
  dial({ host: '127.0.0.1', timeoutMs: 20_000, clock: systemClock, ...options })

async function failing (options: Dialled): Promise<DialError> {
  return await call(options).then(
    (socket) => { socket.destroy(); throw new Error('the dial went through') },
    (error: unknown) => error as DialError)
}

t.test('both sides see the other\'s key, over TLS 1.3', async (t) => {
  const [here, there] = [await tempKey(t), await tempKey(t)]
  const server = await listener(t, there)
  const socket = await call({ key: here, port: server.port, expect: there.fingerprint })
  const accepted = await server.accepted()
  t.equal(peerFingerprint(socket), there.fingerprint)
  t.equal(peerFingerprint(socket), there.fingerprint, 'also when asked again')
  t.equal(peerFingerprint(accepted), here.fingerprint)
  t.equal(socket.getProtocol(), 'TLSv1.3')
  t.same(joinBinding(socket), joinBinding(accepted), 'the binding is the same at both ends')
  t.equal(joinBinding(socket).byteLength, 32)
  const second = await call({ key: here, port: server.port, expect: (found) => found === there.fingerprint })
  t.notSame(joinBinding(second), joinBinding(socket), 'and another on every connection')
  t.same(joinBinding(second), joinBinding(await server.accepted()))
  socket.end('hello')
  await server.ended()
  t.equal(server.bytes(), 5, 'and it carries what is written')
  second.destroy()
})

t.test('a group that costs a member much is not taken', async (t) => {
  const server = await listener(t, await tempKey(t))
  const tried = (ecdhCurve: string): Promise<string> => new Promise((resolve) => {
    const socket = connect({ port: server.port, host: '127.0.0.1', rejectUnauthorized: false, ecdhCurve })
    socket.on('error', () => { resolve('refused') }).on('secureConnect', () => { resolve('open') })
  })
  const groups = ['ffdhe8192', 'ffdhe2048', 'P-521', 'X25519', 'P-256']
  t.same(await Promise.all(groups.map(tried)), ['refused', 'refused', 'refused', 'open', 'open'])
})

t.test('a wrong key: nothing is written before the check', async (t) => {
  const [here, there, third] = [await tempKey(t), await tempKey(t), await tempKey(t)]
  const server = await listener(t, there)
  const error = await failing({ key: here, port: server.port, expect: third.fingerprint })
  t.match(error, { code: 'wrong_key', message: `not the expected ${third.fingerprint}` })
  t.match(error.message, there.fingerprint, 'names the key it found')
  await server.ended()
  t.equal(server.bytes(), 0)
  const asked: string[] = []
  const refused = await failing({
    key: here, port: server.port, expect: (found) => { asked.push(found); return false }
  })
  t.match(refused, { code: 'wrong_key', message: /has the unknown key/ })
  t.same(asked, [there.fingerprint])
})

t.test('a peer that shows no key has no fingerprint', async (t) => {
  const server = await listener(t, await tempKey(t))
  const socket = connect({ host: '127.0.0.1', port: server.port, rejectUnauthorized: false })
  t.equal(peerFingerprint(await server.accepted()), undefined)
  socket.destroy()
})

t.test('TLS 1.2 is refused from either side', async (t) => {
  const [here, there] = [await tempKey(t), await tempKey(t)]
  const server = await listener(t, there)
  const old = connect({
    host: '127.0.0.1',
    port: server.port,
    rejectUnauthorized: false,
    minVersion: 'TLSv1.2',
    maxVersion: 'TLSv1.2'
  })
  const code = await new Promise((resolve) => {
    old.once('error', (error: NodeJS.ErrnoException) => { resolve(error.code) })
    old.once('secureConnect', () => { resolve('connected') })
  })
  t.match(code, /PROTOCOL_VERSION/)
  const outdated = await listener(t, there, { minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' })
  const error = await failing({ key: here, port: outdated.port, expect: there.fingerprint })
  t.match(error.code, /PROTOCOL|VERSION/)
})

t.test('a dial that fails says why', async (t) => {
  const key = await tempKey(t)
  const expect = key.fingerprint
  const closed = createServer()
  const port = await listening(t, closed)
  await new Promise((resolve) => { closed.close(resolve) })
  t.match(await failing({ key, port, expect }), {
    code: 'ECONNREFUSED', message: new RegExp(`^127\\.0\\.0\\.1 port ${port}: `)
  })
  const byName = await failing({ key, port, expect, host: 'localhost' })
  t.match(byName, { code: 'ECONNREFUSED', message: /^localhost port .*REFUSED/ })
  const hangsUp = await listening(t, createServer((socket) => { socket.destroy() }))
  t.match(await failing({ key, port: hangsUp, expect }), { code: 'ECONNRESET' })
  const plain = createServer((socket) => { socket.on('error', () => {}).end('hello, this is no TLS\n') })
  t.match(await failing({ key, port: await listening(t, plain), expect }), { code: /SSL/ })
})

t.test('a dial to one that says nothing ends at its time, or when it is given up', async (t) => {
  const key = await tempKey(t)
  let arrivals = 0
  let arrived = (): void => {}
  let gone = (): void => {}
  const silent = createServer((socket) => {
    socket.on('error', () => {}).on('close', () => { gone() }).resume()
    arrivals++
    arrived()
  })
  const port = await listening(t, silent)
  const next = (): Promise<void> => new Promise((resolve) => { arrived = resolve })
  const left = (): Promise<void> => new Promise((resolve) => { gone = resolve })
  const clock = manualClock()
  let [came, went] = [next(), left()]
  const late = failing({ key, port, expect: key.fingerprint, timeoutMs: 5000, clock })
  await came
  await clock.advance(5000)
  t.match(await late, { code: 'timeout', message: /within 5000 ms/ })
  await went
  const stop = new AbortController()
  ;[came, went] = [next(), left()]
  const given = failing({ key, port, expect: key.fingerprint, clock, signal: stop.signal })
  await came
  stop.abort()
  t.match(await given, { code: 'aborted' })
  await went
  t.match(await failing({ key, port, expect: key.fingerprint, signal: stop.signal }), { code: 'aborted' })
  t.equal(arrivals, 2, 'the last one was never begun')
})
