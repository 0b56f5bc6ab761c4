import t from 'tap'
import { bounded } from '../kernel/api/bounds.js'
import { isObject, type JsonSchema } from '../kernel/api/schema.js'
import { gatherKnown } from '../kernel/config/config-schemas.js'
import { kernelManifest } from '../kernel/plugins/kernel-manifest.js'
import { openApi } from '../plugins/diagnostics/openapi.js'
import { bundled } from '../plugins/index.js'
import type { Manifest, RouteDecl } from '../kernel/index.js'

const manifests: readonly Manifest[] = [kernelManifest, ...bundled.map(({ manifest }) => manifest)]
const BOUND = { string: 'maxLength', array: 'maxItems', object: 'maxProperties' } as const
const INNER =
  ['items', 'additionalProperties', 'anyOf', 'oneOf', 'allOf', 'prefixItems', 'not', 'if', 'then', 'else']

/** Paths in a schema at which a value may have any size or any type. */
function openPlaces (schema: unknown, at: string): string[] {
  if (Array.isArray(schema)) return schema.flatMap((one, i) => openPlaces(one, `${at}|${i}`))
  // The values of ignored and refused fields are never read.
  if (!isObject(schema) || 'x-ignored' in schema || 'x-refused' in schema) return []
  if ('enum' in schema || 'const' in schema) return []
  const types = [schema['type'] ?? []].flat() as string[]
  const parts = INNER.flatMap((key) => openPlaces(schema[key], `${at}.<${key}>`))
  const named = Object.entries(schema['properties'] ?? {})
  const untyped = types.length === 0 && named.length === 0 && !INNER.some((key) => key in schema)
  const missing = Object.entries(BOUND).filter(([type, keyword]) => types.includes(type) &&
    !(keyword in schema) && !(type === 'object' && schema['additionalProperties'] === false))
  return [
    ...missing.map(([type]) => `${at}: ${type}`), ...untyped ? [`${at}: anything`] : [], ...parts,
    ...named.flatMap(([key, one]) => openPlaces(one, `${at}.${key}`))
  ]
}

t.test('every text, list and object that a client or svc.yaml may send has a bound', async (t) => {
  const { paths } = openApi(manifests, '1.0.0') as { paths: Record<string, Record<string, {
    parameters?: { name: string, schema: JsonSchema }[]
    requestBody?: { content: Record<string, { schema: JsonSchema }> }
  }>> }
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ at: `${method} ${path}`, ...operation })))
  t.ok(operations.length > 100)
  const asked = operations.flatMap(({ at, parameters = [], requestBody }) => [
    ...parameters.flatMap(({ name, schema }) => openPlaces(schema, `${at} ?${name}`)),
    ...Object.values(requestBody?.content ?? {}).flatMap(({ schema }) => openPlaces(schema, at))
  ])
  // A call's payload is checked below, against the schema of its capability.
  const payloads = ['call', 'stream'].map((one) => `post /v1/capabilities/${one}.payload: anything`)
  t.same(asked.sort(), payloads)

  const capabilities = manifests.flatMap((manifest) => Object.values(manifest.capabilities ?? {}))
  t.ok(capabilities.length > 2)
  for (const { id, input_schema: input, input_bounds: bounds, input_chunk_schema: chunk } of capabilities) {
    t.same([...openPlaces(bounds ?? input, id), ...openPlaces(chunk, `${id} chunk`)], [], id)
    if (bounds === undefined) continue
    t.same(Object.keys(bounds['properties'] as object), Object.keys(input['properties'] as object))
  }

  const settings = gatherKnown(bundled.map(({ manifest }) => ({ ...manifest, bundled: true })))
  for (const { path, schema } of settings.pieces) t.same(openPlaces(schema, path.join('.')), [])
})

t.test('answers and errors of other layers are declared with the route', async (t) => {
  interface Operation { responses: Record<string, { description: string, content: object }> }
  const { paths } = openApi(manifests, '1.0.0') as {
    paths: Record<string, Record<string, Operation>>
  }
  const streamed = paths['/v1/capabilities/stream']!['post']!.responses['200']!
  t.match(Object.keys(streamed.content), ['application/vnd.svc.frames', 'text/event-stream', 'audio/mpeg'])
  const removal = paths['/ollama/api/delete']!['delete']!.responses
  t.match(removal['409'], { description: /model_bundled/ })
  t.match(removal['431'],
    { content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } })
  const routes: RouteDecl[] = manifests.flatMap((one) => Object.values(one.routes ?? {}))
  // Fails if `asks` names a route that does not exist.
  for (const asked of routes.flatMap(({ asks = [] }) => asks)) {
    t.ok(routes.some(({ method, url }) => asked === `${method} ${url}`), asked)
  }
})

t.test('bounds are added to a schema without any', async (t) => {
  const schema = {
    type: 'object',
    properties: {
      a: { type: ['string', 'null'], default: { type: 'string' } }, b: { type: 'string', maxLength: 5 },
      c: { type: 'array', items: { type: 'object' } }, d: { enum: ['x'] },
      e: { 'x-refused': { why: 'type' } },
      type: { type: 'object', additionalProperties: false, properties: {} }
    }
  } as const
  t.strictSame(bounded(schema), {
    type: 'object', maxProperties: 10_000,
    properties: {
      a: { type: ['string', 'null'], default: { type: 'string' }, maxLength: 4096 }, b: schema.properties.b,
      c: { type: 'array', maxItems: 10_000, items: { type: 'object', maxProperties: 10_000 } },
      d: schema.properties.d, e: schema.properties.e, type: schema.properties.type
    }
  })
  t.equal(bounded(schema), bounded(schema), 'one object, so that it is compiled once')
  t.ok(openPlaces(schema, '').length >= 4, 'the test sees what is open')
})
