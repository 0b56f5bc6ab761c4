import http from 'node:http'
import { once } from 'node:events'
import t from 'tap'
import { WebSocket } from 'ws'
import { definePlugin, systemClock, type Plugin } from '../../../kernel/index.js'
import { startPlugin, type Rig } from '../../../kernel/testing/index.js'
import { decodeFrame, decodeFrames, encodeFrame, FRAMES_TYPE, type Frame } from '../frames/frames.js'
import { eventually } from './kit.js'

const object = { type: 'object' } as const
const chunk = { type: 'object', additionalProperties: false, required: ['i'],
  properties: { i: { type: 'integer' } } } as const
const common = { version: '1.0.0', title: 'T', description: 'D', annotations: {},
  input_schema: object } as const

interface Seen { read: number, ends: string[], open: () => void }

/** A plugin that returns the client's media, counts their bytes, or waits before it reads. */
function echo (): { plugin: Plugin, seen: Seen } {
  const seen: Seen = { read: 0, ends: [], open: () => {} }
  const opened = new Promise<void>((resolve) => { seen.open = resolve })
  const plugin = definePlugin({
    name: 'echo', version: '1.0.0', kernel: '^1.0.0', summary: 'Returns media.',
    capabilities: {
      echo: { ...common, id: 'echo', io_mode: 'bidirectional', input_chunk_schema: chunk,
        output_chunk_schema: chunk },
      count: { ...common, id: 'count', io_mode: 'client_streaming', input_chunk_schema: chunk,
        output_schema: object },
      slow: { ...common, id: 'slow', io_mode: 'client_streaming', input_chunk_schema: chunk,
        output_schema: object },
      talk: { ...common, id: 'talk', io_mode: 'server_streaming', output_chunk_schema: chunk },
      unary: { ...common, id: 'unary', io_mode: 'unary', output_schema: object }
    }
  }, () => {
    const total = async (chunks: AsyncIterable<{ media?: Uint8Array }>): Promise<{ bytes: number }> => {
      let bytes = 0
      for await (const { media } of chunks) seen.read = bytes += media?.byteLength ?? 0
      return { bytes }
    }
    return {
      invoke: {
        async * echo (_input, call) {
          try {
            for await (const { payload, media } of call.chunks) {
              yield { payload, ...media === undefined ? {} : { media: {
                bytes: media, mediaType: 'audio/pcm', codec: 'pcm', sampleRate: 16_000, channels: 1,
                timestampSeconds: 0, durationSeconds: 0
              } } }
            }
            seen.ends.push('end')
          } catch (error) {
            seen.ends.push((error as { reason: string }).reason)
            throw error
          }
        },
        count: async (_input, call) => await total(call.chunks),
        async slow (_input, call) { await opened; return await total(call.chunks) },
        async * talk () { yield { payload: { i: 1 } } },
        unary: async () => ({})
      }
    }
  })
  return { plugin, seen }
}

interface Client {
  request: http.ClientRequest
  send (header: object, media?: Uint8Array | null): boolean
  status (): Promise<number>
  frames: Frame[]
  /** Waits for the terminal frame. */
  end (): Promise<Frame['header']>
  body (): Promise<string>
}

const revisionsOf = async (rig: Rig): Promise<Record<string, string>> =>
  (await rig.inject({ url: '/v1/capabilities' })).json<{ revisions: Record<string, string> }>().revisions

