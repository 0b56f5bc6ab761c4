/** Which keywords of a JSON Schema are enforced. */
import { isObject } from '../../json.js'
import { LIMIT_NAMES } from './flat.js'
import { negationOf } from './negation.js'
import { fixedPoint } from './number.js'
import { regexProblem } from './regex.js'

/** Keywords that say nothing about a value. */
const ANNOTATIONS = ['title', 'description', 'default', 'examples', 'example', 'deprecated', 'readOnly',
  'writeOnly', '$comment', '$schema', '$id', 'id', '$anchor', '$vocabulary', 'contentMediaType',
  'contentEncoding', 'contentSchema', '$defs', 'definitions', 'discriminator', 'externalDocs', 'xml',
  'markdownDescription', 'enumNames', 'errorMessage']
const ENFORCED = new Set<string>([...ANNOTATIONS, ...LIMIT_NAMES, 'type', 'nullable', 'enum', 'const',
  'properties', 'patternProperties', 'propertyNames', 'required', 'additionalProperties', 'items',
  'prefixItems', 'additionalItems', 'pattern', 'format', '$ref', 'allOf', 'anyOf', 'oneOf'])

/** Why a pattern cannot be enforced; null where it can, or where it is none. */
function patternProblem (source: unknown): string | null {
  const problem = typeof source === 'string' ? regexProblem(source) : null
  return problem === null ? null : `the pattern ${problem}`
}

/** Why one keyword of a schema cannot be enforced; null where it can, or where it says nothing. */
export function whyNot (schema: Record<string, unknown>, word: string): string | null {
  const value = schema[word]
  if (word.startsWith('x-')) return null
  if (word === 'uniqueItems') return value === true ? 'unique items cannot be enforced' : null
  if (word === 'not') return negationOf(schema) === undefined ? 'this cannot be enforced' : null
  if (word === 'multipleOf' && typeof value === 'number' && value > 0) {
    return fixedPoint(value) === null ? 'only 14 digits behind the point can be enforced' : null
  }
  if (word === 'minContains' || word === 'maxContains') {
    return 'contains' in schema ? 'it cannot be enforced' : null
  }
  if (word === 'pattern') return patternProblem(value)
  if (word === 'patternProperties' && isObject(value)) {
    return Object.keys(value).map(patternProblem).find((problem) => problem !== null) ?? null
  }
  return ENFORCED.has(word) ? null : `the keyword "${word}" cannot be enforced`
}
