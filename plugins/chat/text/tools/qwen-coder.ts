import { Sequence } from '../grammar/rules.js'
import type { Writing } from '../grammar/fields.js'
import type { Input, Reading } from '../parse/input.js'
import { eachTool, repeated, type CallSink, type ToolFormat } from './format.js'
import { Arguments } from './values.js'

const [OPEN, END] = ['<tool_call>', '</tool_call>']
const [FUNCTION, FUNCTION_END, KEY, KEY_END] = ['<function=', '</function>', '<parameter=', '</parameter>']

const writing: Writing = {
  raw: `\n${KEY_END}`,
  brackets: (make) => {
    const line = make.marker('\n')
    const close = new Sequence(make, [line, make.marker(FUNCTION_END)])
    return { open: line, comma: line, close, end: make.marker(FUNCTION_END) }
  },
  entry: (make, name, value) =>
    new Sequence(make, [make.marker(KEY), name, make.marker('>\n'), value, make.marker(`\n${KEY_END}`)])
}

/** Reads one function behind its marker; false where the output ends in it. */
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
    // A model that forgets one end goes on with the next.
    const ended = yield * values.read(input, key.trim(), [KEY_END, FUNCTION_END], { trailing: '\n' })
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
  },
  calls (grammar) {
    const { make } = grammar
    const line = make.pattern('\\n?')
    const one = eachTool(grammar, ({ name, fields }) =>
      [line, make.marker(`${FUNCTION}${name}>`), fields(writing), line, make.marker(END)])
    return repeated(grammar, one, make.spaced(new Sequence(make, [make.marker(OPEN), one])))
  }
}
