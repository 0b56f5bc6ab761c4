import { Sequence } from '../grammar/rules.js'
import type { Reading } from '../parse/input.js'
import { eachTool, repeated, type ToolFormat } from './format.js'
import { readArguments, skipPast } from './json-calls.js'

/** The markers of calls that have marks for all of their parts. */
export interface Marks {
  /** Around all calls. */
  open: string, end: string
  /** In front of a call; between its name and the JSON object of its arguments; behind it. */
  call: string, given: string, callEnd: string
  /** Markers that stand in what is in front of `given`, beside the name. */
  inner?: readonly string[]
}

/** How a name stands between its marks: patterns of what is around it, and how it is found. */
export interface Naming { before: string, after: string, find: (written: string) => string }

/** A format of calls between marks. */
export function markedFormat (marks: Marks, { before, after, find }: Naming): ToolFormat {
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
    },
    calls (grammar) {
      const { make } = grammar
      const one = eachTool(grammar, ({ name, json }) => [make.marker(call), make.pattern(before),
        ...inner.map((marker) => make.marker(marker)), make.marker(name), make.pattern(after),
        make.marker(given), json(), make.marker(callEnd)])
      return new Sequence(make, [repeated(grammar, one, one), make.marker(end)])
    }
  }
}
