// A bare TCP proxy.
import net from 'node:net'
import { serveWorker } from '../lib/worker.mjs'

/** options: { port }, the port of the proxied server */
await serveWorker(async ({ port }) => {
  const server = net.createServer((near) => {
    const far = net.connect(port, '127.0.0.1')
    for (const socket of [near, far]) socket.on('error', () => { near.destroy(); far.destroy() })
    near.pipe(far).pipe(near)
  })
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  return { ready: { url: `http://127.0.0.1:${server.address().port}` }, handle: () => ({}) }
})
