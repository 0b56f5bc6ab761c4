import { Choice, Free, Sequence } from '../grammar/rules.js'
import { upTo } from '../grammar/automaton.js'
import type { Builder } from '../grammar/builder.js'
import type { Rule } from '../grammar/machine.js'
import type { Input, Reading } from '../parse/input.js'
import type { CallGrammar, ToolFormat } from './format.js'
import type { OutputSink } from '../parse/output.js'
import { readArguments } from './json-calls.js'

const [START, CHANNEL, MESSAGE, CONSTRAIN] = ['<|start|>', '<|channel|>', '<|message|>', '<|constrain|>']
const [END, CALL, RETURN] = ['<|end|>', '<|call|>', '<|return|>']
const FUNCTIONS = ' to=functions.'

/** Special tokens of this writing. */
export const HARMONY_MARKERS = [START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN]

/**
 * Reads an output of messages `<|channel|>NAME<|message|>…<|end|>`: reasoning in the channel `analysis`,
 * calls in messages to `functions.NAME`, and the answer in all others.
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

/** What stands in front of a message's text; null where none follows. Text without a header is content. */
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

/** What an output may be: an answer (null: any text; undefined: none), calls, or both. */
export interface HarmonyShape { answer: Rule | null | undefined, calls: CallGrammar | null }

/** The rule of a whole output: reasoning as often as the model wants, then what was asked for. */
export function channelsRule (make: Builder, { answer, calls }: HarmonyShape): Rule {
  const text = (marker: string): Rule => make.marker(marker)
  // Filled below, as another message may follow the first.
  const message = new Choice(make)
  const rest = new Free(make, upTo(END), false, 'all')
  const more = new Sequence(make, [rest, text(START), text('assistant'), message])
  const channel = new Choice(make, [new Sequence(make, [text('analysis'), text(MESSAGE), more])])
  const { options } = channel
  if (answer !== undefined) {
    const body = answer === null ? new Free(make, upTo(END), true, 'all') : make.spaced(answer)
    options.push(new Sequence(make, [text('final'), text(MESSAGE), body]))
  }
  if (calls !== null) {
    // Where any words are allowed, some may come before a call.
    if (answer === null) options.push(new Sequence(make, [text('commentary'), text(MESSAGE), more]))
    options.push(new Sequence(make, [text('commentary'), callRule(calls, '')]))
    message.options.push(callRule(calls, CHANNEL))
  }
  message.options.push(new Sequence(make, [text(CHANNEL), channel]))
  return message
}

/** One call; the channel stands behind the name where a message begins with the name. */
function callRule ({ make, tools }: CallGrammar, channel: string): Rule {
  const constraint = new Choice(make, [
    make.marker(MESSAGE), new Sequence(make, [make.marker(' json'), make.marker(MESSAGE)]),
    new Sequence(make, [make.marker(' '), make.marker(CONSTRAIN), make.marker('json'), make.marker(MESSAGE)])
  ])
  const named = channel === '' ? [] : [make.marker(channel), make.marker('commentary')]
  return new Sequence(make, [make.marker(FUNCTIONS), new Choice(make, tools.map(({ name, json }) =>
    new Sequence(make, [make.marker(name), ...named, constraint, json()])))])
}

/** Messages to `functions.NAME`: gpt-oss. The whole output is read by `readChannels`. */
export const harmony: ToolFormat = {
  shows: ['to=functions.', MESSAGE],
  hints: [`${CHANNEL}commentary`, 'to=functions.'],
  opens: [],
  inner: HARMONY_MARKERS,
  * read () {},
  calls: (grammar) => channelsRule(grammar.make, { answer: undefined, calls: grammar })
}
