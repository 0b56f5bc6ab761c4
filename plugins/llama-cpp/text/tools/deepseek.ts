import type { Input, Reading } from '../parse/input.js'
import type { CallSink, ToolFormat } from './format.js'
import { readArguments, skipPast } from './json-calls.js'

const CALLS = '<｜tool▁calls▁begin｜>'
const CALL = '<｜tool▁call▁begin｜>'
const TYPE_END = '<｜tool▁sep｜>'
const CALL_END = '<｜tool▁call▁end｜>'
const CALLS_END = '<｜tool▁calls▁end｜>'

function * read (input: Input, out: CallSink, opened: string): Reading<void> {
  for (let marker = opened; marker === CALL || marker === CALLS;) {
    if (marker === CALL) yield * readCall(input, out)
    marker = yield * input.until([CALL, CALLS_END], () => {})
  }
}

function * readCall (input: Input, out: CallSink): Reading<void> {
  if ((yield * input.until([TYPE_END, CALL_END], () => {})) !== TYPE_END) return
  let name = ''
  const line = yield * input.until(['\n', CALL_END], (text) => { name += text })
  out.call(name.trim())
  if (line === CALL_END) return
  yield * input.take('```json')
  yield * input.space()
  yield * readArguments(input, out)
  yield * skipPast(input, CALL_END)
}

/** Format of DeepSeek R1 and derived models: `function`, a line with the name, and fenced arguments. */
export const deepseek: ToolFormat = {
  opens: [CALLS, CALL], inner: [TYPE_END, CALL_END, CALLS_END], shows: [CALL, '```json'], read
}
