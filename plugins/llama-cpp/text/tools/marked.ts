import type { Reading } from '../parse/input.js'
import type { ToolFormat } from './format.js'
import { readArguments, skipPast } from './json-calls.js'

/** The markers of calls that have marks for all of their parts. */
interface Marks {
  /** Around all calls. */
  open: string, end: string
  /** In front of a call; between its name and the JSON object of its arguments; behind it. */
  call: string, given: string, callEnd: string
  /** Markers that stand in what is in front of `given`, beside the name. */
  inner?: readonly string[]
}

/** A format of calls between marks; `find` takes the name out of what is in front of `given`. */
function markedFormat (marks: Marks, find: (written: string) => string): ToolFormat {
  const { open, end, call, given, callEnd, inner = [] } = marks
  return {
    shows: [open, call, given],
    opens: [open],
    inner: [call, end, given, callEnd, ...inner],
    * read (input, out) {
      const next = function * (): Reading<boolean> {
        return (yield * input.until([call, end], () => {})) === call
      }
      while (yield * next()) {
        let written = ''
        const found = yield * input.until([given, callEnd], (text) => { written += text })
        if (found !== given) continue
        out.call(find(written).trim())
        yield * readArguments(input, out)
        yield * skipPast(input, callEnd)
      }
    }
  }
}

/** `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`: Kimi K2. */
export const kimi = markedFormat({
  open: '<|tool_calls_section_begin|>', end: '<|tool_calls_section_end|>', call: '<|tool_call_begin|>',
  given: '<|tool_call_argument_begin|>', callEnd: '<|tool_call_end|>'
}, (written) => written.trim().replace(/^functions\./, '').replace(/:\d+$/, ''))

const NAME = '<|tool_call:name|>'

/** `<|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>{…}<|tool_call:end|>`: Solar Open. */
export const solar = markedFormat({
  open: '<|tool_calls|>', end: '<|calls|>', call: '<|tool_call:begin|>', given: '<|tool_call:args|>',
  callEnd: '<|tool_call:end|>', inner: [NAME]
}, (written) => written.slice(written.lastIndexOf(NAME) + NAME.length))
