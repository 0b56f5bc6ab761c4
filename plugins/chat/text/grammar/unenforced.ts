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

/** Steps that finding it may take in all, some 15 ms; what is left then is told as not enforced. */
const SCAN_STEPS = 1_500_000
/** The same for one place, so that one does not take all. */
const PLACE_STEPS = 600_000

/**
 * The places of a schema, below `path`, whose keyword is not enforced where a request is not strict. The
 * schema is nested as deep as requests may be.
 */
export function unenforced (schema: unknown, path: string): string[] {
  const found: string[] = []
  const document = new SchemaDocument(schema, path, false)
  let left = SCAN_STEPS
  const within = <T>(look: (budget: Budget) => T): T => {
    const steps = Math.min(left, PLACE_STEPS)
    const budget = new Budget(steps)
    const answer = look(budget)
    left -= steps - budget.remaining
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
