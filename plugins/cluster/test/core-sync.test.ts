import { EventEmitter, once } from 'node:events'
import * as decoding from 'lib0/decoding'
import fc from 'fast-check'
import t from 'tap'
import { WebSocket } from 'ws'
import { WebsocketProvider } from 'y-websocket'
import { applyUpdate, Doc } from 'yjs'
import { definePlugin } from '../../../kernel/api/plugin.js'
import { createStateSync, SYNC_CLOSED } from '../../../kernel/state/sync.js'
import { manualClock, startPlugin, type Rig, type StartOptions } from '../../../kernel/testing/index.js'
import { log } from './links-kit.js'
import { stateOf } from '../../../kernel/test/state-entries.js'
import type { Entry } from '../../../kernel/state/entries.js'
import { entriesOf } from '../../../kernel/test/state-entries.js'

interface Owner { teardown (fn: () => unknown): unknown }

interface Served extends Rig {
  /** ws://host:port */
  address: string
  /** Changes /state: adds or removes a tag of this node. */
  advertise (tag: string, on: boolean): void
}

async function serve (t: Owner, options: StartOptions = {}): Promise<Served> {
  let advertise: Served['advertise'] = () => {}
  const manifest = { name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'Changes the state.' }
  const plugin = definePlugin(manifest, (ctx) => {
    advertise = (tag, on) => { ctx.advertise(tag, on) }
    return {}
  })
  const rig = await startPlugin(t, plugin, options)
  const address = (await rig.listen()).replace('http', 'ws')
  return { ...rig, address, advertise: (tag, on) => { advertise(tag, on) } }
}

interface Reader {
  doc: Doc
  provider: WebsocketProvider
  get (key: string): unknown
}

/** A client that uses y-websocket, the reference implementation of the protocol. */
async function reader (t: Owner, { address }: Served, doc = new Doc()): Promise<Reader> {
  const provider = new WebsocketProvider(`${address}/state`, 'sync', doc, {
    disableBc: true, WebSocketPolyfill: WebSocket as unknown as typeof globalThis.WebSocket
  })
  t.teardown(() => {
    provider.destroy()
    doc.destroy()
  })
  const entries = doc.getArray<Entry>('entries')
  await new Promise<void>((resolve) => { provider.on('sync', (ok) => { if (ok) resolve() }) })
  return { doc, provider, get: (key) => stateOf(entries)[key] }
}

async function until (look: () => boolean): Promise<void> {
  while (!look()) await new Promise((resolve) => { setTimeout(resolve, 5) })
}

const tags = ({ get }: Reader): string[] =>
  Object.values(get('nodeCapabilities') as Record<string, string[]>).flat()

async function socket (t: Owner, { address }: Served): Promise<WebSocket> {
  const made = new WebSocket(`${address}/state/sync`)
  t.teardown(() => { made.terminate() })
  made.on('error', () => {})
  await new Promise((resolve) => { made.once('open', resolve) })
  return made
}

const closing = async (made: WebSocket): Promise<number> =>
  await new Promise((resolve) => { made.once('close', resolve) })

t.test('the whole state, and then every change', async (t) => {
  const rig = await serve(t)
  const [one, two] = [await reader(t, rig), await reader(t, rig)]
  const state = (await rig.inject({ url: '/state' })).json() as Record<string, unknown>
  for (const [key, value] of Object.entries(state)) t.strictSame(one.get(key), value, key)
  rig.advertise('tts', true)
  await until(() => [one, two].every((r) => tags(r).includes('tts')))
  rig.advertise('tts', false)
  await until(() => [one, two].every((r) => tags(r).length === 0))
  const keys = one.doc.getArray<{ key: string }>('entries').map(({ key }) => key)
  t.equal(keys.length, new Set(keys).size, 'each key is there once')
})

t.test('what a client writes stays with it', async (t) => {
  const rig = await serve(t)
  const [bad, good] = [await reader(t, rig), await reader(t, rig)]
  const entries = bad.doc.getArray<{ key: string, val: unknown }>('entries')
  entries.push([{ key: 'masterNodeId', val: 'me' }])
  entries.delete(0, 1)
  // If the node relayed the bad write, the good client would get it before this later change.
  rig.advertise('later', true)
  await until(() => tags(good).includes('later'))
  const after = await reader(t, rig)
  const { masterNodeId } = (await rig.inject({ url: '/state' })).json() as { masterNodeId: string }
  t.strictSame([good, after].map((r) => r.get('masterNodeId')), [masterNodeId, masterNodeId])
  t.equal(after.doc.getArray('entries').length, good.doc.getArray('entries').length)
})

