/** Every setting that names a program, a path or an address must declare who may change it. */
import t from 'tap'
import { resolveConfig } from '../kernel/config/resolve.js'
import { readConfigText } from '../kernel/config/text.js'
import { gatherKnown } from '../kernel/config/config-schemas.js'
import { isTree } from '../kernel/config/paths.js'
import { ownerOf } from '../kernel/plugins/installation.js'
import { bundled } from '../plugins/index.js'
import type { JsonSchema } from '../kernel/api/schema.js'

const NAMES = new RegExp('(^|_)(path|file|folder|dir|cert|key|program|binary|bin|command|module|source|url|' +
  'uri|hosts?|peers|advertise|env|options|proxy|roots)(_|$)')
const WORDS = new RegExp('\\b(path|files?|folders?|director(y|ies)|programs?|binary|module|package|' +
  'download|command|url|address(es)?|hosts?(?! name)|environment|engine)\\b', 'i')
const FORMATS = /^(host|host-port|http-url|module|uri|uri-reference)$/

/** Yields the path, schema and mark of every setting, map value and list item. Marks are inherited. */
function * all (schema: JsonSchema, path: string, marked = false): Generator<[string, JsonSchema, boolean]> {
  const is = marked || schema['x-local'] === true || typeof schema['x-remote'] === 'string'
  yield [path, schema, is]
  const { properties, items, additionalProperties: values } = schema
  for (const [key, inner] of Object.entries(isTree(properties) ? properties : {})) {
    yield * all(inner as JsonSchema, `${path}.${key}`, is)
  }
  if (isTree(items)) yield * all(items, `${path}[]`, is)
  if (isTree(values)) yield * all(values, `${path}.*`, is)
}

t.test('a setting with an address or path declares whether only the file may set it', (t) => {
  const { pieces } = gatherKnown(bundled.map(({ manifest }) => ownerOf(manifest, true)))
  const found: string[] = []
  for (const piece of pieces) {
    for (const [path, schema, marked] of all(piece.schema, piece.path.join('.'))) {
      const { type, format, description = '', properties, additionalProperties: values } = schema
      const name = path.split('.').at(-1)!
      const holdsText = ['string', 'array', 'object'].some((one) => [type].flat().includes(one))
      const suspect = NAMES.test(name) || FORMATS.test(String(format)) || WORDS.test(String(description))
      const chosen = 'enum' in schema || (isTree(values) && 'enum' in values)
      if (!suspect || !holdsText || chosen || isTree(properties)) continue
      found.push(path)
      t.ok(marked, `${path} has neither x-local nor x-remote: ${String(description)}`)
      const reason = schema['x-remote']
      if (reason !== undefined) {
        t.match(reason, /\w+ \w+ \w+/, `${path} says why it may be changed over HTTP`)
        t.not(schema['x-local'], true, `${path} is one or the other`)
      }
    }
  }
  t.ok(found.length > 10)
  t.end()
})

t.test('no address setting accepts a metadata service, or a password in the address', (t) => {
  const owners = bundled.map(({ manifest }) => ownerOf(manifest, true))
  const { config } = resolveConfig(readConfigText('', null), { owners, env: {} })
  const urls = [...config.schemas()].filter(([path]) => /(^|[._])url$/.test(path)).map(([path]) => path)
  t.same(urls.sort(),
    ['engines.url', 'logging.ingest_url', 'model_store.hub.url', 'relay.url', 'tracing.otlp_url'])
  for (const path of urls) {
    for (const [url, fine] of [['https://example.org', true], ['https://10.0.0.7:8443', true],
      ['https://169.254.169.254/', false], ['https://metadata.google.internal/', false],
      ['https://[fe80::1]/', false], ['https://ann:pa55@example.org', false]] as const) {
      const text = path.split('.').toReversed().reduce<unknown>((inner, key) => ({ [key]: inner }), url)
      const { problems } = resolveConfig(readConfigText(JSON.stringify(text), null), { owners, env: {} })
      t.equal(problems.length === 0, fine, `${path}: ${url}`)
    }
  }
  t.end()
})