/** Opens a call with a framed body over a real connection; frames are read while the body is sent. */
async function open (rig: Rig, url: string, id: string, more: object = {}): Promise<Client> {
  const revisions = await revisionsOf(rig)
  const request = http.request(`${url}/v1/capabilities/stream`,
    { method: 'POST', headers: { 'content-type': FRAMES_TYPE } })
  request.on('error', () => {})
  const response = once(request, 'response') as Promise<[http.IncomingMessage]>
  const frames: Frame[] = []
  let broken = false
  response.then(async ([answer]) => {
    answer.on('error', () => { broken = true })
    if (answer.statusCode !== 200) return
    for await (const frame of decodeFrames(answer)) frames.push(frame)
  }).catch(() => { broken = true })
  const client: Client = {
    request, frames,
    send: (header, media = null) => request.write(encodeFrame({
      header: media === null ? header : { ...header, media: { size: media.byteLength } }, media })),
    status: async () => (await response)[0].statusCode!,
    async end () {
      const last = (): Frame | undefined =>
        frames.find(({ header: { kind } }) => ['completed', 'failed', 'cancelled'].includes(kind))
      await eventually(() => last() !== undefined || broken, 'the end')
      return last()!.header
    },
    body: async () => Buffer.concat(await (await response)[0].toArray() as Buffer[]).toString()
  }
  client.send({ capability_id: id, version: '1.0.0', descriptor_revision: revisions[`${id}@1.0.0`] ?? 'none',
    payload: {}, ...more })
  return client
}

async function started (
  t: Parameters<typeof startPlugin>[0]
): Promise<{ rig: Rig, url: string, seen: Seen }> {
  const { plugin, seen } = echo()
  const rig = await startPlugin(t, plugin, { clock: systemClock })
  return { rig, url: await rig.listen(), seen }
}

const media = (bytes: number, value = 7): Uint8Array => new Uint8Array(bytes).fill(value)

t.test('the answer arrives while the body is sent', async (t) => {
  const { rig, url } = await started(t)
  const call = await open(rig, url, 'echo')
  for (let i = 1; i <= 3; i++) {
    call.send({ kind: 'chunk', payload: { i } }, media(i * 1000, i))
    await eventually(() => call.frames.length === i + 1, `echo ${i}`)
    t.same(Buffer.from(call.frames[i]!.media!), Buffer.alloc(i * 1000, i))
  }
  call.send({ kind: 'chunk', payload: { i: 4 }, media: null })
  call.request.end()
  t.equal((await call.end()).kind, 'completed')
  t.same(call.frames.map(({ header: { kind, payload } }) => kind === 'chunk' ? payload : kind),
    ['started', { i: 1 }, { i: 2 }, { i: 3 }, { i: 4 }, 'completed'])

  const ended = await open(rig, url, 'count')
  ended.send({ kind: 'chunk', payload: { i: 0 } }, media(10))
  ended.send({ kind: 'end' })
  t.match(await ended.end(), { kind: 'completed', payload: { bytes: 10 } }, 'the frame end ends the input')
  const silent = await open(rig, url, 'talk')
  t.equal((await silent.end()).kind, 'completed', 'a capability without client chunks')
})

t.test('with the test kit of plugins', async (t) => {
  const { rig } = await started(t)
  const frames = await rig.call('echo@1.0.0', {},
    [{ payload: { i: 1 }, media: media(3) }, { payload: { i: 2 } }])
  t.same(frames.map(({ header: { kind } }) => kind), ['started', 'chunk', 'chunk', 'completed'])
  t.same(frames[1]!.media, media(3))
  await t.rejects(rig.call('echo@1.0.0', {}, [{ payload: {} }]), /invalid_payload/)
  await t.rejects(rig.call('nothing@1.0.0', {}), /capability_not_found/)
})

