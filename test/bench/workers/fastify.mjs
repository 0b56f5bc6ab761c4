// A bare fastify with one route that sends a fixed body.
import { fastify } from 'fastify'
import { serveWorker } from '../lib/worker.mjs'

await serveWorker(async ({ path, body }) => {
  const app = fastify({ logger: false })
  app.get(path, (_request, reply) => {
    reply.type('application/json; charset=utf-8').send(body)
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  return { ready: { url: `http://127.0.0.1:${app.server.address().port}` }, handle: () => ({}) }
})
