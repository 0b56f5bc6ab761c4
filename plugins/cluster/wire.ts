import { _, type ErrorObject, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { checkValue, kernelError, type JsonSchema, type SvcError } from '../../kernel/cluster.js'
import { readAddress } from './identity/addresses.js'

declare const type: unique symbol

export type Schema<T> = JsonSchema & { readonly [type]: T }
export type Of<S> = S extends Schema<infer T> ? T : never

export const schemaOf = <T>(schema: JsonSchema): Schema<T> => schema as Schema<T>

export const text = schemaOf<string>({ type: 'string', not: { const: '' } })
/** A non-empty string of at most `most` UTF-16 code units. */
export const name = (most: number): Schema<string> =>
  schemaOf({ type: 'string', not: { const: '' }, longest: most, says: `must be a text of 1 to ${most}` })
export const flag = schemaOf<boolean>({ type: 'boolean' })
/** A non-negative integer that a double represents exactly. */
export const count = schemaOf<number>({ type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
/** A duration in ms, possibly fractional. */
export const span = schemaOf<number>({ type: 'number', minimum: 0 })
export const bytes = schemaOf<Uint8Array>({ bytes: true })
/** A plain JSON value, as Yjs documents store it. */
export const json = schemaOf<unknown>({ json: true })
export const anything = schemaOf<unknown>({})
export const oneOf = <W extends string>(...words: W[]): Schema<W> => schemaOf({ enum: words })
export const constant = <C extends boolean | string>(value: C): Schema<C> => schemaOf({ const: value })
export const orNull = <T>(schema: Schema<T>): Schema<T | null> =>
  schemaOf({ ...schema, type: [schema['type'], 'null'] })
export const anyOf = <T>(...schemas: Schema<T>[]): Schema<T> => schemaOf({ anyOf: schemas })
/** A string that matches the pattern; `says` completes the error message "NAME must be …". */
export const matching = (pattern: RegExp, says: string): Schema<string> =>
  schemaOf({ type: 'string', pattern: pattern.source, says: `must be ${says}` })
export const listOf = <T>(items: Schema<T>, more: JsonSchema = {}): Schema<readonly T[]> =>
  schemaOf({ type: 'array', items, ...more })

type Fields = Readonly<Record<string, Schema<unknown>>>
type Values<F extends Fields> = { readonly [K in keyof F]: Of<F[K]> }

/** An object with these fields. Ignores unknown fields, which another version may add. */
export function record<F extends Fields, O extends Fields = Record<never, never>> (
  fields: F, optional: O = {} as O
): Schema<Values<F> & Partial<Values<O>>> {
  const required = Object.keys(fields).filter((name) => fields[name] !== anything && fields[name] !== json)
  return schemaOf({ type: 'object', required, properties: { ...fields, ...optional } })
}

const isJson = (value: unknown): boolean => checkValue(value) === null

// Custom keywords generate inline code, because Ajv allocates an object for each call to a keyword function.
const ajv = new Ajv2020({
  strictTypes: false, strictRequired: false, verbose: true,
  // Compiling the meta-schema takes longer than compiling all message schemas.
  meta: false, validateSchema: false, code: { optimize: false }
})
  .addKeyword({ keyword: 'bytes', code: (cxt) => { cxt.fail(_`!(${cxt.data} instanceof Uint8Array)`) } })
  .addKeyword({
    keyword: 'json',
    code: (cxt) => { cxt.fail(_`!${cxt.gen.scopeValue('func', { ref: isJson })}(${cxt.data})`) }
  })
  .addKeyword({
    keyword: 'longest', type: 'string', code: (cxt) => { cxt.fail(_`${cxt.data}.length > ${cxt.schema}`) }
  })
  .addKeyword({ keyword: 'says', schemaType: 'string' })
  .addFormat('host-port', (address: string) => readAddress(address) !== undefined)

const compiled = new WeakMap<JsonSchema, ValidateFunction>()

/** Compiles a schema on first use, because a lone node never needs most schemas. */
function validatorOf (schema: JsonSchema): ValidateFunction {
  let validate = compiled.get(schema)
  if (validate === undefined) compiled.set(schema, validate = ajv.compile(schema))
  return validate
}

/** Whether a value from another node fits a schema. Never throws. */
export function fits<T> (schema: Schema<T>, value: unknown): value is T { return validatorOf(schema)(value) }

export class ShapeError extends Error {
  override readonly name = 'ShapeError'
  readonly path: string

  constructor (path: string, what: string) {
    super(`${path === '' ? 'the value' : path} ${what}`)
    this.path = path
  }
}

/** The problem with a value, as a sentence; null if it fits the schema. */
export function problem (schema: JsonSchema, value: unknown): string | null {
  const validate = validatorOf(schema)
  return validate(value) ? null : problemOf(validate.errors![0]!).message
}

/** A frozen copy of a value with the schema's fields only, in schema order. Throws ShapeError if invalid. */
export function read<T> (schema: Schema<T>, value: unknown): T {
  const validate = validatorOf(schema)
  if (!validate(value)) throw problemOf(validate.errors![0]!)
  return copy(schema, value) as T
}

function copy (schema: JsonSchema, value: unknown): unknown {
  if (Array.isArray(value)) {
    return Object.freeze(value.map((item) => copy(schema['items'] as JsonSchema, item)))
  }
  const properties = schema['properties'] as Record<string, JsonSchema> | undefined
  if (properties === undefined || value === null) return value
  const fields = value as Record<string, unknown>
  const known = Object.entries(properties).filter(([name]) => fields[name] !== undefined)
  return Object.freeze(Object.fromEntries(known.map(([name, inner]) => [name, copy(inner, fields[name])])))
}

const KINDS: Readonly<Record<string, string>> = {
  object: 'an object', array: 'a list', string: 'a text', boolean: 'true or false', integer: 'a whole number'
}

function problemOf ({ instancePath, keyword, params, parentSchema, data, message }: ErrorObject): ShapeError {
  const missing = keyword === 'required' ? `/${String(params['missingProperty'])}` : ''
  const path = `${instancePath}${missing}`.replace(/\/(\d+)(?=\/|$)/g, '[$1]').slice(1).replaceAll('/', '.')
  const says = parentSchema?.['says'] as string | undefined
  if (missing !== '') return new ShapeError(path, 'is missing')
  if (keyword === 'maxItems') {
    const { length } = data as unknown[]
    return new ShapeError(path, `has ${length} entries, at most ${String(params['limit'])} are allowed`)
  }
  const kind = keyword === 'type' ? [params['type']].flat().map((name) => KINDS[String(name)] ?? name) : []
  const wanted = kind.length > 0 ? `must be ${kind.join(' or ')}` : message ?? 'is not valid'
  return new ShapeError(path, says ?? wanted)
}

/** Runs `act`; if it throws a ShapeError, throws the error that `refuse` returns for it. */
export function mapShapeError<T> (act: () => T, refuse: (error: ShapeError) => Error): T {
  try {
    return act()
  } catch (error) { throw error instanceof ShapeError ? refuse(error) : error }
}

export function invalidField (error: ShapeError): SvcError {
  const { path, message } = error
  return kernelError('invalid_request', message, { param: path, issues: [{ path, message }] })
}
