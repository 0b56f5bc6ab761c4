// A bare relay that forwards each message of one WebSocket to the next WebSocket that connects.
import { WebSocketServer } from 'ws'
import { serveWorker } from '../lib/worker.mjs'

const FULL_BYTES = 1024 * 1024

await serveWorker(async () => {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false })
  let waiting
  server.on('connection', (ws) => {
    ws.on('error', () => {})
    if (waiting === undefined) { waiting = ws; return }
    const [to, from] = [waiting, ws]
    waiting = undefined
    from.on('message', (message) => {
      to.send(message, () => { if (to.bufferedAmount < FULL_BYTES / 4) from.resume() })
      if (to.bufferedAmount > FULL_BYTES) from.pause()
    })
    to.once('close', () => { from.terminate() })
  })
  await new Promise((resolve) => { server.once('listening', resolve) })
  return { ready: { url: `ws://127.0.0.1:${server.address().port}` }, handle: () => ({}) }
})
