import http from 'node:http'
import t from 'tap'
import { decodeFrames } from '../frames/frames.js'
import { definePlugin, systemClock, type Plugin } from '../../../kernel/index.js'
import { startPlugin, type Rig } from '../../../kernel/testing/index.js'
import { eventually } from './kit.js'

const input = { type: 'object', additionalProperties: false,
  properties: { n: { type: 'integer', minimum: 0 } } } as const
const chunk = { type: 'object', additionalProperties: false, required: ['i'],
  properties: { i: { type: 'integer' } } } as const
const common = { version: '1.0.0', title: 'T', description: 'D',
  annotations: { stability: 'stable' } } as const

/** A plugin whose capabilities count, echo, stream endlessly and fail; `seen` counts chunks and aborts. */
function talker (): { plugin: Plugin, seen: { made: number, aborted: number } } {
  const seen = { made: 0, aborted: 0 }
  const mp3 = (i: number, size: number) =>
    ({ payload: { i }, media: { bytes: new Uint8Array(size).fill(i % 256), mediaType: 'audio/mpeg',
      codec: 'mp3', sampleRate: 22050, channels: 1, timestampSeconds: i, durationSeconds: 1 } })
  const plugin = definePlugin({
    name: 'talker',
    version: '1.0.0',
    kernel: '^1.0.0',
    summary: 'Talks.',
    capabilities: {
      add: { ...common, id: 'add', io_mode: 'unary', input_schema: input, output_schema: chunk },
      talk: { ...common, id: 'talk', io_mode: 'server_streaming', input_schema: input,
        output_chunk_schema: chunk, media_type: 'audio/mpeg' },
      fail: { ...common, id: 'fail', io_mode: 'server_streaming', input_schema: input,
        output_chunk_schema: chunk, media_type: 'audio/mpeg' }
    }
  }, () => ({
    invoke: {
      add: async (body) => ({ i: (body.n ?? 0) + 1 }),
      async * talk (body, call) {
        try {
          for (let i = 0; i < (body.n ?? 1e9); i++) { seen.made++; yield mp3(i, 64 * 1024) }
        } finally {
          if (call.signal.aborted) seen.aborted++
        }
      },
      async * fail (body) {
        for (let i = 0; i < (body.n ?? 0); i++) yield mp3(i, 1000)
        throw new Error('secret')
      }
    }
  }))
  return { plugin, seen }
}

const bodyOf = async (rig: Rig, id: string, payload: object = {}): Promise<string> => {
  const listing = (await rig.inject({ url: '/v1/capabilities' })).json<{ revisions: Record<string,
    string> }>()
  return JSON.stringify({ capability_id: id, version: '1.0.0',
    descriptor_revision: listing.revisions[`${id}@1.0.0`], payload })
}

const post = async (url: string, path: string, body: string, accept = '*/*',
  signal?: AbortSignal): Promise<Response> =>
  await fetch(`${url}${path}`, { method: 'POST', body,
    headers: { 'content-type': 'application/json', accept }, ...(signal === undefined ? {} : { signal }) })

