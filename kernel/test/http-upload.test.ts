import http from 'node:http'
import { once } from 'node:events'
import t from 'tap'
import { definePlugin, kernelError, systemClock, type RouteRequest } from '../index.js'
import { startPlugin } from '../testing/index.js'

const BYTES = 'application/octet-stream'

/** A route that counts the bytes of its body, or answers after `most` bytes; it also takes JSON. */
const plugin = definePlugin({
  name: 'counter', version: '1.0.0', kernel: '^1.0.0', summary: 'Counts.',
  routes: {
    count: {
      method: 'POST', url: '/count', summary: 'Counts.', authority: 'invoke',
      uploads: { [BYTES]: { type: 'string', format: 'binary' } },
      query: { type: 'object', properties: { most: { type: 'string' } } },
      body: { type: 'object', additionalProperties: false, required: ['n'],
        properties: { n: { type: 'integer' } } }
    }
  }
}, () => ({
  routes: {
    count: async ({ upload, body, query }: RouteRequest) => {
      if (upload == null) return body
      const most = Number((query as { most?: string }).most ?? Infinity)
      let bytes = 0
      for await (const piece of upload) {
        if ((bytes += piece.byteLength) >= most) throw kernelError('payload_too_large')
      }
      return { bytes }
    }
  }
}))

t.test('a body of a declared type is read as a stream', async (t) => {
  const rig = await startPlugin(t, plugin, {
    clock: systemClock, strict: false, limits: { requestTimeoutMs: 1_000, headersTimeoutMs: 900 }
  })
  const url = await rig.listen()
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => { agent.destroy() })
  const start = (type: string, query = ''): http.ClientRequest =>
    http.request(`${url}/count${query}`, { method: 'POST', agent, headers: { 'content-type': type } })
  const answer = async (request: http.ClientRequest): Promise<[number, Record<string, unknown>]> => {
    const [response] = await once(request, 'response') as [http.IncomingMessage]
    const text = Buffer.concat(await response.toArray() as Buffer[]).toString()
    return [response.statusCode!, JSON.parse(text) as Record<string, unknown>]
  }
  const slow = start(BYTES)
  slow.write('a')
  // Node checks every 5 s for requests that take too long.
  await new Promise((resolve) => { setTimeout(resolve, 6_500) })
  slow.end('bc')
  t.same(await answer(slow), [200, { bytes: 3 }], 'it may take longer than other requests')

  const json = start('application/json')
  json.end('{"n":1}')
  t.same(await answer(json), [200, { n: 1 }], 'JSON is still read as JSON')
  const wrong = start('application/json')
  wrong.end('{"n":"x"}')
  t.equal((await answer(wrong))[0], 400)
  const other = start('text/plain')
  other.end('x')
  t.equal((await answer(other))[0], 415)
  const none = http.request(`${url}/count`, { method: 'POST', agent })
  none.end()
  t.equal((await answer(none))[0], 400, 'no body at all is checked like JSON')
  const packed = http.request(`${url}/count`,
    { method: 'POST', agent, headers: { 'content-type': BYTES, 'content-encoding': 'gzip' } })
  packed.end('x')
  t.equal((await answer(packed))[0], 415)

  const much = start(BYTES, '?most=1000')
  much.on('error', () => {})
  const refused = answer(much)
  for (let i = 0; i < 20; i++) much.write(Buffer.alloc(64 * 1024))
  t.equal((await refused)[0], 413, 'a refusal arrives before the body ends')
  await once(much, 'close')
  t.pass('a client that goes on sending is cut off')
})
