import { kernelErrors } from '../api/errors.js'
import { kernelManifest } from './kernel-manifest.js'
import type { ErrorDecl, Manifest, RouteDecl } from '../api/plugin.js'
import type { JsonSchema } from '../api/schema.js'

/** A route with its owner. */
export interface OwnedRoute { owner: string, name: string, decl: RouteDecl }

/** Every declared route of a set of plugins. */
export function routesOf (manifests: readonly Manifest[]): OwnedRoute[] {
  return manifests.flatMap((m) =>
    Object.entries(m.routes ?? {}).map(([name, decl]) => ({ owner: m.name, name, decl })))
}

interface OwnedError { owner: string, reason: string, decl: ErrorDecl }

/** Every error reason with its owner, kernel first. */
export function errorsOf (manifests: readonly Manifest[]): OwnedError[] {
  return [kernelManifest as Manifest, ...manifests].flatMap((m) =>
    Object.entries(m.errors ?? {}).map(([reason, decl]) => ({ owner: m.name, reason, decl })))
}

const errorSchema = {
  type: 'object',
  required: ['error', 'detail'],
  properties: {
    error: {
      type: 'object',
      required: ['message', 'type', 'param', 'code', 'reason', 'retryable', 'requestId', 'details'],
      properties: {
        message: { type: 'string' }, type: { type: 'string' }, param: { type: ['string', 'null'] },
        code: { type: 'integer' }, reason: { type: 'string' }, retryable: { type: 'boolean' },
        requestId: { type: 'string' }, details: { type: 'object' }
      }
    },
    detail: { type: 'string' }
  }
} as const

/** Errors any route may answer with, besides its own. */
const COMMON = ['invalid_request', 'unauthenticated', 'missing_grant', 'internal', 'shutting_down'] as const

/** The OpenAPI 3.1 document of a set of routes; its schema dialect is ours, so schemas go in unchanged. */
export function openApi (
  routes: readonly OwnedRoute[], manifests: readonly Manifest[], version: string
): object {
  const reasons = new Map(errorsOf(manifests).map((e) => [e.reason, e.decl]))
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    const path = route.decl.url.replace(/:([A-Za-z_]+)/g, '{$1}').replace(/\*$/, '{path}')
    paths[path] = { ...paths[path], [route.decl.method.toLowerCase()]: operation(route, reasons) }
  }
  return {
    openapi: '3.1.0',
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    info: {
      title: 'svc',
      version,
      description: 'A cluster of inference nodes. Any node answers any request.'
    },
    paths: Object.fromEntries(Object.entries(paths).sort(([a], [b]) => a < b ? -1 : 1)),
    components: {
      schemas: { Error: errorSchema },
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } }
    }
  }
}

function operation ({ owner, name, decl }: OwnedRoute, reasons: ReadonlyMap<string, ErrorDecl>): object {
  const errors = [...new Set([...COMMON, ...decl.errors ?? []])]
  return {
    operationId: `${owner}.${name}`,
    summary: decl.summary,
    tags: [owner],
    'x-authority': decl.authority,
    ...(decl.members === true ? { 'x-members': true } : {}),
    'x-errors': errors,
    ...(decl.authority === null ? { security: [] } : { security: [{ token: [] }] }),
    ...parameters(decl),
    ...requestBody(decl),
    responses: { 200: answer(decl), ...errorAnswers(errors, reasons) }
  }
}

function requestBody ({ body }: RouteDecl): { requestBody?: object } {
  if (body === undefined) return {}
  return { requestBody: { required: true, content: { 'application/json': { schema: body } } } }
}

function parameters (decl: RouteDecl): { parameters?: object[] } {
  const list = [...fields(decl.params, 'path'), ...fields(decl.query, 'query')]
  return list.length === 0 ? {} : { parameters: list }
}

function fields (schema: JsonSchema | undefined, where: 'path' | 'query'): object[] {
  const properties = (schema?.['properties'] ?? {}) as Record<string, JsonSchema>
  const required = new Set((schema?.['required'] ?? []) as string[])
  return Object.entries(properties).map(([name, field]) => ({
    name: name === '*' ? 'path' : name,
    in: where,
    required: where === 'path' || required.has(name),
    schema: field
  }))
}

function answer (decl: RouteDecl): object {
  const media = decl.reply === undefined ? {} : { schema: decl.reply }
  return { description: 'OK', content: { [decl.produces ?? 'application/json']: media } }
}

function errorAnswers (
  errors: readonly string[], reasons: ReadonlyMap<string, ErrorDecl>
): Record<string, object> {
  const byStatus = new Map<number, string[]>()
  for (const reason of errors) {
    const status = (reasons.get(reason) ?? kernelErrors.internal).status
    byStatus.set(status, [...byStatus.get(status) ?? [], reason])
  }
  return Object.fromEntries([...byStatus].map(([status, list]) => [status, {
    description: list.join(', '),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } }
  }]))
}
