/** Clients that half-close the connection after the request. */
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { hello, startChat, until, type Open } from './api-kit.js'

/** An engine that sends no output until it is aborted. */
const silent: Open = async function * (_task, signal) {
  if (!signal.aborted) await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
  yield * []
}

/** Sends a request and half-closes the connection. */
function asked (
  url: string, body: object, version = '1.1', what = 'POST /v1/chat/completions'
): Socket {
  const { hostname, port, host } = new URL(url)
  const payload = JSON.stringify(body)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  socket.on('error', () => {})
  socket.end(`${what} HTTP/${version}\r\nhost: ${host}\r\ncontent-type: application/json\r\n` +
    `content-length: ${Buffer.byteLength(payload)}\r\n\r\n${payload}`)
  return socket
}

t.test('the work of a client that ends its side ends, and it gets a status', async (t) => {
  for (const [stream, version] of [[false, '1.1'], [true, '1.1'], [false, '1.0']] as const) {
    const kit = await startChat(t, { open: silent })
    const said = await text(asked(await kit.rig.listen(), { ...hello, stream }, version))
    t.match(said, /^HTTP\/1\.1 499 /, `${version}, stream: ${stream}`)
    t.match(JSON.parse(said.slice(said.indexOf('\r\n\r\n'))), {
      error: { reason: 'cancelled', message: /closed its side/, requestId: String }
    })
    await until(() => kit.asked.aborted === kit.asked.tasks.length)
  }
})

t.test('what asks nobody else is answered', async (t) => {
  const { rig } = await startChat(t)
  const said = await text(asked(await rig.listen(), {}, '1.1', 'GET /state'))
  t.match(said, /^HTTP\/1\.1 200 /)
})
