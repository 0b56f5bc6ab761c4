import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import type { PageOf } from '../api/cluster.js'
import type { ServedNames } from './origin.js'

export interface PageSources {
  served: () => ServedNames
  /** The machine of the member behind an origin; null if it is not that of another member. */
  pageOf?: (origin: string) => PageOf | null
}

/** Headers that a page may read, besides those that any page may. */
const READ = [
  'x-svc-request-id', 'x-request-id', 'request-id', 'x-svc-command-id', 'x-svc-task-id', 'x-svc-model',
  'x-svc-voice', 'x-svc-retried', 'x-svc-media-types', 'x-svc-transfers', 'x-svc-store-delete',
  'x-svc-warning', 'x-svc-ignored', 'content-disposition', 'etag', 'retry-after', 'mcp-session-id'
]

/** Lets pages of `api.allowed_origins` and of other members read answers, and no others. */
export function allowCors (app: FastifyInstance, { served, pageOf = () => null }: PageSources): void {
  const mayRead = (origin: string): boolean =>
    served().allowedOrigins.includes(origin) || pageOf(origin) !== null
  void app.register(cors, {
    origin: (origin, answer) => { answer(null, origin !== undefined && mayRead(origin)) },
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'],
    // Any request header is allowed: SDKs have their own, and none grants anything without a token.
    credentials: false,
    maxAge: 600,
    exposedHeaders: READ
  })
}
