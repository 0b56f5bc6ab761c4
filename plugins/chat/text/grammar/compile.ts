import { allBut, both, lengthAutomaton } from './automaton.js'
import { Budget, spend } from './budget.js'
import { Builder, type CommonRules } from './builder.js'
import { kindsOf, refused, type All, type Flat, type Kind } from './flat.js'
import type { Rule } from './machine.js'
import { Choice } from './rules.js'
import { enforced, SchemaDocument } from './schema.js'

const MAX_MIN_ITEMS = 1000
const MAX_COUNTED = 250_000
/** Steps that the schemas of one request may take, in all. */
export const COMPILE_STEPS = 5_000_000

/**
 * The rule of a JSON Schema. `path` is where the schema stands in the request. Throws EngineError
 * `invalid_request` with keyword and path for what cannot be enforced, where no value fits, and where the
 * budget does not suffice.
 */
export function compileSchema (schema: unknown, path: string, common: CommonRules,
  budget = new Budget(COMPILE_STEPS)): Rule {
  const rule = budget.run(path, () => new Compiler(new SchemaDocument(schema, path), common).compile())
  if (rule.least === Infinity) throw refused(path, ': no value of finite size fits this schema')
  return rule
}

class Compiler {
  private readonly document: SchemaDocument
  private readonly make: Builder
  private readonly known = new Map<string, Choice>()
  private readonly waiting: { choice: Choice, all: All }[] = []

  constructor (document: SchemaDocument, common: CommonRules) {
    this.document = document
    this.make = new Builder(common, document.root.path)
  }

  compile (): Rule {
    const root = this.ruleOf([this.document.root])
    for (let next = this.waiting.pop(); next !== undefined; next = this.waiting.pop()) {
      next.choice.options.push(...this.document.flatten(next.all).flatMap((flat) => this.options(flat)))
    }
    return this.make.finished(root)
  }

  /** The rule of schemas that must all hold; filled in later, so that schemas may contain themselves. */
  private ruleOf (all: All): Rule {
    const parts = [...new Map(all.map((one) => [one.path, one])).values()].filter((one) =>
      one.schema !== true)
    if (parts.length === 0) return this.make.common.any
    const key = parts.map((one) => one.path).sort().join('\n')
    spend(500 + key.length)
    const known = this.known.get(key)
    if (known !== undefined) return known
    const choice = new Choice(this.make)
    this.known.set(key, choice)
    this.waiting.push({ choice, all: parts })
    return choice
  }

  private options (flat: Flat): Rule[] {
    if (flat.values !== null) {
      const fitting = flat.values.filter((v) => this.document.allows(flat, v))
      return fitting.length === 0 ? [] : [this.make.values(fitting)]
    }
    const kinds = kindsOf(flat)
    return kinds.filter((k) => k !== 'integer' || !kinds.includes('number')).map((kind) =>
      this.option(flat, kind))
  }

  private option (flat: Flat, kind: Kind): Rule {
    switch (kind) {
      case 'object': return this.object(flat)
      case 'array': return this.array(flat)
      case 'string': return this.string(flat)
      case 'boolean': return this.make.values([true, false])
      case 'null': return this.make.values([null])
      default: return this.make.number(flat.limits, kind === 'integer')
    }
  }

  private object ({ path, limits, required, properties, others: said }: Flat): Rule {
    const undeclared = [...required].filter((name) => !properties.has(name))
    const schemas = new Map([...properties, ...undeclared.map((name) => [name, said ?? []] as const)])
    const { minProperties = 0, maxProperties: max = Infinity } = limits
    const min = minProperties > required.size ? minProperties : 0
    // Nothing said about other properties: none beside declared ones, any where none is declared.
    const others = said ?? (schemas.size === 0 ? [] : null)
    const open = others !== null && this.document.flatten(others).length > 0
    if (open && min > required.size + 1) {
      throw refused(`${path}/minProperties`, `: ${min} different names cannot be enforced; declare them`)
    }
    const bounded = open || max < schemas.size ? max : Infinity
    if ((bounded === Infinity ? min : Math.min(bounded, schemas.size)) * schemas.size > MAX_COUNTED) {
      throw refused(path, `: counting ${schemas.size} properties cannot be enforced`)
    }
    const elements = [...schemas].map(([name, all]) =>
      ({ rule: this.make.entry(this.make.values([name]), this.ruleOf(all)), required: required.has(name) }))
    return this.make.object({
      elements, min, max: bounded, needed: elements.findLastIndex((e) => e.required) + 1,
      others: open ? this.make.entry(this.otherName(schemas), this.ruleOf(others)) : null
    })
  }

  private otherName (declared: ReadonlyMap<string, unknown>): Rule {
    if (declared.size === 0) return this.make.common.text
    return this.make.accepted(enforced(() => allBut(declared.keys()), this.document.root.path))
  }

  private array ({ path, limits, first, items }: Flat): Rule {
    const { minItems: min = 0, maxItems: max = Infinity } = limits
    if (min > MAX_MIN_ITEMS) {
      throw refused(`${path}/minItems`, ` is ${min}, at most ${MAX_MIN_ITEMS} is taken`)
    }
    const elements = first.map((all) => ({ rule: this.ruleOf(all), required: true }))
    // After a tuple without `items` nothing follows (narrower than the schema, still valid).
    const ends = items.length === 0 && first.length > 0 && min <= first.length
    return this.make.array({ elements, others: ends ? null : this.ruleOf(items), min, max, needed: 0 })
  }

  private string ({ path: own, limits, patterns }: Flat): Rule {
    const { minLength: min = 0, maxLength: max = Infinity } = limits
    if (patterns.length === 0) return this.make.text(min, max)
    const automata = patterns.map((p) => this.document.automaton(p))
    if (min > 0 || max < Infinity) {
      automata.push(enforced(() => lengthAutomaton(min, max), patterns[0]?.path ?? own))
    }
    const path = patterns.at(-1)?.path ?? own
    return this.make.accepted(automata.reduce((a, b) => enforced(() => both(a, b), path)))
  }
}
