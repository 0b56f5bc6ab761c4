/** What of a schema is left out where a request is not strict. */
import { isObject } from '../../json.js'
import { Budget } from './budget.js'
import { whyNot } from './keywords.js'
import { SchemaDocument } from './schema.js'

/** Keywords whose value is a schema, a list of them, or schemas by name. */
const INNER = ['additionalProperties', 'propertyNames', 'items', 'additionalItems', 'contains', 'not', 'if',
  'then', 'else', 'unevaluatedProperties', 'unevaluatedItems']
const INNER_LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']
const INNER_MAPS = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']

/** Steps for all schemas of a request, some 15 ms. Places beyond them count as not enforced. */
const SCAN_STEPS = 1_500_000
/** Steps for one place. */
const PLACE_STEPS = 600_000
/** Bounds of the result. */
const MOST_NAMED = 8
const PATH_CHARS = 200

/** A schema and its field in the request. */
export interface NamedSchema { path: string, schema: unknown }
/** The first places whose keyword is not enforced, and the number of all. */
export interface Unenforced { places: string[], count: number }

/** The job for kernel/untrusted: checks all schemas of one request. */
export function unenforcedIn (schemas: readonly NamedSchema[]): Unenforced {
  const scan = { left: SCAN_STEPS }
  const all = schemas.flatMap(({ schema, path }) => unenforced(schema, path, scan))
  return { places: all.slice(0, MOST_NAMED).map((place) => place.slice(0, PATH_CHARS)), count: all.length }
}

/**
 * The places of a schema, below `path`, whose keyword is not enforced where a request is not strict. The
 * schema is nested as deep as requests may be. Takes its steps from `scan`.
 */
export function unenforced (schema: unknown, path: string, scan = { left: SCAN_STEPS }): string[] {
  const found: string[] = []
  const document = new SchemaDocument(schema, path, false)
  const within = <T>(look: (budget: Budget) => T): T => {
    const steps = Math.min(scan.left, PLACE_STEPS)
    const budget = new Budget(steps)
    const answer = look(budget)
    scan.left -= steps - budget.remaining
    return answer
  }
  const visit = (at: unknown, place: string): void => {
    if (!isObject(at)) return
    for (const word of Object.keys(at)) if (whyNot(at, word) !== null) found.push(`${place}/${word}`)
    const word = at['pattern'] === undefined || whyNot(at, 'pattern') !== null
      ? null
      : within((budget) => document.tooLarge(at, place, budget))
    if (word !== null) found.push(`${place}/${word}`)
    if (Array.isArray(at['oneOf'])) {
      const apart = within((budget) => document.isDisjoint({ schema: at, path: place }, budget))
      if (!apart) found.push(`${place}/oneOf`)
    }
    for (const word of INNER) visit(at[word], `${place}/${word}`)
    for (const word of INNER_LISTS) {
      if (Array.isArray(at[word])) at[word].forEach((each, i) => { visit(each, `${place}/${word}/${i}`) })
    }
    for (const word of INNER_MAPS) {
      if (!isObject(at[word])) continue
      for (const [name, each] of Object.entries(at[word])) visit(each, `${place}/${word}/${name}`)
    }
  }
  visit(schema, path)
  return [...new Set(found)]
}
