import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { overlayOf, problemAt, type Draft } from './draft.js'
import { isOpenBound } from '../api/bounds.js'
import type { JsonSchema } from '../api/schema.js'
import { isSecret, suggestKey, type ConfigSchema } from './config-schemas.js'
import { cleanCopy, formatPath, getIn, isTree, pathKey, setIn, type Path } from './paths.js'
import { nearest } from './nearest.js'
import { describe, formats, show } from './values.js'
import type { Problem } from './problems.js'

function makeAjv (): Ajv2020 {
  const ajv = new Ajv2020({
    strict: true,
    strictRequired: false,
    allowUnionTypes: true,
    allErrors: true,
    verbose: true,
    useDefaults: true,
    coerceTypes: false,
    removeAdditional: false,
    ownProperties: true,
    // Compiling the meta-schema takes longer than everything else here, and strict mode finds the same
    // faults.
    meta: false, validateSchema: false, code: { optimize: false }
  })
  for (const keyword of ['x-secret', 'x-expected', 'x-local', 'x-remote']) ajv.addKeyword(keyword)
  for (const [name, { test }] of Object.entries(formats)) ajv.addFormat(name, test)
  return ajv
}

/**
 * Validates the draft, fills in defaults and collects every problem. A bundled schema without values is not
 * compiled, since that is slow and its defaults suffice.
 */
export function validateDraft (draft: Draft): void {
  let ajv: Ajv2020 | undefined
  for (const piece of draft.known.pieces) {
    const unset = getIn(draft.tree, piece.path) === undefined
    const defaults = unset && piece.bundled ? defaultsOf(piece) : undefined
    if (defaults !== undefined) {
      setIn(draft.tree, piece.path, defaults)
      continue
    }
    const validate = compile(ajv ??= makeAjv(), piece)
    if (typeof validate === 'string') draft.problems.push(ownersFault(piece, validate))
    else checkPiece(draft, piece, validate)
  }
}

/** The defaults of a schema that has no value set; undefined if the validator must fill them in. */
function defaultsOf ({ path, schema }: ConfigSchema): unknown {
  const made = cleanCopy(schema['default'] ?? (path[0] === 'plugins' ? {} : undefined))
  return fillIn(schema, made) ? made : undefined
}

/** Fills in defaults like Ajv's `useDefaults`; false for a schema that only Ajv can complete. */
function fillIn (schema: JsonSchema, value: unknown): boolean {
  if (!isTree(value)) return true
  const properties = isTree(schema['properties']) ? schema['properties'] : {}
  for (const [key, inner] of Object.entries(properties)) {
    if (!isTree(inner)) continue
    if (value[key] === undefined && 'default' in inner) value[key] = cleanCopy(inner['default'])
    if (!fillIn(inner, value[key])) return false
  }
  const required = Array.isArray(schema['required']) ? schema['required'] : []
  return required.every((key) => value[String(key)] !== undefined) &&
    !conditional.some((keyword) => keyword in schema)
}

/** Schema keywords with which a default may depend on other values. */
const conditional = ['allOf', 'anyOf', 'oneOf', 'if', 'dependentSchemas', '$ref']