t.test('addresses are for operators', async (t) => {
  const check = async (allow: string[], shown: unknown): Promise<void> => {
    const rig = await serve(t, { allow })
    const identities = (await reader(t, rig)).get('nodeIdentities') as Record<string, { apiUrl: unknown }>
    t.match(Object.values(identities)[0]!.apiUrl, shown, allow.join())
  }
  await check(['read'], null)
  await check(['read', 'operator'], /^http:/)
})

t.test('who may not read gets a plain answer', async (t) => {
  const rig = await serve(t, { allow: [] })
  const status = await new Promise((resolve) => {
    const made = new WebSocket(`${rig.address}/state/sync`)
    made.on('unexpected-response', (_, response) => { resolve(response.statusCode) })
    made.on('error', () => {})
  })
  t.equal(status, 401)
  const plain = await (await serve(t)).inject({ url: '/state/sync' })
  t.equal(plain.statusCode, 404, 'a plain request finds nothing')
})

t.test('a web page shows its token as a subprotocol, which is never sent back', async (t) => {
  const rig = await serve(t)
  const tried = async (protocols: string[]): Promise<[unknown, object]> =>
    await new Promise((resolve) => {
      const made = new WebSocket(`${rig.address}/state/sync`, protocols)
      t.teardown(() => { made.terminate() })
      let said = {}
      made.on('upgrade', ({ headers }) => { said = headers })
      made.on('unexpected-response', (_, { statusCode, headers }) => { resolve([statusCode, headers]) })
      // The client refuses a response without one of the protocols that it offered.
      made.on('error', () => { resolve([101, said]) })
      made.on('open', () => { resolve([made.protocol, said]) })
    })
  const check = async (protocols: string[], expected: string | number): Promise<void> => {
    const answer = await tried(protocols)
    t.equal(answer[0], expected, protocols.join())
    t.notMatch(JSON.stringify(answer[1]), 'svc.bearer', 'the offer is not repeated')
  }
  await check([], '')
  await check(['svc'], 'svc')
  // Over loopback, a token for another service (`sk-…`) is treated as if no credential had been sent.
  await check(['svc', 'svc.bearer.sk-none'], 'svc')
  await check(['svc.bearer.sk-none', 'svc'], 'svc')
  await check(['svc.bearer.sk-none'], 101)
  await check(['svc', 'svc.bearer.svc_app_x'], 401)
  await check(['svc', 'svc.bearer.'], 401)
})

t.test('what is no message of the protocol closes its socket', async (t) => {
  const rig = await serve(t)
  const good = await reader(t, rig)
  const check = async (what: string, message: string | Buffer): Promise<void> => {
    const made = await socket(t, rig)
    const closed = closing(made)
    made.send(message)
    t.equal(await closed, SYNC_CLOSED.protocol, what)
  }
  await check('text', 'hello')
  await check('an empty text', '')
  await check('nothing', Buffer.alloc(0))
  await check('half a message', Buffer.from([0, 0, 200]))
  await check('no state vector', Buffer.from([0, 0, 2, 255, 255]))
  await check('more than a question takes', Buffer.alloc(65 * 1024))
  rig.advertise('still', true)
  await until(() => tags(good).includes('still'))
  t.equal((await rig.inject({ url: '/healthz' })).statusCode, 200)
})

t.test('T-Y04: 2,000 random frames harm nobody', async (t) => {
  const rig = await serve(t)
  const good = await reader(t, rig)
  const bytes = fc.uint8Array({ maxLength: 120 })
  // Most frames begin like a protocol message: a sync message of a known or unknown kind.
  const frame = fc.oneof(bytes, ...[[0], [0, 0], [0, 1], [0, 2]].map((head) =>
    bytes.map((rest) => Uint8Array.of(...head, ...rest))))
  let made = await socket(t, rig)
  let closed = 0
  for (const message of fc.sample(frame, { seed: 7, numRuns: 2000 })) {
    if (made.readyState !== WebSocket.OPEN) {
      closed++
      made = await socket(t, rig)
    }
    made.send(message)
    // Wait after about half of the messages, until they have taken effect.
    if (message.length % 2 === 0) await new Promise((resolve) => { setImmediate(resolve) })
  }
  t.ok(closed > 10, `${closed} of the sockets were closed`)
  rig.advertise('after', true)
  await until(() => tags(good).includes('after'))
  t.ok(tags(await reader(t, rig)).includes('after'))
  t.equal((await rig.inject({ url: '/healthz' })).statusCode, 200)
  t.strictSame(rig.logged.filter(({ level }) => level === 'error'), [])
})

