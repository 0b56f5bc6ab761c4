import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { decodeFrame, encodeFrame, type Frame } from '../frames/frames.js'
import { caller, eventually, NODE, piece, probe, type Bench, type View } from './kit.js'
import { at, callsOf, pair } from './remote-kit.js'

const ENDS = ['completed', 'failed', 'cancelled']

type Tap = { teardown: (fn: () => void) => void }

interface Client {
  say: (message: object) => void
  send: (header: object, media: Uint8Array) => void
  of: (callId: string) => Frame[]
  /** Waits for the call's terminal frame; resolves to all its frames. */
  whole: (callId: string) => Promise<Frame[]>
  leave: () => void
}

/** A capability session on a real port, and a connected client. */
async function connect (t: Tap, node: Bench): Promise<Client> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false })
  server.on('connection', (ws) => { node.capabilities.session(ws, caller()) })
  await once(server, 'listening')
  const ws = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  t.teardown(() => { ws.terminate(); server.close() })
  const frames: Frame[] = []
  ws.on('message', (data) => { frames.push(decodeFrame(data as Buffer) as unknown as Frame) })
  await once(ws, 'open')
  const of = (callId: string): Frame[] => frames.filter((f) => f.header.call_id === callId)
  return {
    say: (message) => { ws.send(JSON.stringify(message)) },
    send: (header, media) => {
      ws.send(encodeFrame({ header: { ...header, media: { size: media.byteLength } }, media }))
    },
    of,
    async whole (callId) {
      await eventually(() => ENDS.includes(of(callId).at(-1)?.header.kind ?? ''), `the end of ${callId}`)
      return of(callId)
    },
    leave: () => { ws.close() }
  }
}

const kinds = (frames: Frame[]): string[] => frames.map((f) => `${f.header.kind}:${f.header.sequence}`)

t.test('calls of another node over one socket', async (t) => {
  const nodes = await pair(t)
  const unary = probe(nodes.there, 'unary', (input: { n?: number }, call: View) => {
    call.setHeader('x-svc-task-id', 'task-9')
    return { sum: input.n }
  })
  const stream = probe(nodes.there, 'server_streaming', async function * () {
    for (let i = 0; i < 3; i++) yield piece(i, 1000)
  })
  const client = await connect(t, nodes.here)
  const call = (id: string, body: object): void => { client.say({ kind: 'call', ...body, call_id: id }) }

  call('one', at(unary, { payload: { n: 5 } }))
  call('two', at(stream, { target_node: 'beta' }))
  const one = await client.whole('one')
  t.same(kinds(one), ['started:0', 'completed:1'])
  t.match(one[0]!.header.payload, { task_id: 'task-9', command_id: nodes.there.outcomes[0]!.commandId })
  t.same(one[1]!.header.payload, { sum: 5 })
  const two = await client.whole('two')
  t.same(kinds(two), ['started:0', 'chunk:1', 'chunk:2', 'chunk:3', 'completed:4'])
  t.same([two[3]!.header.payload, two[3]!.media?.byteLength], [{ i: 2 }, 1000])

  const check = async (id: string, body: object, reason: string, code: number): Promise<void> => {
    call(id, body)
    const frames = await client.whole(id)
    t.same(kinds(frames), ['failed:0'], id)
    t.match(frames[0]!.header.error, { reason, code })
  }
  await check('nobody', at(unary, { target_node: 'nobody' }), 'node_not_found', 404)
  await check('gone', at(unary, { target_node: 'gamma' }), 'unreachable', 502)
  await check('old', at(unary, { descriptor_revision: 'old' }), 'revision_mismatch', 409)

  const bad = at(unary, { payload: { n: -1 } })
  call('bad', bad)
  const frames = await client.whole('bad')
  t.match(frames.at(-1)!.header,
    { kind: 'failed', error: { reason: 'invalid_payload', code: 400, param: 'n' } })
})

