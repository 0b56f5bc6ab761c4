import type { CallSink, ToolFormat } from './format.js'
import type { Input, Reading } from '../parse/input.js'
import { readArguments, skipPast } from './json-calls.js'

const [OPEN, END] = ['<|tools_prefix|>', '<|tools_suffix|>']

/** Reads `"NAME": {…}` after an object's opening brace; false if the text differs. */
function * readKeyed (input: Input, out: CallSink): Reading<boolean> {
  yield * input.space()
  if (!(yield * input.take('"'))) return false
  let name = ''
  if ((yield * input.until(['"'], (text) => { name += text })) === '') return false
  yield * input.space()
  if (!(yield * input.take(':'))) return false
  out.call(name)
  yield * readArguments(input, out)
  yield * input.space()
  yield * input.take('}')
  return true
}

/** Apertus's format: `<|tools_prefix|>[{"NAME": {…}}, …]<|tools_suffix|>`. */
export const apertus: ToolFormat = {
  shows: [OPEN, END],
  opens: [OPEN],
  inner: [END],
  * read (input, out) {
    do yield * input.run(/[[,\s]/)
    while ((yield * input.take('{')) && (yield * readKeyed(input, out)))
    yield * skipPast(input, END)
  }
}
