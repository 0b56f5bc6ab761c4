import { NAME_ONLY, type ToolFormat } from './format.js'
import { readArguments, skipPast } from './json-calls.js'

const [OPEN, END] = ['<function=', '</function>']

/** `<function=NAME>{…}</function>` for each call: functionary 3.1, and Llama 3.1 by prompts of its own. */
export const functionary: ToolFormat = {
  shows: [OPEN, '{', END],
  // Others write functions as `<function=` too: what shows no calls is taken for one of those.
  hints: [],
  opens: [OPEN],
  inner: [END],
  * read (input, out) {
    let name = ''
    const ended = yield * input.until(['>', '\n'], (text) => { name += text })
    if (ended !== '>' || !NAME_ONLY.test(name)) {
      out.content(OPEN + name + ended)
      return
    }
    out.call(name)
    yield * readArguments(input, out)
    yield * skipPast(input, END)
  }
}
