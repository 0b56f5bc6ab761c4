import type { Input, Reading } from '../parse/input.js'
import type { CallSink, ToolFormat } from './format.js'
import { Arguments } from './values.js'

const [OPEN, END] = ['<tool_call>', '</tool_call>']
const [FUNCTION, FUNCTION_END, KEY, KEY_END] = ['<function=', '</function>', '<parameter=', '</parameter>']

/** Reads the rest of a function after `<function=`; false if the output ends before the function does. */
function * readFunction (input: Input, out: CallSink): Reading<boolean> {
  let name = ''
  if ((yield * input.until(['>'], (text) => { name += text })) === '') {
    out.content(FUNCTION + name)
    return false
  }
  const values = new Arguments(out, name.trim())
  let marker = yield * input.until([KEY, FUNCTION_END, END], () => {})
  while (marker === KEY) {
    let key = ''
    yield * input.until(['>'], (text) => { key += text })
    yield * input.take('\n')
    // Some models omit a parameter's closing tag, so the function's closing tag ends the value too.
    const ended = yield * values.read(input, key.trim(), [KEY_END, FUNCTION_END], '\n')
    if (ended === '') return false
    marker = ended === KEY_END ? yield * input.until([KEY, FUNCTION_END, END], () => {}) : ended
  }
  if (marker === '') return false
  values.end()
  if (marker === END) input.put(END)
  return true
}

/** `<tool_call><function=…><parameter=…>…</parameter></function></tool_call>`: Qwen3-Coder, Nemotron 3. */
export const qwenCoder: ToolFormat = {
  shows: [FUNCTION, KEY],
  hints: [FUNCTION],
  opens: [OPEN, FUNCTION],
  inner: [END],
  * read (input, out, opened) {
    if (opened === OPEN) {
      const space = yield * input.space()
      if (!(yield * input.take(FUNCTION))) {
        out.content(space)
        yield * input.until([END], (text) => { out.content(text) })
        return
      }
    }
    while (yield * readFunction(input, out)) {
      yield * input.space()
      if (!(yield * input.take(FUNCTION))) break
    }
    yield * input.take(END)
  }
}
