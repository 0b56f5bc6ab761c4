import type { Input, Reading } from '../parse/input.js'
import type { OutputSink, ToolFormat } from './format.js'
import { readArguments } from './json-calls.js'

const [START, CHANNEL, MESSAGE, CONSTRAIN] = ['<|start|>', '<|channel|>', '<|message|>', '<|constrain|>']
const [END, CALL, RETURN] = ['<|end|>', '<|call|>', '<|return|>']
const FUNCTIONS = ' to=functions.'

export const HARMONY_MARKERS = [START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN]

/**
 * Reads messages `<|channel|>NAME<|message|>…<|end|>`: reasoning in the channel `analysis`, calls in messages
 * to `functions.NAME`, content in all others.
 */
export function * readChannels (input: Input, out: OutputSink, tools: boolean): Reading<void> {
  let header = yield * readHeader(input, out, '')
  while (header !== null) {
    const name = /\bto=functions\.([\w.-]+)/.exec(header)?.[1]
    const isReasoning = /<\|channel\|>\s*analysis\b/.test(header)
    out.turn()
    if (tools && name !== undefined) {
      out.call(name)
      yield * readArguments(input, out)
    }
    const give = (text: string): void => {
      if (isReasoning && name === undefined) out.reasoning(text)
      else if (!tools || name === undefined) out.content(text)
    }
    const ended = yield * input.until([END, CALL, RETURN, START, CHANNEL], give)
    out.turn()
    if (ended === '') return
    header = yield * readHeader(input, out, ended === START || ended === CHANNEL ? ended : '')
  }
}

/** Reads a message's header; null at the end of the output. Text without a header is content. */
function * readHeader (input: Input, out: OutputSink, begun: string): Reading<string | null> {
  let header = begun
  if (begun === '' && (yield * input.take(FUNCTIONS))) header = FUNCTIONS
  else if (begun === '') {
    header = yield * input.until([START, CHANNEL], (text) => { out.content(text) })
  }
  if (header === '') return null
  const found = yield * input.until([MESSAGE], (text) => { header += text })
  return found === '' ? null : header
}

/** gpt-oss's format. `read` does nothing, because `readChannels` reads the whole output, including calls. */
export const harmony: ToolFormat = {
  shows: ['to=functions.', MESSAGE],
  hints: [`${CHANNEL}commentary`, 'to=functions.'],
  opens: [],
  inner: HARMONY_MARKERS,
  * read () {}
}
