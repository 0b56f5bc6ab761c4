import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import type { PageOf } from '../api/cluster.js'
import type { ServedNames } from './origin.js'

export interface PageSources {
  served: () => ServedNames
  /** Whether the member that serves an origin runs on this machine; null if no member serves it. */
  pageOf?: (origin: string) => PageOf | null
}

/** Response headers that pages may read, in addition to those that browsers always expose. */
const READ = [
  'x-svc-request-id', 'x-request-id', 'request-id', 'x-svc-command-id', 'x-svc-task-id', 'x-svc-model',
  'x-svc-voice', 'x-svc-retried', 'x-svc-media-types', 'x-svc-transfers', 'x-svc-store-delete',
  'x-svc-warning', 'x-svc-ignored', 'content-disposition', 'etag', 'retry-after', 'mcp-session-id'
]

/** CORS: only pages from `api.allowed_origins` and from members may read answers. */
export function allowCors (app: FastifyInstance, { served, pageOf = () => null }: PageSources): void {
  const mayRead = (origin: string): boolean =>
    served().allowedOrigins.includes(origin) || pageOf(origin) !== null
  void app.register(cors, {
    origin: (origin, answer) => { answer(null, origin !== undefined && mayRead(origin)) },
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'],
    // Allows any request header, since SDKs send their own and none grants anything without a token.
    credentials: false,
    maxAge: 600,
    exposedHeaders: READ
  })
}
