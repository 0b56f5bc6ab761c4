/** Makes the rules of one grammar. */
import { isObject } from '../../json.js'
import { lacking, oneOf, regexAutomaton, type Automaton } from './automaton.js'
import { RuleSet, type Rule } from './machine.js'
import { BoundNumber, ANY_INTEGER, ANY_NUMBER, NUMBER_LIMITS, type NumberLimits } from './number.js'
import { parseRegex } from './regex.js'
import { Choice, Fixed, List, Sequence, type Brackets, type ListShape } from './rules.js'
import { automatonContent, bothContents, JsonString, lengthContent, type Content } from './string.js'

/** Deepest nesting where a schema leaves the value open. */
const MAX_DEPTH = 32

/** A run of white space: one space, or one or two line ends and up to 20 blanks of indentation. */
const SPACE = '( |\\n\\n?[ \\t]{0,20})?'

/**
 * Rules that do not depend on a schema; one set serves all grammars of a model. `ascii`: the vocabulary
 * cannot write all characters, so those outside ASCII are written with escapes.
 */
export interface CommonRules {
  ascii: boolean
  /** Values are written as Python has them: True, False, None. */
  python: boolean
  space: Rule, colon: Rule, braces: Brackets, brackets: Brackets
  text: Rule, number: Rule, integer: Rule, any: Rule, object: Rule
}

const PYTHON = new Map<unknown, string>([[true, 'True'], [false, 'False'], [null, 'None']])

/** A value as JSON or Python has it, with escapes for everything but ASCII where needed. */
export function written (value: unknown, { ascii, python }: Pick<CommonRules, 'ascii' | 'python'>): string {
  const inner = (each: unknown): string => written(each, { ascii, python })
  if (python && PYTHON.has(value)) return PYTHON.get(value) as string
  if (python && Array.isArray(value)) return `[${value.map(inner).join()}]`
  if (python && isObject(value)) {
    return `{${Object.entries(value).map(([name, each]) => `${inner(name)}:${inner(each)}`).join()}}`
  }
  const text = JSON.stringify(value)
  return ascii ? text.replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
    : text
}

/** Builds the common rules. */
export function commonRules (ascii: boolean, python = false): CommonRules {
  const set = new RuleSet('the common rules')
  const pattern = (source: string): Rule => new Fixed(set, regexAutomaton(parseRegex(`^${source}$`)))
  const comma = pattern(`${SPACE},${SPACE}`)
  const around = (open: string, end: string): Brackets => ({
    open: pattern(`\\${open}${SPACE}`), comma, close: pattern(`${SPACE}\\${end}`), end: pattern(`\\${end}`)
  })
  const common = {
    ascii,
    python,
    space: pattern(SPACE),
    colon: pattern(`${SPACE}:${SPACE}`),
    braces: around('{', '}'),
    brackets: around('[', ']'),
    text: new JsonString(set, lengthContent(0, Infinity)),
    number: pattern(ANY_NUMBER),
    integer: pattern(ANY_INTEGER)
  }
  const words = new Fixed(set, oneOf([true, false, null].map((word) => written(word, { ascii, python }))))
  const scalars = [common.text, common.number, words]
  const shape = { elements: [], min: 0, max: Infinity, needed: 0 }
  let [any, object]: Rule[] = [new Choice(set, scalars), words]
  for (let depth = 0; depth < MAX_DEPTH; depth++) {
    const entry = new Sequence(set, [common.text, common.colon, any as Rule])
    object = new List(set, common.braces, { ...shape, others: entry })
    const array = new List(set, common.brackets, { ...shape, others: any as Rule })
    any = new Choice(set, [...scalars, object, array])
  }
  return { ...common, any: set.finished(any as Rule), object: object as Rule }
}

/** The rules of one grammar, beside the common ones. */
export class Builder extends RuleSet {
  readonly common: CommonRules

  constructor (common: CommonRules, path: string) {
    super(path)
    this.common = common
  }

  /** White space, then a value. */
  spaced (rule: Rule): Rule {
    return new Sequence(this, [this.common.space, rule])
  }

  /** One of the values, as it stands in JSON. */
  values (values: readonly unknown[]): Rule {
    return new Fixed(this, oneOf(values.map((value) => written(value, this.common))))
  }

  /** One of the values, texts without quotes. */
  unquoted (values: readonly unknown[]): Rule {
    return new Fixed(this, oneOf(values.map((value) =>
      typeof value === 'string' ? value : written(value, this.common))))
  }

  /** A text outside of JSON; a special token may spell it. */
  marker (text: string): Rule {
    return new Fixed(this, oneOf([text]), true)
  }

  /** Texts outside of JSON that a pattern of ours takes. */
  pattern (source: string): Rule {
    return new Fixed(this, regexAutomaton(parseRegex(`^(?:${source})$`)))
  }

  /** A text of `min` to `max` characters. */
  text (min: number, max: number): Rule {
    return min > 0 || max < Infinity ? new JsonString(this, lengthContent(min, max)) : this.common.text
  }

  /** A text that an automaton accepts. */
  accepted (automaton: Automaton): Rule {
    return new JsonString(this, automatonContent(automaton, this.common.ascii))
  }

  /** A text as it is, without quotes, that goes on up to `end` and does not have it inside. */
  raw (content: Content, end: string): Rule {
    const without = lacking(end)
    return new JsonString(this, bothContents(content, automatonContent(without, this.common.ascii),
      without.edges.length), false)
  }

  number (limits: NumberLimits, integer: boolean): Rule {
    const limited = NUMBER_LIMITS.some((word) => limits[word] !== undefined)
    if (!limited) return integer ? this.common.integer : this.common.number
    return new BoundNumber(this, limits, integer || Number.isInteger(limits.multipleOf))
  }

  entry (name: Rule, value: Rule): Rule {
    return new Sequence(this, [name, this.common.colon, value])
  }

  /** An object; the elements of its shape are entries. */
  object (shape: ListShape): Rule {
    return new List(this, this.common.braces, shape)
  }

  array (shape: ListShape): Rule {
    return this.list(this.common.brackets, shape)
  }

  list (brackets: Brackets, shape: ListShape): Rule {
    return new List(this, brackets, shape)
  }
}
