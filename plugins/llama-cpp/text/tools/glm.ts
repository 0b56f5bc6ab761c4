import { NAME_ONLY, type ToolFormat } from './format.js'
import { skipPast } from './json-calls.js'
import { Arguments } from './values.js'

const [OPEN, END, KEY, KEY_END] = ['<tool_call>', '</tool_call>', '<arg_key>', '</arg_key>']
const [VALUE, VALUE_END] = ['<arg_value>', '</arg_value>']

/** Format of GLM since 4.5: `<tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value></tool_call>`. */
export const glm: ToolFormat = {
  shows: [OPEN, KEY, VALUE],
  hints: [KEY],
  opens: [OPEN],
  inner: [END, KEY, KEY_END, VALUE, VALUE_END],
  * read (input, out) {
    let name = yield * input.space()
    const first = yield * input.until([KEY, END, '\n'], (text) => { name += text })
    if (!NAME_ONLY.test(name.trim())) {
      input.put(name + first)
      yield * input.until([END], (text) => { out.content(text) })
      return
    }
    const values = new Arguments(out, name.trim())
    let marker = first === '\n' ? yield * input.until([KEY, END], () => {}) : first
    while (marker === KEY) {
      let key = ''
      yield * input.until([KEY_END], (text) => { key += text })
      yield * skipPast(input, VALUE)
      if ((yield * values.read(input, key.trim(), [VALUE_END])) === '') return
      marker = yield * input.until([KEY, END], () => {})
    }
    if (marker === END) values.end()
  }
}
