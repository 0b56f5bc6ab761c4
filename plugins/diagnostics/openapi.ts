import { bounded, errorBody, isAudited, isObject, kernelError, routesOf } from '../../kernel/index.js'
import { stateReply } from './state-schema.js'
import type { ErrorDecl, JsonSchema, Manifest, OwnedRoute, RouteDecl } from '../../kernel/index.js'

/** Errors that any route may answer with, in addition to its own. */
const COMMON =
  ['invalid_request', 'unauthenticated', 'missing_grant', 'overloaded', 'internal', 'shutting_down',
    'header_too_large'] as const
/** Extra error for routes with path or query parameters, since those can make the URL too long. */
const OF_ADDRESSES = ['uri_too_long'] as const
/** Extra errors for routes with a request body. */
const OF_BODIES = ['payload_too_large', 'unsupported_media_type'] as const

/** A sample error body: error schemas are derived from it, because foreign APIs have their own formats. */
const SAMPLE = errorBody(kernelError('internal', ''), '')
const EVENTS = 'text/event-stream'

type Failure = RouteDecl['failure']

/**
 * The OpenAPI 3.1 document of the routes that manifests declare. It declares svc's own schema dialect, so
 * schemas go in unchanged. Leaves out WebSockets, which OpenAPI cannot describe.
 */
export function openApi (
  manifests: readonly Manifest[], version: string, scheme: 'http' | 'https' = 'http'
): object {
  const routes = routesOf(manifests)
  const reasons = new Map(manifests.flatMap(({ errors = {} }) => Object.entries(errors)))
  const paths: Record<string, Record<string, object>> = {}
  const failures = failuresOf(routes)
  for (const route of routes) {
    // A path with a trailing slash is an alias for the path without it.
    if (route.decl.socket === true || /.\/$/.test(route.decl.url)) continue
    const path = route.decl.url.replace(/:([A-Za-z_]+)/g, '{$1}').replace(/\*$/, '{path}')
    const { name: error } = failures.get(route.decl.failure)!
    const made = operation({ ...route, decl: declOf(route.decl, manifests, routes) }, reasons, error)
    paths[path] = { ...paths[path], [route.decl.method.toLowerCase()]: made }
  }
  return {
    openapi: '3.1.0',
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    info: {
      title: 'svc',
      version,
      description: 'A cluster of inference nodes. Any node answers any request. WebSockets are not ' +
        'included: GET /v1/capabilities/session and GET /state/sync.',
      license: { name: 'MIT', identifier: 'MIT' }
    },
    servers: [{
      url: '{scheme}://{host}', description: 'A node',
      variables: {
        scheme: { default: scheme, enum: ['http', 'https'], description: 'https if api.tls is on' },
        host: { default: '127.0.0.1:52415', description: 'its address and port' }
      }
    }],
    tags: [...new Set(routes.map(({ owner }) => owner))].sort().map((name) => ({
      name,
      description: name === 'kernel' ? 'Part of every node.'
        : manifests.find((manifest) => manifest.name === name)!.summary
    })),
    paths: Object.fromEntries(Object.entries(paths).sort(([a], [b]) => a < b ? -1 : 1)),
    components: {
      schemas: Object.fromEntries([...failures.values()].map(({ name, schema }) => [name, schema])),
      securitySchemes: {
        token: {
          type: 'http', scheme: 'bearer',
          description: 'A token of `svc token create`. Many routes need none from the same machine.'
        },
        key: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'The same token.' }
      }
    }
  }
}

/** A route's declaration, plus errors from routes that it calls, and plugins' schemas and media types. */
function declOf (given: RouteDecl, manifests: readonly Manifest[], routes: readonly OwnedRoute[]): RouteDecl {
  const asked = routes.filter(({ decl: { method, url } }) => given.asks?.includes(`${method} ${url}`))
  const errors = [...given.errors ?? [], ...asked.flatMap(({ decl }) => decl.errors ?? [])]
  const decl = { ...given, errors }
  if (decl.url === '/state') return { ...decl, reply: stateReply(manifests) }
  if (decl.url !== '/v1/capabilities/stream') return decl
  const media = manifests.flatMap(({ capabilities = {} }) =>
    Object.values(capabilities).flatMap(({ media_type: type }) => type ?? []))
  return { ...decl, streams: [...decl.streams ?? [], ...media] }
}

/** The error formats of these routes: name and schema. */
function failuresOf (routes: readonly OwnedRoute[]): Map<Failure, { name: string, schema: JsonSchema }> {
  const found = new Map<Failure, { name: string, schema: JsonSchema }>()
  for (const { owner, decl: { failure } } of [{ owner: '', decl: { failure: undefined } }, ...routes]) {
    if (found.has(failure)) continue
    const taken = [...found.values()].filter(({ name }) => name.startsWith(`Error_${owner}`)).length
    const name = failure === undefined ? 'Error' : `Error_${owner}${taken === 0 ? '' : `_${taken + 1}`}`
    found.set(failure, { name, schema: shapeOf(failure?.(SAMPLE, {}) ?? SAMPLE) })
  }
  return found
}

