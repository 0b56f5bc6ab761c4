import type { Input, Reading } from '../parse/input.js'
import { NAME, type CallSink, type ToolFormat } from './format.js'
import { readArguments, readObjects } from './json-calls.js'

const [OPEN, ID, ARGUMENTS] = ['[TOOL_CALLS]', '[CALL_ID]', '[ARGS]']

/** Reads both Mistral formats, because Mistral models mix them. */
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

const common = { opens: [OPEN], inner: [ID, ARGUMENTS], read }

/** Format of Mistral models up to Nemo: `[TOOL_CALLS] [{"name": …, "arguments": …}, …]`. */
export const mistral: ToolFormat = { ...common, shows: [OPEN, '"name"'] }
/**
 * `[TOOL_CALLS]name[ARGS]{…}` for each call, in some models with `[CALL_ID]` and an id: Mistral since 2025.
 */
export const mistralNamed: ToolFormat = { ...common, shows: [OPEN, ARGUMENTS] }
