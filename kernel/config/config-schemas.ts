import { bounded } from '../api/bounds.js'
import type { ConfigOwner } from '../api/plugin.js'
import type { JsonSchema } from '../api/schema.js'
import { kernelKeys } from './kernel-settings.js'
import { formatPath, isTree, isUnder, pathKey, type Path } from './paths.js'
import { nearest } from './nearest.js'

/** A schema and its path in svc.yaml; each schema is compiled separately. */
export interface ConfigSchema {
  readonly path: Path
  readonly schema: JsonSchema
  readonly owner: string
  /** False for the schema of a third-party plugin, which svc.yaml names by `module`. */
  readonly bundled: boolean
}

export interface ConfigSchemas {
  readonly owners: readonly ConfigOwner[]
  readonly pieces: readonly ConfigSchema[]
  /** Settings, that is schemas without `properties`, in schema order. */
  readonly leaves: readonly { readonly path: Path, readonly schema: JsonSchema }[]
  /** Every path that may be written, for sections and settings. */
  readonly paths: readonly Path[]
}

export function gatherKnown (owners: readonly ConfigOwner[]): ConfigSchemas {
  const pieces: ConfigSchema[] = []
  const add = (path: Path, schema: JsonSchema, { name, bundled }: ConfigOwner): void => {
    pieces.push({ path, schema: bounded(prepare(schema)), owner: name, bundled })
  }
  for (const owner of [{ name: 'kernel', settings: kernelKeys, bundled: true }, ...owners]) {
    for (const [key, schema] of Object.entries(owner.settings ?? {})) add([key], schema, owner)
  }
  for (const owner of owners) add(['plugins', owner.name], pluginSchema(owner), owner)

  const leaves: { path: Path, schema: JsonSchema }[] = []
  const paths: Path[] = [['plugins']]
  for (const piece of pieces) {
    walk(piece.schema, piece.path, (schema, path, leaf) => {
      paths.push(path)
      if (leaf) leaves.push({ path, schema })
    })
  }
  return { owners, pieces, leaves, paths }
}

/** The schema of `plugins.<name>`: the plugin's own schema plus the kernel's keys. */
export function pluginSchema (owner: ConfigOwner): JsonSchema {
  const { config = {} } = owner
  const properties = isTree(config['properties']) ? config['properties'] : {}
  return {
    ...config,
    type: 'object',
    properties: {
      enabled: { type: 'boolean', default: true, description: 'Whether the plugin starts.' },
      ...(owner.bundled ? {} : { module: moduleSchema }), ...properties
    }
  }
}

const moduleSchema: JsonSchema = {
  'type': 'string',
  'format': 'module',
  'x-local': true,
  'description': 'Location of the plugin: a path relative to svc.yaml, or the name of a package.'
}

function walk (
  schema: JsonSchema, path: Path, visit: (schema: JsonSchema, path: Path, leaf: boolean) => void
): void {
  const properties = schema['properties']
  const section = isTree(properties)
  visit(schema, path, !section)
  if (!section) return
  for (const [key, inner] of Object.entries(properties)) {
    if (isTree(inner)) walk(inner, [...path, key], visit)
  }
}

const openEnds = [
  'additionalProperties', 'unevaluatedProperties', 'patternProperties', '$ref', 'allOf', 'anyOf', 'oneOf'
]

/**
 * Prepares a schema for svc.yaml: a section with `properties` refuses unknown keys by default, and a missing
 * section is filled in if all its keys have defaults.
 */
function prepare (schema: JsonSchema): JsonSchema {
  const made: Record<string, unknown> = { ...schema }
  for (const keyword of ['items', 'additionalProperties']) {
    const inner = schema[keyword]
    if (isTree(inner)) made[keyword] = prepare(inner)
  }
  const properties = schema['properties']
  if (!isTree(properties)) return made
  const inner = Object.entries(properties)
    .map(([key, value]) => [key, isTree(value) ? prepare(value) : value] as const)
  made['properties'] = Object.fromEntries(inner)
  if (!openEnds.some((keyword) => keyword in schema)) made['additionalProperties'] = false
  const filled = new Set(inner.filter(([, value]) => isTree(value) && 'default' in value).map(([key]) => key))
  const required = Array.isArray(schema['required']) ? schema['required'] : []
  const fills = filled.size > 0 && required.every((key) => filled.has(String(key)))
  if (schema['type'] === 'object' && !('default' in schema) && fills) made['default'] = {}
  return made
}

/** The schema at a path, found through `properties`, maps and lists; undefined if there is none. */
export function schemaAt (known: ConfigSchemas, path: Path): JsonSchema | undefined {
  const piece = known.pieces.find((one) => isUnder(path, one.path))
  let schema: unknown = piece?.schema
  for (const key of path.slice(piece?.path.length ?? 0)) {
    if (!isTree(schema)) return undefined
    const named = isTree(schema['properties']) ? schema['properties'] : {}
    schema = Object.hasOwn(named, key) ? named[key] : schema['additionalProperties'] ?? schema['items']
  }
  return isTree(schema) ? schema : undefined
}

/** True if the schema at a path or above it has `x-secret`. */
export const isSecret = (known: ConfigSchemas, path: Path): boolean => isMarked(known, path, 'x-secret')

/** True if no HTTP route may change the setting, because its schema or one above it has `x-local`. */
export function isLocal (known: ConfigSchemas, path: Path): boolean {
  // The schema of a plugin that could not be loaded is unknown, so any of its keys may name a program to run.
  const foreign = path[0] === 'plugins' && path.length > 2 && path[2] !== 'enabled'
  return isMarked(known, path, 'x-local') || (foreign && schemaAt(known, path.slice(0, 3)) === undefined)
}

function isMarked (known: ConfigSchemas, path: Path, mark: 'x-secret' | 'x-local'): boolean {
  return path.some((_, index) => schemaAt(known, path.slice(0, index + 1))?.[mark] === true)
}

/**
 * Suggests a key for an unknown one: a similar key in the same section, or the same key in a plugin or
 * another section. `path` is the full path; `key` is too, unless the key is in the same section.
 */
export function suggestKey (known: ConfigSchemas, path: Path): { key: string, path: string } | undefined {
  const key = path.at(-1) ?? ''
  const parent = path.slice(0, -1)
  const beside = known.paths.filter((one) => one.length === path.length && isUnder(one, parent))
  const near = nearest(key, beside.map((one) => one.at(-1) ?? ''))
  if (near !== undefined) return { key: near, path: formatPath([...parent, near]) }
  const whole = (found: string): { key: string, path: string } => ({ key: found, path: found })
  const plugin = pathKey(['plugins', ...path])
  if (known.paths.some((one) => pathKey(one) === plugin)) return whole(formatPath(['plugins', ...path]))
  const fits = (one: Path): boolean => one.at(-1) === key || formatPath(one) === key
  const elsewhere = new Map(known.paths.filter(fits).map((one) => [pathKey(one), formatPath(one)]))
  if (elsewhere.size === 0 || elsewhere.size > 3) return undefined
  return whole([...elsewhere.values()].join('" or "'))
}