/** Infers a schema from a sample value; a null in the sample stands for text or null. */
function shapeOf (value: unknown): JsonSchema {
  if (value === null) return { type: ['string', 'null'] }
  if (!isObject(value)) return { type: Number.isInteger(value) ? 'integer' : typeof value }
  const properties = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shapeOf(inner)]))
  const required = Object.keys(value)
  return required.length === 0 ? { type: 'object' } : { type: 'object', required, properties }
}

function operation (
  { owner, name, decl }: OwnedRoute, reasons: ReadonlyMap<string, ErrorDecl>, error: string
): object {
  const errors = [...new Set([
    ...COMMON, ...decl.body === undefined && decl.uploads === undefined ? [] : OF_BODIES,
    ...decl.params === undefined && decl.query === undefined ? [] : OF_ADDRESSES, ...decl.errors ?? [],
    ...isAudited(decl) ? ['audit_unavailable'] : []
  ])]
  return {
    operationId: `${owner}.${name}`,
    summary: decl.summary,
    tags: [owner],
    'x-authority': decl.authority,
    ...(decl.members === true ? { 'x-members': true } : {}),
    'x-errors': errors,
    security: decl.authority === null ? [] : [{ token: [] }, { key: [] }],
    ...parameters(decl),
    ...requestBody(decl),
    responses: { 200: answer(decl), ...errorAnswers(errors, reasons, error) }
  }
}

function requestBody ({ body, uploads = {} }: RouteDecl): { requestBody?: object } {
  const types = Object.entries({ ...body === undefined ? {} : { 'application/json': body }, ...uploads })
  if (types.length === 0) return {}
  // A route whose body may be null accepts a request without one.
  const required = ![body?.['type']].flat().includes('null')
  const content = types.map(([type, schema]) => [type, { schema: bounded(schema) }] as const)
  return { requestBody: { required, content: Object.fromEntries(content) } }
}

function parameters (decl: RouteDecl): { parameters?: object[] } {
  const [params, query] = [decl.params, decl.query].map((schema) => schema && bounded(schema))
  const list = [...fields(params, 'path'), ...fields(query, 'query')]
  return list.length === 0 ? {} : { parameters: list }
}

function fields (schema: JsonSchema | undefined, where: 'path' | 'query'): object[] {
  const properties = (schema?.['properties'] ?? {}) as Record<string, JsonSchema>
  const required = new Set((schema?.['required'] ?? []) as string[])
  return Object.entries(properties).map(([name, field]) => ({
    name: name === '*' ? 'path' : name, in: where, required: where === 'path' || required.has(name),
    schema: field
  }))
}

function answer (decl: RouteDecl): object {
  const types = [decl.produces ?? 'application/json', ...streamsOf(decl)]
  const content = [...new Set(types)].map((type) => [type, { schema: bodyOf(type, decl) }] as const)
  return { description: 'OK', content: Object.fromEntries(content) }
}

/** Media types of a streaming answer: as declared, else SSE if the request has `stream` or `follow`. */
function streamsOf ({ streams, body, query }: RouteDecl): readonly string[] {
  if (streams !== undefined) return streams
  const properties = Object.assign({}, body?.['properties'], query?.['properties']) as object
  return 'stream' in properties || 'follow' in properties ? [EVENTS] : []
}

function bodyOf (type: string, { reply }: RouteDecl): JsonSchema {
  if (type.startsWith('application/json')) return reply ?? { type: 'object' }
  if (type.startsWith(EVENTS)) return { description: 'Server-sent events.' }
  return type.startsWith('text/') || type === 'application/x-ndjson'
    ? { type: 'string' }
    : { type: 'string', format: 'binary' }
}

function errorAnswers (
  errors: readonly string[], reasons: ReadonlyMap<string, ErrorDecl>, error: string
): Record<string, object> {
  const byStatus = new Map<number, string[]>()
  for (const reason of errors) {
    const status = reasons.get(reason)?.status ?? 500
    byStatus.set(status, [...byStatus.get(status) ?? [], reason])
  }
  return Object.fromEntries([...byStatus].map(([status, list]) => [status, {
    description: list.join(', '),
    // Node's HTTP parser does not know routes, so its errors never have the format of a foreign API.
    content: { 'application/json': { schema: {
      $ref: `#/components/schemas/${list.includes('header_too_large') ? 'Error' : error}`
    } } }
  }]))
}
