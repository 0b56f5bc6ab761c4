/** The keywords of one schema, without references and combinations. */
import { escaped, invalid, isObject } from './errors.js'
import { type All, canonical, EVERYTHING, type Flat, type Type, TYPES } from './flat.js'
import { formatPattern } from './formats.js'

type Schema = Readonly<Record<string, unknown>>

const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)
const isCount = (value: unknown): boolean => Number.isInteger(value) && value as number >= 0
const isText = (value: unknown): boolean => typeof value === 'string'
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText)
const any = (): boolean => true
const isTypes = (value: unknown): boolean => [value].flat().every((each) => TYPES.includes(each as Type))
/** Keywords, the type of value that they concern, and how their value must be. */
const FORMS: readonly [readonly string[], Type | undefined, (value: unknown) => boolean, form: string][] = [
  [['type'], undefined, isTypes, `one or several of ${TYPES.join(', ')}`],
  [['enum'], undefined, Array.isArray, 'a list'],
  [['minimum', 'exclusiveMinimum', 'maximum', 'exclusiveMaximum'], 'number', isNumber, 'a number'],
  [['multipleOf'], 'number', (value) => isNumber(value) && value > 0, 'a number above 0'],
  [['minLength', 'maxLength'], 'string', isCount, 'a whole number from 0'],
  [['pattern', 'format'], 'string', isText, 'a text'],
  [['minItems', 'maxItems'], 'array', isCount, 'a whole number from 0'],
  [['prefixItems'], 'array', Array.isArray, 'a list of schemas'],
  [['items', 'uniqueItems', 'contains'], 'array', any, ''],
  [['minProperties', 'maxProperties'], 'object', isCount, 'a whole number from 0'],
  [['properties', 'patternProperties'], 'object', isObject, 'an object of schemas'],
  [['required'], 'object', isTexts, 'a list of texts'],
  [['additionalProperties'], 'object', any, '']
]
/** Keywords that no grammar expresses, and values of them that say nothing. */
const LOST: readonly [string, Type | undefined, isVoid: (value: unknown, schema: Schema) => boolean][] = [
  ['multipleOf', 'number', (value, { type }) => value === 1 && type === 'integer'],
  ['uniqueItems', 'array', (value, { maxItems = 2 }) => value === false || maxItems as number <= 1],
  ['contains', 'array', (_, { minContains, maxContains }) => minContains === 0 && maxContains === undefined],
  ['unevaluatedItems', 'array', (value) => value === true],
  ['unevaluatedProperties', 'object', (value) => value === true],
  ['propertyNames', 'object', (value) => value === true],
  ['dependentRequired', 'object', () => false],
  ['dependentSchemas', 'object', () => false],
  ['dependencies', 'object', () => false],
  ['$dynamicRef', undefined, () => false],
  ['not', undefined, (value) => value === false],
  ['if', undefined, (_, schema) => schema['then'] === undefined && schema['else'] === undefined]
]

/** `hasName` says whether a pattern matches a name; it throws NotExpressible. */
export function own (schema: Schema, at: string, hasName: (pattern: string, name: string) => boolean): Flat {
  const hints = new Set<Type>()
  for (const [words, type, fits, form] of FORMS) {
    for (const word of words) {
      if (schema[word] === undefined) continue
      if (!fits(schema[word])) throw invalid(`${at}/${word}`, `is not ${form}`)
      if (type !== undefined) hints.add(type)
    }
  }
  const number = (word: string, otherwise: number): number => schema[word] as number | undefined ?? otherwise
  const [min, above] = [number('minimum', -Infinity), number('exclusiveMinimum', -Infinity)]
  const [max, below] = [number('maximum', Infinity), number('exclusiveMaximum', Infinity)]
  const size = (what: string): [number, number] => [number(`min${what}`, 0), number(`max${what}`, Infinity)]
  const lost = LOST.filter(([word, , isVoid]) => schema[word] !== undefined && !isVoid(schema[word], schema))
    .map(([word, type]) => ({ type, at: `${at}/${word}` }))
  const { type, enum: list, const: value, pattern, format, items, nullable, prefixItems = [] } = schema
  const texts = [['pattern', pattern], ['format', formatPattern(format, size('Length')[1])]] as const
  return {
    ...EVERYTHING,
    at,
    types: type === undefined ? undefined
      : new Set([type, nullable === true ? 'null' : type].flat() as Type[]),
    hints,
    values: !('const' in schema) ? list as unknown[] | undefined
      : (list as unknown[] | undefined ?? [value]).filter((each) => canonical(each) === canonical(value)),
    number: { min: Math.max(min, above), aboveMin: above > -Infinity && above >= min,
      max: Math.min(max, below), belowMax: below < Infinity && below <= max },
    sizes: { string: size('Length'), array: size('Items'), object: size('Properties') },
    texts: texts.flatMap(([word, source]) =>
      typeof source === 'string' ? [{ source, at: `${at}/${word}` }] : []),
    first: (prefixItems as unknown[]).map((each, i) => [{ schema: each, at: `${at}/prefixItems/${i}` }]),
    items: items === undefined ? [] : [{ schema: items, at: `${at}/items` }],
    moreItems: items !== undefined,
    ...propertiesOf(schema, at, hasName),
    lost
  }
}

function propertiesOf (
  schema: Schema, at: string, hasName: (pattern: string, name: string) => boolean
): Pick<Flat, 'properties' | 'patterns' | 'others' | 'more' | 'required'> {
  const [declared, patterns] = ['properties', 'patternProperties'].map((word) =>
    Object.entries(schema[word] ?? {}).map(([name, each]): [string, All] =>
      [name, [{ schema: each, at: `${at}/${word}/${escaped(name)}` }]])) as [[string, All][], [string, All][]]
  const { required = [], additionalProperties: others } = schema
  return {
    properties: new Map(declared.map(([name, all]) =>
      [name, [...all, ...patterns.filter(([source]) => hasName(source, name)).flatMap(([, each]) => each)]])),
    patterns: new Map(patterns),
    others: others === undefined ? [] : [{ schema: others, at: `${at}/additionalProperties` }],
    more: others !== undefined && others !== false,
    required: new Set(required as string[])
  }
}
