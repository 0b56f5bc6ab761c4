/** Arguments of a call that are written one by one, in a way of the format's own. */
import type { Builder } from './builder.js'
import type { Rule } from './machine.js'
import type { Brackets } from './rules.js'

/** How a format writes them. */
export interface Writing {
  /** What stands around and between them. */
  brackets: (make: Builder) => Brackets
  /** One of them. */
  entry: (make: Builder, name: Rule, value: Rule) => Rule
  /** Texts are written as they are, up to this marker, which follows them; absent: as JSON has them. */
  raw?: string
  /** That marker stands in front of texts, too, and behind nothing else. */
  quoted?: true
  /** Values are those of Python. */
  python?: true
}

/** Names of arguments that a schema does not declare. */
const OTHER_NAME = '[A-Za-z_]\\w{0,63}'
const MOST_OTHERS = 64

/** One argument: its name, its value, and whether it has to be there. */
export interface Field { name: string, value: Rule, required: boolean }

/** The rule of arguments; `others`: the value of those that are not declared, null for none. */
export function fieldsRule (
  make: Builder, writing: Writing, fields: readonly Field[], others: Rule | null
): Rule {
  const elements = fields.map(({ name, value, required }) =>
    ({ rule: writing.entry(make, make.marker(name), value), required }))
  return make.list(writing.brackets(make), {
    elements, min: 0, max: others === null ? Infinity : elements.length + MOST_OTHERS,
    needed: elements.findLastIndex((element) => element.required) + 1,
    others: others === null ? null : writing.entry(make, make.pattern(OTHER_NAME), others)
  })
}
