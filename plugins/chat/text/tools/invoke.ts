/** `<invoke name="…"><parameter name="…">…</parameter></invoke>`, in tags of each family's own. */
import { Choice, Sequence } from '../grammar/rules.js'
import type { Writing } from '../grammar/fields.js'
import type { Input, Reading } from '../parse/input.js'
import { eachTool, repeated, type CallSink, type ToolFormat } from './format.js'
import { Arguments } from './values.js'

/** The tags of a family: what stands around all calls, and what its other tags begin with. */
interface Tags { outer: string, prefix: string }

/** `typed`: a parameter says whether its value is a text, with `string="true"`, or JSON. */
function invokes ({ outer, prefix }: Tags, typed: boolean): ToolFormat {
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

  const writing: Writing = {
    raw: keyEnd,
    brackets: (make) => {
      const line = make.marker('\n')
      const close = make.marker(`\n${callEnd}`)
      return { open: line, comma: line, close, end: make.marker(callEnd) }
    },
    entry: (make, name, value) => new Sequence(make, [make.marker(key), name, ...typed
      ? [make.marker('" string="'), new Choice(make, [make.marker('true'), make.marker('false')])] : [],
    make.marker('">'), value, make.marker(keyEnd)])
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
    },
    calls (grammar) {
      const { make } = grammar
      const one = eachTool(grammar, ({ name, fields }) =>
        [make.marker(`\n${call}${name}">`), fields(writing)])
      return new Sequence(make, [repeated(grammar, one, one), make.marker(`\n${end}`)])
    }
  }
}

/** MiniMax M2. */
export const minimaxInvoke = invokes({ outer: 'minimax:tool_call', prefix: '' }, false)
/** DeepSeek V3.2. */
export const deepseekInvoke = invokes({ outer: '｜DSML｜function_calls', prefix: '｜DSML｜' }, true)
/** DeepSeek V4. */
export const deepseekInvoke4 = invokes({ outer: '｜DSML｜tool_calls', prefix: '｜DSML｜' }, true)
