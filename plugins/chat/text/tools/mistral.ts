import { Choice, Sequence } from '../grammar/rules.js'
import type { Rule } from '../grammar/machine.js'
import type { Input, Reading } from '../parse/input.js'
import { NAME, repeated, type CallSink, type ToolFormat } from './format.js'
import { listRule, readArguments, readObjects } from './json-calls.js'

const [OPEN, ID, ARGUMENTS] = ['[TOOL_CALLS]', '[CALL_ID]', '[ARGS]']

/** Both writings, which models of this family mix. */
function * read (input: Input, out: CallSink): Reading<void> {
  const space = yield * input.space()
  if ('[{'.includes(yield * input.peek())) {
    yield * readObjects(input, out)
    return
  }
  const name = yield * input.run(NAME)
  let given = name
  if (yield * input.take(ID)) given += ID + (yield * input.run(/\w/))
  const marked = yield * input.take(ARGUMENTS)
  if (name !== '' && (marked || (yield * input.peek()) === '{')) {
    out.call(name)
    yield * readArguments(input, out)
  } else input.put(space + given + (marked ? ARGUMENTS : ''))
}

/** `[TOOL_CALLS] [{"name": …, "arguments": …}, …]`: Mistral up to Nemo. */
export const mistral: ToolFormat = {
  shows: [OPEN, '"name"'], opens: [OPEN], inner: [ID, ARGUMENTS], read, calls: (grammar) => listRule(grammar)
}

/** `[TOOL_CALLS]name[ARGS]{…}` for each call, with `[CALL_ID]` and an id in some: Mistral since 2025. */
export const mistralNamed: ToolFormat = {
  shows: [OPEN, ARGUMENTS],
  opens: [OPEN],
  inner: [ID, ARGUMENTS],
  read,
  calls (grammar) {
    const { make, tools } = grammar
    const id = new Sequence(make, [make.marker(ID), make.pattern('[a-zA-Z0-9]{9}'), make.marker(ARGUMENTS)])
    const one: Rule = new Choice(make, tools.map(({ name, json }) => new Sequence(make, [
      make.marker(name), new Choice(make, [make.marker(ARGUMENTS), id]), json()
    ])))
    return repeated(grammar, one, new Sequence(make, [make.marker(OPEN), one]))
  }
}
