import { invalid } from '../errors.js'
import { allBut, both, lengthAutomaton, regexAutomaton } from './automaton.js'
import { Budget, spend } from './budget.js'
import type { All, Flat, Kind } from './flat.js'
import { Literal } from './literal.js'
import { holeFrame, measureAll } from './machine.js'
import type { Frame, Rule } from './machine.js'
import { BoundNumber, FreeNumber } from './number.js'
import type { NumberLimits } from './number.js'
import { ArrayRule, ObjectRule } from './object.js'
import { Pattern } from './pattern.js'
import { parseRegex } from './regex.js'
import { enforced, kindsOf, SchemaDocument } from './schema.js'
import { Choice, SpaceThen } from './space.js'
import { Text } from './string.js'

/** Deepest nesting where a schema leaves the value open. */
const MAX_DEPTH = 32
const MAX_RULES = 10_000
const MAX_MIN_ITEMS = 1000
const MAX_COUNTED = 250_000
/** Steps that the schemas of one request may take, in all. */
export const COMPILE_STEPS = 5_000_000

/**
 * Rules that do not depend on a schema; one set serves all grammars of a model. `ascii`: fixed texts are
 * written with escapes, and patterns keep to ASCII.
 */
export interface CommonRules { text: Rule, number: Rule, integer: Rule, any: Rule, object: Rule,
  ascii: boolean }

/** Builds the common rules. */
export function commonRules (ascii: boolean): CommonRules {
  const hole = holeFrame()
  const text = new Text(hole)
  const number = new FreeNumber(hole, false)
  const integer = new FreeNumber(hole, true)
  const words = new Literal(hole, ['true', 'false', 'null'])
  const rules: Rule[] = [text, number, integer, words]
  const level = (inner: Rule | null): { choice: Choice, object: Rule | null } => {
    const choice = new Choice(hole)
    choice.options.push(text, number, words)
    let object: Rule | null = null
    if (inner !== null) {
      object = new ObjectRule(hole, { properties: [], others: { name: text, value: inner }, min: 0,
        max: Infinity })
      const array = new ArrayRule(hole, { first: [], others: inner, min: 0, max: Infinity })
      choice.options.push(object, array)
      rules.push(object, array)
    }
    rules.push(choice)
    return { choice, object }
  }
  let made = level(null)
  for (let depth = 0; depth < MAX_DEPTH; depth++) made = level(made.choice)
  measureAll(rules)
  return { text, number, integer, any: made.choice, object: made.object ?? made.choice, ascii }
}

/** A value as JSON, with escapes for everything but ASCII where needed. */
export function jsonText (value: unknown, ascii: boolean): string {
  const text = JSON.stringify(value)
  return ascii ? text.replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
    : text
}

/**
 * The rule of a JSON Schema. `path` is where the schema stands in the request. Throws EngineError
 * `invalid_request` with keyword and path for what cannot be enforced, where no value fits, and where the
 * budget does not suffice.
 */
export function compileSchema (schema: unknown, path: string, common: CommonRules,
  budget = new Budget(COMPILE_STEPS)): Rule {
  const rule = budget.run(path, () => new Compiler(new SchemaDocument(schema, path), common).compile())
  if (rule.least === Infinity) throw invalid(`${path}: no value of finite size fits this schema`, path)
  return rule
}

class Compiler {
  private readonly document: SchemaDocument
  private readonly common: CommonRules
  private readonly hole: Frame = holeFrame()
  private readonly known = new Map<string, Choice>()
  private readonly waiting: { choice: Choice, all: All }[] = []
  private readonly rules: Rule[] = []

  constructor (document: SchemaDocument, common: CommonRules) {
    this.document = document
    this.common = common
  }

  compile (): Rule {
    const root = this.ruleOf([this.document.root])
    for (let next = this.waiting.pop(); next !== undefined; next = this.waiting.pop()) {
      next.choice.options.push(...this.document.flatten(next.all).flatMap((flat) => this.options(flat)))
    }
    // Inner rules were made last: going backwards, most sizes are known at the first pass.
    measureAll(this.rules.reverse())
    return root
  }

  /** The rule of schemas that must all hold; filled in later, so that schemas may contain themselves. */
  private ruleOf (all: All): Rule {
    const parts = [...new Map(all.map((one) => [one.path, one])).values()].filter((one) =>
      one.schema !== true)
    if (parts.length === 0) return this.common.any
    const key = parts.map((one) => one.path).sort().join('\n')
    spend(500 + key.length)
    const known = this.known.get(key)
    if (known !== undefined) return known
    const choice = this.made(new Choice(this.hole))
    this.known.set(key, choice)
    this.waiting.push({ choice, all: parts })
    return choice
  }

