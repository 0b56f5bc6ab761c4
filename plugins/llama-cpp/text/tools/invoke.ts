/** `<invoke name="…"><parameter name="…">…</parameter></invoke>`, in tags of each family's own. */
import type { Input, Reading } from '../parse/input.js'
import type { CallSink, ToolFormat } from './format.js'
import { Arguments } from './values.js'

/** `outer`: the tag around all calls; `prefix`: how the other tags begin. */
function invokes (outer: string, prefix = ''): ToolFormat {
  const [open, end] = [`<${outer}>`, `</${outer}>`]
  const [call, callEnd] = [`<${prefix}invoke name="`, `</${prefix}invoke>`]
  const [key, keyEnd] = [`<${prefix}parameter name="`, `</${prefix}parameter>`]

  /** Reads one call behind its marker; false where the output ends in it. */
  function * readCall (input: Input, out: CallSink): Reading<boolean> {
    let name = ''
    yield * input.until(['"'], (text) => { name += text })
    if ((yield * input.until(['>'], () => {})) === '') return false
    const values = new Arguments(out, name)
    let marker = yield * input.until([key, callEnd, end], () => {})
    while (marker === key) {
      let [parameter, marks] = ['', '']
      yield * input.until(['"'], (text) => { parameter += text })
      yield * input.until(['>'], (text) => { marks += text })
      const isText = /string="(true|false)"/.exec(marks)?.[1]
      const how = isText === undefined ? {} : { isText: isText === 'true' }
      if ((yield * values.read(input, parameter, [keyEnd], how)) === '') return false
      marker = yield * input.until([key, callEnd, end], () => {})
    }
    if (marker === '') return false
    values.end()
    if (marker === end) input.put(end)
    return true
  }

  return {
    shows: [open, call, end],
    opens: [open],
    inner: [end],
    * read (input, out) {
      let marker = yield * input.until([call, end], () => {})
      while (marker === call && (yield * readCall(input, out))) {
        marker = yield * input.until([call, end], () => {})
      }
    }
  }
}

/** MiniMax M2. */
export const minimaxInvoke = invokes('minimax:tool_call')
/** DeepSeek V3.2, whose parameters say whether their values are texts, with `string="true"`, or JSON. */
export const deepseekInvoke = invokes('｜DSML｜function_calls', '｜DSML｜')
/** DeepSeek V4. */
export const deepseekInvoke4 = invokes('｜DSML｜tool_calls', '｜DSML｜')