t.test('a quiet connection shows that it lives, and ends with the node', async (t) => {
  const rig = await serve(t)
  const made = await socket(t, rig)
  const alive = new Promise<void>((resolve) => {
    // An empty awareness message; without these, the client would close a silent connection.
    made.on('message', (data: Buffer) => { if (data.equals(Buffer.from([1, 1, 0]))) resolve() })
  })
  await rig.clock.advance(10_000)
  await alive
  const closed = closing(made)
  await rig.stop()
  t.equal(await closed, 1001)
})

t.test('a client that outlives its node has no old entries at the next one', async (t) => {
  const doc = new Doc()
  doc.getMap('its own').set('view', 'small')
  const first = await reader(t, await serve(t), doc)
  first.provider.destroy()
  const rig = await serve(t)
  const again = await reader(t, rig, doc)
  const keys = doc.getArray<{ key: string }>('entries').map(({ key }) => key)
  const state = (await rig.inject({ url: '/state' })).json() as Record<string, unknown>
  t.strictSame([...keys].sort(), entriesOf(state).map(({ key }) => key).sort(), 'each key once')
  t.equal(again.get('localNodeId'), state['localNodeId'])
  t.equal(doc.getMap('its own').get('view'), 'small', 'what else is in the document stays')
})

t.test('a view that looks at its caller is not shared with callers of other authorities', async (t) => {
  const made = createStateSync({
    state: ({ id, authorities }) => ({ mine: { id, may: [...authorities].sort() } }),
    changed: async (signal) => { await once(signal, 'abort') },
    read: async () => {}, readings: new Set(), clock: manualClock(), log
  })
  const seen = async (id: string, ...authorities: string[]): Promise<unknown> => {
    const socket = Object.assign(new EventEmitter(), {
      OPEN: 1, readyState: 1, bufferedAmount: 0, close () {},
      send: (bytes: Uint8Array) => { sent.push(bytes) }
    })
    const sent: Uint8Array[] = []
    made.serve(socket as unknown as WebSocket, {
      caller: { id, mode: 'direct', authorities: new Set(authorities) }
    })
    socket.emit('message', Buffer.from([0, 0, 1, 0]), true)
    await until(() => sent.some((bytes) => bytes[1] === 1))
    const doc = new Doc()
    const answer = sent.find((bytes) => bytes[1] === 1)!.subarray(2)
    applyUpdate(doc, decoding.readVarUint8Array(decoding.createDecoder(answer)))
    return stateOf(doc.getArray<Entry>('entries'))['mine']
  }
  t.strictSame(await seen('a', 'read'), { id: 'state-sync', may: ['read'] })
  t.strictSame(await seen('b', 'read', 'invoke'), { id: 'state-sync', may: ['invoke', 'read'] })
  made.close()
})

t.test('a reader that asks too often or does not answer is cut off', async (t) => {
  const rig = await serve(t)
  const asks = await socket(t, rig)
  const closed = closing(asks)
  let answers = 0
  asks.on('message', () => { answers++ })
  // Each message requests the whole document; it is ten bytes long with its WebSocket header.
  for (let i = 0; i < 5000; i++) asks.send(Buffer.from([0, 0, 1, 0]))
  t.equal(await closed, SYNC_CLOSED.slow)
  t.ok(answers <= 101, `${answers} answers`)
  const silent = new WebSocket(`${rig.address}/state/sync`, { autoPong: false })
  t.teardown(() => { silent.terminate() })
  await new Promise((resolve) => { silent.once('open', resolve) })
  let pings = 0
  silent.on('ping', () => { pings++ })
  const gone = closing(silent)
  for (let i = 1; i <= 3; i++) {
    await rig.clock.advance(10_000)
    await until(() => pings === i)
  }
  await rig.clock.advance(10_000)
  t.equal(await gone, 1006)
})