function compile (ajv: Ajv2020, piece: ConfigSchema): ValidateFunction | string {
  try {
    // Ajv cannot fill in a default for the root, so `checkPiece` does that.
    const { default: _, ...schema } = piece.schema
    return ajv.compile(schema)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function ownersFault (piece: ConfigSchema, message: string): Problem {
  return {
    file: null,
    line: null,
    column: null,
    path: formatPath(piece.path),
    message: `the schema that ${piece.owner} declares is invalid: ${message}`
  }
}

function checkPiece (draft: Draft, piece: ConfigSchema, validate: ValidateFunction): void {
  let value = getIn(draft.tree, piece.path)
  if (value === undefined) {
    const isPlugin = piece.path[0] === 'plugins'
    value = cleanCopy(isPlugin ? piece.schema['default'] ?? {} : piece.schema['default'])
    if (value === undefined || !setIn(draft.tree, piece.path, value)) return
  }
  validate(value)
  const skipMissing = draft.raw.broken || (isTree(value) && value['enabled'] === false)
  const reported = new Set(draft.problems.map((problem) => problem.path))
  const seen = new Set<string>()
  for (const error of leading(validate.errors ?? [])) {
    const path = pathOf(piece.path, error)
    if (error.keyword === 'required' && (skipMissing || reported.has(formatPath(path)))) continue
    const problem = toProblem(draft, error, path)
    const key = pathKey([...path, problem.message])
    if (!seen.has(key)) draft.problems.push(problem)
    seen.add(key)
  }
}

const wholes = new Set(['anyOf', 'oneOf', 'not', 'propertyNames'])

/** Omits errors that only repeat another error: those within `anyOf` and `oneOf`, and that of `if` itself. */
function leading (errors: readonly ErrorObject[]): ErrorObject[] {
  const frames = errors.filter(({ keyword }) => wholes.has(keyword) && keyword !== 'propertyNames')
  return errors.filter((error) => {
    if (error.keyword === 'if' || error.keyword === 'propertyNames') return false
    return !frames.some((frame) => frame !== error && error.instancePath.startsWith(frame.instancePath) &&
      error.schemaPath.startsWith(`${frame.schemaPath}/`))
  })
}

function pathOf (base: Path, error: ErrorObject): Path {
  const unescape = (key: string): string => key.replaceAll('~1', '/').replaceAll('~0', '~')
  const inner = error.instancePath.split('/').slice(1).map(unescape)
  const params = error.params as Record<string, unknown>
  const key = params['additionalProperty'] ?? params['unevaluatedProperty'] ?? params['missingProperty'] ??
    error.propertyName
  return [...base, ...inner, ...(key === undefined ? [] : [String(key)])]
}

function toProblem (draft: Draft, error: ErrorObject, path: Path): Problem {
  switch (error.keyword) {
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return unknownKey(draft, path)
    case 'required':
      return missingKey(draft, error, path)
    case 'uniqueItems':
      return problemAt(draft, path, 'the list repeats a value')
    default:
      return wrongValue(draft, error, path)
  }
}

function missingKey (draft: Draft, error: ErrorObject, path: Path): Problem {
  const schema = getIn(error.parentSchema, ['properties', path.at(-1) ?? ''])
  if (!isTree(schema)) return problemAt(draft, path, 'is missing')
  const expected = describe(schema)
  return problemAt(draft, path, `is missing; expected ${expected}`, { expected })
}

function wrongValue (draft: Draft, error: ErrorObject, path: Path): Problem {
  if (error.propertyName !== undefined) {
    const expected = describe(error.parentSchema ?? {})
    return problemAt(draft, path, `the key should be ${expected}`, { expected })
  }
  const schema = error.parentSchema ?? {}
  const choice = error.keyword === 'enum' && typeof error.data === 'string'
    ? nearest(error.data, (schema['enum'] as unknown[]).filter((one) => typeof one === 'string'))
    : undefined
  const { limit } = error.params as { limit?: number }
  const expected = describe(schema) + (isOpenBound(error.keyword, limit) ? `, at most ${limit} long` : '')
  const found = isHidden(draft, path) ? 'a hidden value' : show(error.data)
  const more = choice === undefined || isHidden(draft, path) ? { expected } : { expected, suggestion: choice }
  return problemAt(draft, path, `expected ${expected}, found ${found}`, more)
}

/** True for a declared secret and for a value that comes from the environment through the file. */
export function isHidden (draft: Draft, path: Path): boolean {
  if (isSecret(draft.known, path)) return true
  return overlayOf(draft, path) === undefined && draft.secrets.has(pathKey(path))
}

export function unknownKey (draft: Draft, path: Path): Problem {
  const [top, plugin, key] = path
  if (top === 'plugins' && key === 'module' && path.length === 3) {
    return problemAt(draft, path, `is only for plugins of your own; ${String(plugin)} is part of svc`)
  }
  const suggestion = suggestKey(draft.known, path)?.key
  const name = path.at(-1)
  if (suggestion !== undefined && suggestion === name) {
    return problemAt(draft, path, name.includes('.')
      ? `unknown key; sections are nested: ${name.split('.').map((part) => `${part}:`).join(' ')}`
      : `unknown key; "${name}" stands at the top of the file`)
  }
  return problemAt(draft, path, 'unknown key', suggestion === undefined ? {} : { suggestion })
}