  private options (flat: Flat): Rule[] {
    if (flat.values !== null) {
      const fitting = flat.values.filter((v) => this.document.allows(flat, v))
      return fitting.length === 0 ? [] : [this.literal(fitting.map((v) => jsonText(v, this.common.ascii)))]
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
      case 'boolean': return this.literal(['true', 'false'])
      case 'null': return this.literal(['null'])
      default: return this.number(flat, kind === 'integer')
    }
  }

  private literal (texts: readonly string[]): Rule {
    return this.made(new Literal(this.hole, texts))
  }

  private object (flat: Flat): Rule {
    const undeclared = [...flat.required].filter((name) => !flat.properties.has(name))
    const schemas = new Map([...flat.properties,
      ...undeclared.map((name) => [name, flat.others ?? []] as const)])
    const properties = [...schemas].map(([name, all]) => (
      { name: this.literal([jsonText(name, this.common.ascii)]), value: this.ruleOf(all),
        required: flat.required.has(name) }))
    const min = (flat.minProperties ?? 0) > flat.required.size ? flat.minProperties ?? 0 : 0
    const max = flat.maxProperties ?? Infinity
    // Nothing said about other properties: none beside declared ones, any where none is declared.
    const others = flat.others ?? (schemas.size === 0 ? [] : null)
    const open = others !== null && this.document.flatten(others).length > 0
    if (open && min > flat.required.size + 1) {
      throw invalid(`${flat.path}/minProperties: ${min} different names cannot be enforced; declare them`,
        `${flat.path}/minProperties`)
    }
    const bounded = open || max < schemas.size ? max : Infinity
    if ((bounded === Infinity ? min : Math.min(bounded, schemas.size)) * schemas.size > MAX_COUNTED) {
      throw invalid(`${flat.path}: counting ${schemas.size} properties cannot be enforced`, flat.path)
    }
    return this.made(new ObjectRule(this.hole, {
      properties, min, max: bounded, others: open
        ? { name: this.otherName(schemas), value: this.ruleOf(others) } : null
    }))
  }

  private otherName (declared: ReadonlyMap<string, unknown>): Rule {
    return declared.size === 0 ? this.common.text : this.made(new Pattern(this.hole,
      enforced(() => allBut(declared.keys()), this.document.root.path)))
  }

  private array (flat: Flat): Rule {
    const min = flat.minItems ?? 0
    if (min > MAX_MIN_ITEMS) {
      throw invalid(`${flat.path}/minItems is ${min}, at most ${MAX_MIN_ITEMS} is taken`,
        `${flat.path}/minItems`)
    }
    const first = flat.first.map((all) => this.ruleOf(all))
    // After a tuple without `items` nothing follows (narrower than the schema, still valid).
    const others = flat.items.length === 0 && first.length > 0 && min <= first.length ? null
      : this.ruleOf(flat.items)
    return this.made(new ArrayRule(this.hole, { first, others, min, max: flat.maxItems ?? Infinity }))
  }

  private string (flat: Flat): Rule {
    const { minLength = 0, maxLength = Infinity, patterns } = flat
    if (patterns.length === 0) {
      const limited = minLength > 0 || maxLength < Infinity
      return limited ? this.made(new Text(this.hole, minLength, maxLength)) : this.common.text
    }
    const automata = patterns.map((p) => this.document.automaton(p))
    if (minLength > 0 || maxLength < Infinity) {
      automata.push(enforced(() => lengthAutomaton(minLength, maxLength),
        patterns[0]?.path ?? flat.path))
    }
    if (this.common.ascii) {
      automata.push(enforced(() => regexAutomaton(parseRegex('^[\\0-\\x7f]*$')), flat.path))
    }
    const path = patterns.at(-1)?.path ?? flat.path
    return this.made(new Pattern(this.hole, automata.reduce((a, b) =>
      enforced(() => both(a, b), path))))
  }

  private number (flat: Flat, integer: boolean): Rule {
    const limits: NumberLimits = { integer: integer || flat.multipleOf !== undefined }
    for (const key of ['min', 'max', 'above', 'below', 'multipleOf'] as const) {
      const value = flat[key]
      if (value !== undefined) limits[key] = value
    }
    if (Object.keys(limits).length === 1) return integer ? this.common.integer : this.common.number
    return this.made(new BoundNumber(this.hole, limits))
  }

  private made<R extends Rule> (rule: R): R {
    if (this.rules.push(rule) > MAX_RULES) {
      throw invalid(`${this.document.root.path}: the schema needs more than ${MAX_RULES} rules`,
        this.document.root.path)
    }
    return rule
  }
}

/** A value after white space, as the whole output. */
export const whole = (rule: Rule): Rule => {
  const out = new SpaceThen(rule.hole, rule)
  measureAll([out])
  return out
}
