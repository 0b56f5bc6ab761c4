import type { Input, Reading } from '../parse/input.js'
import type { CallSink, ToolFormat } from './format.js'
import { readArguments, skipPast } from './json-calls.js'

const CALLS = '<｜tool▁calls▁begin｜>'
const CALL = '<｜tool▁call▁begin｜>'
const NAMED = '<｜tool▁sep｜>'
const CALL_END = '<｜tool▁call▁end｜>'
const CALLS_END = '<｜tool▁calls▁end｜>'

/** Both writings: the older one has the type in front of the name, and fences around the arguments. */
function * read (input: Input, out: CallSink, opened: string): Reading<void> {
  for (let marker = opened; marker === CALL || marker === CALLS;) {
    if (marker === CALL) yield * readCall(input, out)
    marker = yield * input.until([CALL, CALLS_END], () => {})
  }
}

function * readCall (input: Input, out: CallSink): Reading<void> {
  let name = ''
  const marker = yield * input.until([NAMED, CALL_END], (text) => { name += text })
  if (marker !== NAMED) return
  yield * input.space()
  if ((yield * input.peek()) !== '{') {
    name = ''
    const line = yield * input.until(['\n', CALL_END], (text) => { name += text })
    if (line === CALL_END) return out.call(name.trim())
    yield * input.take('```json')
    yield * input.space()
  }
  out.call(name.trim())
  yield * readArguments(input, out)
  yield * skipPast(input, CALL_END)
}

const common = { opens: [CALLS, CALL], inner: [NAMED, CALL_END, CALLS_END], read }

/** A call as `function`, its name in a line, and fenced arguments: DeepSeek V3 and R1. */
export const deepseek: ToolFormat = { ...common, shows: [CALL, '```json'] }
/** A call as its name and arguments: DeepSeek V3.1. */
export const deepseekNamed: ToolFormat = { ...common, shows: [CALL, NAMED], hints: [] }