t.test('cancel, leaving, and the other node', async (t) => {
  const nodes = await pair(t)
  let ended = 0
  const body = probe(nodes.there, 'server_streaming', async function * (_input: unknown, call: View) {
    try {
      yield piece(0)
      await new Promise((_resolve, reject) => { call.signal.addEventListener('abort', reject) })
    } finally { ended++ }
  })
  const client = await connect(t, nodes.here)
  const begin = async (id: string): Promise<void> => {
    client.say({ kind: 'call', ...at(body), call_id: id })
    await eventually(() => client.of(id).length === 2, `the first chunk of ${id}`)
  }
  await begin('a')
  client.say({ kind: 'cancel', call_id: 'a' })
  t.same(kinds(await client.whole('a')), ['started:0', 'chunk:1', 'cancelled:2'])
  await eventually(() => ended === 1 && nodes.there.capabilities.invoker.calls.size === 0, 'the end there')
  await begin('b')
  nodes.there.commands.abortAll('session_changed')
  t.match((await client.whole('b')).at(-1)!.header,
    { kind: 'failed', error: { reason: 'session_changed', code: 503, retryable: true } })
  await begin('c')
  client.leave()
  await eventually(() => ended === 3 && nodes.there.capabilities.invoker.calls.size === 0, 'the end there')
  await eventually(() => nodes.here.capabilities.invoker.calls.size === 0, 'the end here')
})

t.test('a session passes on what only another node serves', async (t) => {
  const nodes = await pair(t, { there: { elsewhere: () => NODE.installId } })
  const body = probe(nodes.here, 'unary', () => ({ sum: 1 }))
  const client = await connect(t, nodes.there)
  client.say({ kind: 'call', ...body, call_id: 'z' })
  t.same((await client.whole('z'))[1]!.header.payload, { sum: 1 })
  t.equal(callsOf(nodes)[0]!.to, NODE.installId)
})

t.test('chunks of the client, with media, go to the node that serves the call', async (t) => {
  const nodes = await pair(t)
  const ends: string[] = []
  const echo = probe(nodes.there, 'bidirectional', async function * (_input: unknown, call: View) {
    try {
      for await (const { media } of call.chunks) {
        yield { ...piece(media!.byteLength), media: { ...piece(0, 1).media!, bytes: media! } }
      }
    } finally {
      ends.push(call.signal.aborted ? 'aborted' : 'end')
    }
  })
  const count = probe(nodes.there, 'client_streaming', async (_input: unknown, call: View) => {
    let sum = 0
    for await (const { media } of call.chunks) sum += media?.byteLength ?? 0
    return { sum }
  })
  const client = await connect(t, nodes.here)
  const chunk = (call_id: string, size: number): void => {
    client.send({ kind: 'chunk', call_id, payload: { i: 1 } }, new Uint8Array(size).fill(size % 256))
  }
  client.say({ kind: 'call', ...at(echo), call_id: 'echo' })
  for (const size of [10, 900_000]) {
    chunk('echo', size)
    await eventually(() => client.of('echo').at(-1)?.media?.byteLength === size, `${size} bytes`)
    t.same(client.of('echo').at(-1)!.header.payload, { i: size }, 'back before the next is sent')
  }
  client.say({ kind: 'end', call_id: 'echo' })
  t.same(kinds(await client.whole('echo')), ['started:0', 'chunk:1', 'chunk:2', 'completed:3'])
  t.same(ends, ['end'])

  client.say({ kind: 'call', ...at(count), call_id: 'count' })
  for (let n = 0; n < 8; n++) chunk('count', 900_000)
  client.say({ kind: 'end', call_id: 'count' })
  t.same((await client.whole('count')).at(-1)!.header.payload, { sum: 7_200_000 })

  client.say({ kind: 'call', ...at(echo), call_id: 'stop' })
  chunk('stop', 5)
  await eventually(() => client.of('stop').length === 2, 'an answer')
  client.say({ kind: 'cancel', call_id: 'stop' })
  t.equal((await client.whole('stop')).at(-1)!.header.kind, 'cancelled')
  await eventually(() => ends.length === 2, 'the end over there')
  client.say({ kind: 'call', ...at(echo), call_id: 'bad' })
  client.say({ kind: 'chunk', call_id: 'bad', payload: { i: 'x' } })
  t.match((await client.whole('bad')).at(-1)!.header.error, { reason: 'invalid_payload' })
})
