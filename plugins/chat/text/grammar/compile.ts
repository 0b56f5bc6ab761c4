import { Budget, spend } from './budget.js'
import { Builder, type CommonRules } from './builder.js'
import { fieldsRule, type Writing } from './fields.js'
import {
  anything, kindsOf, refused, schemasOf, type All, type Flat, type Kind, type Located
} from './flat.js'
import type { Rule } from './machine.js'
import { Choice, Sequence } from './rules.js'
import { SchemaDocument } from './schema.js'
import { automatonContent, lengthContent, type Content } from './string.js'

const MAX_MIN_ITEMS = 1000
const MAX_COUNTED = 250_000
/** Steps that the schemas of one request may take, in all. */
export const COMPILE_STEPS = 5_000_000

/** What compiling may take, and whether what cannot be enforced is refused (the default) or left out. */
export interface CompileOptions { budget?: Budget, strict?: boolean }

/**
 * The rule of a JSON Schema. `path` is where the schema stands in the request. Throws EngineError
 * `invalid_request` with keyword and path for what cannot be enforced, where no value fits, and where the
 * budget does not suffice.
 */
export function compileSchema (
  schema: unknown, path: string, common: CommonRules, how: CompileOptions = {}
): Rule {
  return compiled(schema, path, common, how, (compiler) => compiler.compile())
}

/** The rule of the properties of an object in a writing of their own; refuses what `compileSchema` does. */
export function compileFields (
  schema: unknown, path: string, common: CommonRules, writing: Writing, how: CompileOptions = {}
): Rule {
  return compiled(schema, path, common, how, (compiler) => compiler.fields(writing))
}

