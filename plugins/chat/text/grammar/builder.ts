/** Makes the rules of one grammar. */
import { invalid } from '../errors.js'
import { oneOf, regexAutomaton, upTo } from './automaton.js'
import type { Automaton } from './automaton.js'
import { holeFrame, measureAll } from './machine.js'
import type { Frame, Rule } from './machine.js'
import { BoundNumber, ANY_INTEGER, ANY_NUMBER } from './number.js'
import type { NumberLimits } from './number.js'
import { parseRegex } from './regex.js'
import { Choice, Fixed, Free, List, Repeat, Sequence } from './rules.js'
import type { Brackets, ListShape } from './rules.js'
import { automatonContent, JsonString, lengthContent } from './string.js'

/** Deepest nesting where a schema leaves the value open. */
const MAX_DEPTH = 32
const MAX_RULES = 10_000

const matching = (pattern: string): Automaton => regexAutomaton(parseRegex(pattern))
/** A run of white space: one space, or one or two line ends and up to 20 blanks of indentation. */
const SPACE = '( |\\n\\n?[ \\t]{0,20})?'

/**
 * Rules that do not depend on a schema; one set serves all grammars of a model. `ascii`: the vocabulary
 * cannot write all characters, so those outside ASCII are written with escapes.
 */
export interface CommonRules {
  ascii: boolean, space: Rule, colon: Rule, braces: Brackets, brackets: Brackets
  text: Rule, number: Rule, integer: Rule, any: Rule, object: Rule
}

/** A value as JSON, with escapes for everything but ASCII where needed. */
export function jsonText (value: unknown, ascii: boolean): string {
  const text = JSON.stringify(value)
  return ascii ? text.replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
    : text
}

/** Builds the common rules. */
export function commonRules (ascii: boolean): CommonRules {
  const hole = holeFrame()
  const rules: Rule[] = []
  const made = <R extends Rule>(rule: R): R => {
    rules.push(rule)
    return rule
  }
  const pattern = (source: string): Rule => made(new Fixed(hole, matching(`^${source}$`)))
  const comma = pattern(`${SPACE},${SPACE}`)
  const around = (open: string, end: string): Brackets => ({
    open: pattern(`\\${open}${SPACE}`), comma, close: pattern(`${SPACE}\\${end}`), end: pattern(`\\${end}`)
  })
  const common = {
    ascii, space: pattern(SPACE), colon: pattern(`${SPACE}:${SPACE}`),
    braces: around('{', '}'),
    brackets: around('[', ']'),
    text: made(new JsonString(hole, lengthContent(0, Infinity))),
    number: made(new Fixed(hole, matching(ANY_NUMBER))),
    integer: made(new Fixed(hole, matching(ANY_INTEGER)))
  }
  const words = made(new Fixed(hole, oneOf(['true', 'false', 'null'])))
  const any = (): Choice => {
    const choice = made(new Choice(hole))
    choice.options.push(common.text, common.number, words)
    return choice
  }
  const shape = { elements: [], min: 0, max: Infinity, needed: 0 }
  let [inner, object]: Rule[] = [any(), words]
  for (let depth = 0; depth < MAX_DEPTH; depth++) {
    const entry = made(new Sequence(hole, [common.text, common.colon, inner as Rule]))
    object = made(new List(hole, common.braces, { ...shape, others: entry }))
    const array = made(new List(hole, common.brackets, { ...shape, others: inner as Rule }))
    const choice = any()
    choice.options.push(object, array)
    inner = choice
  }
  measureAll(rules)
  return { ...common, any: inner as Rule, object: object as Rule }
}

/** Makes rules, and measures them when all are there. */
export class Builder {
  readonly common: CommonRules
  private readonly path: string
  private readonly hole: Frame = holeFrame()
  private readonly rules: Rule[] = []

  /** `path` is named where there are too many rules. */
  constructor (common: CommonRules, path: string) {
    this.common = common
    this.path = path
  }

  choice (options: readonly Rule[] = []): Choice {
    const choice = this.made(new Choice(this.hole))
    choice.options.push(...options)
    return choice
  }

  sequence (parts: readonly Rule[]): Rule {
    return this.made(new Sequence(this.hole, parts))
  }

  /** White space, then a value. */
  spaced (rule: Rule): Rule {
    return this.sequence([this.common.space, rule])
  }

  repeat (first: Rule, others: Rule, max: number): Rule {
    return this.made(new Repeat(this.hole, first, others, max))
  }

  /** One of the values, as it stands in JSON. */
  values (values: readonly unknown[]): Rule {
    return this.made(new Fixed(this.hole, oneOf(values.map((value) => jsonText(value, this.common.ascii)))))
  }

  /** A text outside of JSON; a special token may spell it. */
  marker (text: string): Rule {
    return this.made(new Fixed(this.hole, oneOf([text]), true))
  }

  /** Free text up to and including a marker; `mayEnd`: the output may end before it. */
  freeUpTo (marker: string, mayEnd: boolean): Rule {
    return this.made(new Free(this.hole, upTo(marker), mayEnd))
  }

  /** Free text that begins in a way that the pattern matches, or not at all. */
  freeFrom (pattern: string): Rule {
    return this.made(new Free(this.hole, matching(pattern), true))
  }

  text (min: number, max: number): Rule {
    const limited = min > 0 || max < Infinity
    return limited ? this.made(new JsonString(this.hole, lengthContent(min, max))) : this.common.text
  }

  /** A text that an automaton accepts. */
  accepted (automaton: Automaton): Rule {
    return this.made(new JsonString(this.hole, automatonContent(automaton, this.common.ascii)))
  }

  number (limits: NumberLimits, integer: boolean): Rule {
    if (Object.keys(limits).length === 0) return integer ? this.common.integer : this.common.number
    return this.made(new BoundNumber(this.hole, limits, integer || limits.multipleOf !== undefined))
  }

  entry (name: Rule, value: Rule): Rule {
    return this.sequence([name, this.common.colon, value])
  }

  /** An object; the elements of its shape are entries. */
  object (shape: ListShape): Rule {
    return this.made(new List(this.hole, this.common.braces, shape))
  }

  array (shape: ListShape): Rule {
    return this.made(new List(this.hole, this.common.brackets, shape))
  }

  /** The rule, after all that were made are measured. */
  finished (rule: Rule): Rule {
    // Inner rules were made last: going backwards, most sizes are known at the first pass.
    measureAll(this.rules.reverse())
    return rule
  }

  private made<R extends Rule> (rule: R): R {
    if (this.rules.push(rule) > MAX_RULES) {
      throw invalid(`${this.path}: the schema needs more than ${MAX_RULES} rules`, this.path)
    }
    return rule
  }
}