t.test('over a real connection', async (t) => {
  const { plugin, seen } = talker()
  const rig = await startPlugin(t, plugin, { clock: systemClock })
  const url = await rig.listen()

  t.test('listing and unary call', async (t) => {
    const listing = await (await fetch(`${url}/v1/capabilities`)).json() as { capabilities: { id: string }[] }
    t.same(listing.capabilities.map((c) => c.id), ['add', 'fail', 'talk'])
    t.equal((await fetch(`${url}/v1/capabilities?node_id=nobody`)).status, 404)
    const answer = await post(url, '/v1/capabilities/call', await bodyOf(rig, 'add', { n: 4 }))
    t.equal(answer.status, 200)
    t.match(answer.headers.get('x-svc-command-id'), /.{36}/)
    t.match(await answer.json(), { ok: true, result: { i: 5 } })
  })

  t.test('refusals have the one error body', async (t) => {
    const check = async (path: string, body: string, status: number, reason: string): Promise<void> => {
      const answer = await post(url, path, body)
      const { error } = await answer.json() as { error: { reason: string, code: number, requestId: string } }
      t.same([answer.status, error.code, error.reason], [status, status, reason])
      t.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8')
      t.ok(error.requestId)
    }
    const good = JSON.parse(await bodyOf(rig, 'talk')) as Record<string, unknown>
    const text = (change: object): string => JSON.stringify({ ...good, ...change })
    for (const path of ['/v1/capabilities/call', '/v1/capabilities/stream']) {
      await check(path, text({ extra: 1 }), 400, 'invalid_request')
      await check(path, text({ timeout_seconds: 0 }), 400, 'invalid_request')
      await check(path, text({ version: '2.0.0' }), 409, 'version_mismatch')
      await check(path, text({ capability_id: 'nothing' }), 404, 'capability_not_found')
    }
    await check('/v1/capabilities/stream', text({ payload: { n: -1 } }), 400, 'invalid_payload')
    await check('/v1/capabilities/stream', text({ payload: { n: 1, x: 'x'.repeat(1024 * 1024) } }), 413,
      'payload_too_large')
    await check('/v1/capabilities/stream',
      text({ version: '2.0.0', payload: { x: 'x'.repeat(1024 * 1024) } }), 409, 'version_mismatch')
    await check('/v1/capabilities/stream', text({ payload: { x: 'x'.repeat(3 * 1024 * 1024) } }), 413,
      'payload_too_large')
    await check('/v1/capabilities/stream', await bodyOf(rig, 'fail'), 502, 'provider_error')
    await check('/v1/capabilities/stream/cancel', '{}', 400, 'invalid_request')
    await check('/v1/capabilities/call', await bodyOf(rig, 'talk'), 400, 'invalid_request')
  })

  t.test('three framings of one stream', async (t) => {
    const body = await bodyOf(rig, 'talk', { n: 3 })
    const framed = await post(url, '/v1/capabilities/stream', body)
    t.match(Object.fromEntries(framed.headers),
      { 'content-type': 'application/vnd.svc.frames', 'cache-control': 'no-store',
        'x-accel-buffering': 'no' })
    const kinds = []
    for await (const { header, media } of decodeFrames(framed.body!)) kinds.push([header.kind,
      media?.byteLength ?? 0])
    t.same(kinds, [['started', 0], ['chunk', 65536], ['chunk', 65536], ['chunk', 65536], ['completed', 0]])
    const events = await (await post(url, '/v1/capabilities/stream', body, 'text/event-stream')).text()
    t.equal(events.split('data: ').length - 1, 5)
    const raw = await (await post(url, '/v1/capabilities/stream', body, 'audio/mpeg')).arrayBuffer()
    t.equal(raw.byteLength, 3 * 65536)
  })

  t.test('a raw stream that fails is cut, never ended', async (t) => {
    const body = await bodyOf(rig, 'fail', { n: 3 })
    const answer = await post(url, '/v1/capabilities/stream', body, 'audio/mpeg')
    t.equal(answer.status, 200)
    await t.rejects(answer.arrayBuffer(), 'the body is incomplete')
    const framed = await post(url, '/v1/capabilities/stream', body)
    const text = Buffer.from(await framed.arrayBuffer()).toString('latin1')
    t.ok(text.includes('"provider_error"'))
    t.notOk(text.includes('secret'))
  })

  t.test('a reader that stops reading holds the handler back; leaving ends it', async (t) => {
    for (const [accept, most] of [['*/*', 64], ['text/event-stream', 64],
      ['audio/mpeg', 8 * 16 + 64]] as const) {
      seen.made = seen.aborted = 0
      const body = await bodyOf(rig, 'talk')
      const request = http.request(`${url}/v1/capabilities/stream`,
        { method: 'POST', headers: { 'content-type': 'application/json', accept,
          'content-length': Buffer.byteLength(body) } })
      request.on('error', () => {})
      const response = await new Promise<http.IncomingMessage>((resolve) => {
        request.on('response',
          resolve); request.end(body)
      })
      response.pause()
      for (let last = -1; last !== seen.made;) {
        last = seen.made
        for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => { setTimeout(resolve, 2) })
      }
      // The socket buffers on both sides fill up as well, in addition to the stream buffer.
      t.ok(seen.made <= most + 100, `${accept}: ${seen.made} chunks of 64 KiB made`)
      request.destroy()
      await eventually(() => seen.aborted === 1 &&
        rig.kernel.commands.open === 0, `${accept}: the end of the call`)
    }
  })

  t.test('two hundred calls at once: an answer or a 429 each, nothing left open', async (t) => {
    const body = await bodyOf(rig, 'talk', { n: 2 })
    const answers = await Promise.all(Array.from({ length: 200 }, async () => {
      const answer = await post(url, '/v1/capabilities/stream', body)
      const bytes = await answer.arrayBuffer()
      return { status: answer.status, size: bytes.byteLength, retry: answer.headers.get('retry-after') }
    }))
    t.ok(answers.every((a) => a.status === 200 ? a.size > 2 * 65536
      : a.status === 429 && Number(a.retry) >= 1))
    t.ok(answers.some((a) => a.status === 200))
    await eventually(() => rig.kernel.commands.open === 0, 'all to end')
  })
})

t.test('stopping gives open streams their terminal', async (t) => {
  const { plugin } = talker()
  const rig = await startPlugin(t, plugin, { clock: systemClock })
  const url = await rig.listen()
  const answer = await post(url, '/v1/capabilities/stream', await bodyOf(rig, 'talk'))
  const kinds: string[] = []
  const reasons: unknown[] = []
  let stopping: Promise<void> | undefined
  for await (const { header } of decodeFrames(answer.body!)) {
    kinds.push(header.kind)
    reasons.push(header.error?.reason)
    if (kinds.length === 5) stopping = rig.stop()
  }
  t.same([kinds.at(-1), reasons.at(-1)], ['failed', 'shutting_down'])
  await stopping
})