function compiled (
  schema: unknown, path: string, common: CommonRules,
  { budget = new Budget(COMPILE_STEPS), strict = true }: CompileOptions, use: (compiler: Compiler) => Rule
): Rule {
  const rule = budget.run(path, () => use(new Compiler(new SchemaDocument(schema, path, strict), common)))
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

  compile (): Rule { return this.finished(this.ruleOf([this.document.root])) }

  fields (writing: Writing): Rule {
    const flats = this.document.flatten([this.document.root])
      .filter((flat) => kindsOf(flat).includes('object'))
    return this.finished(new Choice(this.make, flats.map((flat) => this.fieldList(flat, writing))))
  }

  private fieldList ({ properties, required, others, patterned }: Flat, writing: Writing): Rule {
    const fields = [...properties].map(([name, all]) =>
      ({ name, required: required.has(name), value: this.fieldValue(all, writing) }))
    const open = others === undefined ? properties.size === 0
      : patterned.length === 0 && this.document.flatten(others).length > 0
    return fieldsRule(this.make, writing, fields, open ? this.fieldValue(others ?? [], writing) : null)
  }

  private fieldValue (all: All, { raw, quoted }: Writing): Rule {
    if (raw === undefined) return this.ruleOf(all)
    const { make } = this
    const around = (text: Rule): Rule =>
      quoted === true ? new Sequence(make, [make.marker(raw), text, make.marker(raw)]) : text
    const rules = this.document.flatten(all).flatMap((flat) => {
      const values = flat.values?.filter((value) => this.document.allows(flat, value))
      if (values !== undefined) {
        const [texts, others] = [values.filter((value) => typeof value === 'string'),
          values.filter((value) => typeof value !== 'string')]
        return [...texts.length === 0 ? [] : [around(make.unquoted(texts))],
          ...others.length === 0 ? [] : [make.unquoted(others)]]
      }
      const text = kindsOf(flat).includes('string') ? [around(make.raw(this.content(flat), raw))] : []
      const more = kindsOf(flat).filter((kind) => kind !== 'string')
      return more.length === 0 ? text : [...text, ...this.options({ ...flat, kinds: new Set(more) })]
    })
    return new Choice(this.make, rules)
  }

  private finished (root: Rule): Rule {
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
    const kinds = kindsOf(flat).filter((kind) => kind !== 'null' || !flat.notValues.includes(null))
    return kinds.filter((k) => k !== 'integer' || !kinds.includes('number')).map((kind) =>
      this.option(flat, kind))
  }

  private option (flat: Flat, kind: Kind): Rule {
    switch (kind) {
      case 'object': return this.object(flat)
      case 'array': return this.array(flat)
      case 'string': return this.string(flat)
      case 'boolean': return this.make.values([true, false].filter((each) => !flat.notValues.includes(each)))
      case 'null': return this.make.values([null])
      default: return this.make.number(flat.limits, kind === 'integer')
    }
  }

  private object (flat: Flat): Rule {
    const { path, limits, required, others: said, patterned } = flat
    const names = this.allowedNames(flat)
    const schemas = this.declared(flat, names)
    const { minProperties = 0, maxProperties: max = Infinity } = limits
    const min = minProperties > required.size ? minProperties : 0
    // Nothing said about other properties: none beside declared ones, any where none is declared.
    const others = said ?? (schemas.size + patterned.length === 0 ? [] : null)
    const entries = names?.every((name) => name.values !== null) === true
      ? []
      : [
          ...patterned.flatMap(({ pattern, all }) => this.entries(flat, schemas, names, all, pattern)),
          ...others === null ? [] : this.entries(flat, schemas, names, others)
        ]
    const open = entries.length > 0
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
      others: open ? new Choice(this.make, entries) : null
    })
  }

  /** What names may be, as alternatives of texts; null where they may be any. */
  private allowedNames ({ names }: Flat): Flat[] | null {
    if (names.length === 0) return null
    const flats = this.document.flatten(names).filter((flat) => kindsOf(flat).includes('string'))
    const free = flats.some(({ values, patterns, limits, notPatterns, notValues }) => values === null &&
      patterns.length + notPatterns.length + notValues.length + Object.keys(limits).length === 0)
    return free ? null : flats
  }

  /** Properties by their names: declared and required ones, and those that a list of names allows. */
  private declared (flat: Flat, names: Flat[] | null): Map<string, All> {
    const { properties, required, patterned, others, path } = flat
    const open = patterned.length > 0 || others !== undefined || properties.size === 0
    const listed = open ? names?.flatMap(({ values }) => values ?? []) ?? [] : []
    const isAllowed = (name: string): boolean => names === null || names.some((each) =>
      (each.values?.includes(name) ?? true) && this.document.allows(each, name))
    const out = new Map<string, All>()
    for (const name of [...properties.keys(), ...required, ...listed] as string[]) {
      if (isAllowed(name)) out.set(name, schemasOf(flat, name, this.document.matches))
      // What is required and not allowed stays, as what cannot be written.
      else if (required.has(name)) out.set(name, [{ schema: false, path: `${path}/propertyNames` }])
    }
    return out
  }

  /** Entries under names that are not declared: those that match `pattern`, or none of the patterns. */
  private entries (
    { patterned, path }: Flat, declared: ReadonlyMap<string, unknown>, names: Flat[] | null, all: All,
    pattern?: Located
  ): Rule[] {
    if (this.document.flatten(all).length === 0) return []
    const other = patterned.filter((each) => each.pattern !== pattern).map((each) => each.pattern)
    const sets = names?.filter(({ values }) => values === null) ?? [anything(path)]
    return sets.map((set) => {
      const text = { ...set, patterns: [...set.patterns, ...pattern === undefined ? [] : [pattern]],
        notPatterns: [...set.notPatterns, ...other], notValues: [...set.notValues, ...declared.keys()] }
      return this.make.entry(this.string(text), this.ruleOf(all))
    })
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

  private string (flat: Flat): Rule {
    const { limits: { minLength: min = 0, maxLength: max = Infinity } } = flat
    const automaton = this.document.textAutomaton(flat)
    return automaton === null ? this.make.text(min, max) : this.make.accepted(automaton)
  }

  private content (flat: Flat): Content {
    const { limits: { minLength: min = 0, maxLength: max = Infinity } } = flat
    const automaton = this.document.textAutomaton(flat)
    return automaton === null ? lengthContent(min, max) : automatonContent(automaton, this.make.common.ascii)
  }
}
