/** The keyword `not`, as far as it can be turned into rules of what is allowed. */
import { isObject } from '../../json.js'
import { KINDS, type Kind } from './flat.js'
import { regexProblem } from './regex.js'

/** What `not` leaves: nothing, or what these rules allow. */
export type Negation = null | {
  kinds?: ReadonlySet<Kind>
  values?: readonly unknown[]
  pattern?: string
  /** A property that must be absent. */
  absent?: string
}

const SAYS_NOTHING = new Set(['title', 'description', 'default', 'examples', '$comment'])

/** What `not` of a schema leaves; undefined where that cannot be enforced. */
export function negationOf (schema: Record<string, unknown>): Negation | undefined {
  const not = schema['not']
  if (not === false) return {}
  if (not === true) return null
  if (!isObject(not)) return undefined
  const words = Object.keys(not).filter((word) => !SAYS_NOTHING.has(word)).sort()
  if (words.length === 0) return null
  switch (words.join()) {
    case 'type': return otherKinds([not['type']].flat())
    case 'const': case 'const,type': return excluded([not['const']], schema)
    case 'enum': case 'enum,type':
      return Array.isArray(not['enum']) ? excluded(not['enum'], schema) : undefined
    case 'pattern': return pattern(not['pattern'], new Set(['string']))
    case 'pattern,type': return not['type'] === 'string' ? pattern(not['pattern']) : undefined
    case 'required': return absent(not['required'])
    default: return undefined
  }
}

function otherKinds (types: unknown[]): Negation | undefined {
  const known = types.every((type) => KINDS.includes(type as Kind))
  if (!known || (types.includes('integer') && !types.includes('number'))) return undefined
  return { kinds: new Set(KINDS.filter((kind) => kind !== 'integer' && !types.includes(kind))) }
}

/** Numbers, objects and lists can be left out of a list of values only. */
function excluded (values: unknown[], schema: Record<string, unknown>): Negation | undefined {
  const listed = 'enum' in schema || 'const' in schema
  const simple = values.every((value) => value === null || ['string', 'boolean'].includes(typeof value))
  return listed || simple ? { values } : undefined
}

function pattern (source: unknown, kinds?: ReadonlySet<Kind>): Negation | undefined {
  if (typeof source !== 'string' || regexProblem(source) !== null) return undefined
  return { pattern: source, ...kinds === undefined ? {} : { kinds } }
}

function absent (names: unknown): Negation | undefined {
  if (!Array.isArray(names) || names.length !== 1 || typeof names[0] !== 'string') return undefined
  return { absent: names[0], kinds: new Set(['object']) }
}