t.test('refusals', async (t) => {
  const { rig, url, seen } = await started(t)
  const early = async (id: string, more: object, status: number, reason: string): Promise<void> => {
    const call = await open(rig, url, id, more)
    call.request.end()
    t.equal(await call.status(), status, reason)
    t.match(await call.body(), new RegExp(`"reason":"${reason}"`))
  }
  await early('unary', {}, 400, 'invalid_request')
  await early('nothing', {}, 404, 'capability_not_found')
  await early('echo', { descriptor_revision: 'old' }, 409, 'revision_mismatch')
  await early('echo', { payload: 7 }, 400, 'invalid_payload')
  await early('echo', { kind: 'chunk' }, 400, 'invalid_request')
  await early('echo', { more: 1 }, 400, 'invalid_request')
  await early('echo', { payload: { x: 'x'.repeat(1024 ** 2) } }, 413, 'payload_too_large')
  await early('echo', { payload: { x: 'x'.repeat(3 * 1024 ** 2) } }, 413, 'payload_too_large')

  const late = async (write: (call: Client) => void, reason: string): Promise<void> => {
    const call = await open(rig, url, 'echo')
    await eventually(() => call.frames.length > 0, 'the start')
    write(call)
    t.match(await call.end(), { kind: 'failed', error: { reason } }, reason)
  }
  await late((call) => { call.send({ kind: 'chunk', payload: { i: 'x' } }) }, 'invalid_payload')
  await late((call) => { call.send({ kind: 'chunk', payload: { i: 1 } }, media(1024 ** 2)) },
    'payload_too_large')
  await late((call) => { call.send({ kind: 'dance' }) }, 'invalid_request')
  await late((call) => { call.send({ kind: 'chunk' }) }, 'invalid_request')
  await late((call) => { call.request.write('GET / HTTP/1.1') }, 'invalid_request')
  await late((call) => { call.request.end(Buffer.from([0, 0, 0, 9, 1])) }, 'invalid_request')
  const empty = await fetch(`${url}/v1/capabilities/stream`,
    { method: 'POST', body: '', headers: { 'content-type': FRAMES_TYPE } })
  t.equal(empty.status, 400)

  const gone = await open(rig, url, 'echo')
  await eventually(() => gone.frames.length > 0, 'the start')
  const before = seen.ends.length
  gone.request.destroy()
  await eventually(() => seen.ends.length > before, 'the end of the handler')
  t.equal(seen.ends.at(-1), 'cancelled')
  const quiet = await open(rig, url, 'echo', { timeout_seconds: 1.5 })
  t.match(await quiet.end(), { kind: 'failed', error: { reason: 'timeout' } }, 'a client that is silent')
})

t.test('a slow handler slows the client; the total is not bounded', async (t) => {
  const { rig, url, seen } = await started(t)
  const call = await open(rig, url, 'slow')
  const piece = media(256 * 1024)
  let written = 0
  const writing = (async () => {
    for (let i = 0; i < 128; i++) {
      if (!call.send({ kind: 'chunk', payload: { i } }, piece)) await once(call.request, 'drain')
      written += piece.byteLength
    }
    call.request.end()
  })()
  let last = -1
  await eventually(() => {
    const same = written === last
    last = written
    return same && written > 0
  }, 'a stop')
  t.ok(written < 24 * 1024 ** 2, `${written} bytes were sent ahead of a handler that does not read`)
  t.equal(seen.read, 0)
  seen.open()
  await writing
  t.match(await call.end(), { kind: 'completed', payload: { bytes: 128 * piece.byteLength } })
})

t.test('over a session', async (t) => {
  const { rig, url } = await started(t)
  const revisions = await revisionsOf(rig)
  const ws = new WebSocket(`${url.replace('http', 'ws')}/v1/capabilities/session`)
  t.teardown(() => { ws.terminate() })
  const frames: Frame[] = []
  ws.on('message', (data) => { frames.push(decodeFrame(data as Buffer) as unknown as Frame) })
  await once(ws, 'open')
  const say = (header: object, bytes: Uint8Array | null = null): void => {
    const described = bytes === null ? null : { size: bytes.byteLength }
    ws.send(encodeFrame({ header: { call_id: 'c', ...header, media: described }, media: bytes }))
  }
  const call = { kind: 'call', capability_id: 'echo', version: '1.0.0',
    descriptor_revision: revisions['echo@1.0.0'], payload: {} }
  say(call)
  say({ kind: 'chunk', payload: { i: 1 } }, media(5))
  await eventually(() => frames.length === 2, 'the echo')
  t.same(Buffer.from(frames[1]!.media!), Buffer.alloc(5, 7))
  say({ kind: 'end' })
  await eventually(() => frames.at(-1)!.header.kind === 'completed', 'the end')
  say({ ...call, call_id: 'd' })
  say({ kind: 'chunk', call_id: 'd', payload: { i: 1 } }, media(1024 ** 2))
  await eventually(() => frames.at(-1)!.header.kind === 'failed', 'the refusal')
  t.match(frames.at(-1)!.header.error, { reason: 'payload_too_large' })
})
