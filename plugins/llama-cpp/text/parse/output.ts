import { reasoningMarkers, reasonings, type Reasoning, type ReasoningName } from '../reasoning.js'
import { readChannels } from '../tools/harmony.js'
import { markersOf, toolFormats, type ToolFormatName } from '../tools/index.js'
import type { OutputSink, ToolFormat } from '../tools/format.js'
import { Input, type Reading } from './input.js'
import type { Choice } from '../../../runners/language/chunks.js'

/** Parsed output as an OpenAI delta without empty fields. */
export type OutputDelta = NonNullable<Choice['delta']>

export interface OutputOptions {
  /** The tool call format; null if the request has no tools. */
  tools: ToolFormatName | null
  /** The reasoning format; null for a model that does not reason. Default `think`. */
  reasoning?: ReasoningName | null | undefined
  /** Whether the prompt has already begun reasoning. Default false. */
  startsInReasoning?: boolean
  /** Returns the JSON Schema of a function's parameters, for formats that do not mark value types. */
  parameters?: (name: string) => unknown
  /** Creates a unique id for a tool call. */
  newId: () => string
}

/** Special tokens of all formats, for `StreamOptions.markers`, so that the text stream passes them on. */
export const MARKERS: readonly string[] = [...new Set([
  ...Object.values(reasonings).flatMap(reasoningMarkers), ...Object.values(toolFormats).flatMap(markersOf)
])]

/**
 * Splits streamed output into content, reasoning and tool calls. The result does not depend on how the text
 * was split, and excludes markers and white space next to them.
 */
export class OutputReader {
  private readonly input = new Input()
  private readonly collector: DeltaCollector
  private readonly reading: Reading<void>

  constructor (options: OutputOptions) {
    const { tools, reasoning: name, startsInReasoning = false } = options
    const reasoning = name === null ? null : reasonings[name ?? 'think']
    const out = new DeltaCollector(options)
    this.collector = out
    this.reading = reasoning?.channels === true
      ? readChannels(this.input, out, tools !== null)
      : readMarked(this.input, out, reasoning, tools === null ? null : toolFormats[tools], startsInReasoning)
  }

  get calls (): number { return this.collector.calls }

  push (text: string): OutputDelta {
    this.input.add(text)
    this.reading.next()
    return this.collector.taken()
  }

  /** Ends the output; returns the text withheld so far. */
  end (): OutputDelta {
    this.input.over = true
    this.reading.next()
    this.collector.flush()
    return this.collector.taken()
  }
}

/** Reads text with reasoning and calls between markers. Reasoning cannot begin after content. */
function * readMarked (
  input: Input, out: DeltaCollector, reasoning: Reasoning | null, format: ToolFormat | null, inside: boolean
): Reading<void> {
  const { opens = '', closes = '', around = [] }: Partial<Reasoning> = reasoning ?? {}
  const think = function * (): Reading<void> {
    out.turn()
    yield * input.until([closes], (text) => { out.reasoning(text) })
    out.turn()
  }
  const markers = [...reasoning === null ? [] : [opens], ...around, ...format?.opens ?? []]
  if (inside) yield * think()
  /** True until text other than white space arrives, if the format allows calls without a marker. */
  let begins = format?.bare !== undefined
  for (;;) {
    if (begins && format !== null) begins = yield * readBare(input, out, format, markers)
    const marker = yield * input.until(markers, (text) => { out.content(text) })
    if (marker === '') return
    if (marker === opens && out.begun) out.content(marker)
    else if (marker === opens) yield * think()
    else {
      out.turn()
      if (format?.opens.includes(marker) === true) {
        begins = false
        yield * format.read(input, out, marker)
        out.turn()
      }
    }
  }
}

/** Reads calls without a marker at the output's start; returns true if the output has a marker there. */
function * readBare (
  input: Input, out: DeltaCollector, format: ToolFormat, markers: readonly string[]
): Reading<boolean> {
  out.content(yield * input.space())
  const before = out.calls
  if ((yield * input.peek()) === format.bare) {
    yield * format.read(input, out, '')
    if (out.calls > before) out.turn()
    return false
  }
  const marker = yield * input.takeOne(markers)
  if (marker !== '') input.put(marker)
  return marker !== ''
}

class DeltaCollector implements OutputSink {
  calls = 0
  /** Whether content other than white space has been emitted. */
  begun = false
  private readonly options: OutputOptions
  private delta: OutputDelta = {}
  /** White space that is emitted only if more text follows. */
  private held = ''
  /** Whether leading white space must be dropped, because content or reasoning begins here. */
  private fresh: boolean
  private last: 'content' | 'reasoning_content' = 'content'

  constructor (options: OutputOptions) {
    this.options = options
    this.fresh = options.startsInReasoning === true
  }

  content (text: string): void {
    this.begun ||= text.trim() !== ''
    this.emit('content', text)
  }

  reasoning (text: string): void { this.emit('reasoning_content', text) }

  turn (): void {
    this.held = ''
    this.fresh = true
  }

  call (name: string): void {
    const calls = this.delta.tool_calls ??= []
    calls.push({ index: this.calls++, id: this.options.newId(), type: 'function', function: { name } })
  }

  args (json: string): void {
    if (json === '') return
    const calls = this.delta.tool_calls ??= []
    const index = this.calls - 1
    const open = calls.at(-1)?.function
    if (open === undefined) calls.push({ index, function: { arguments: json } })
    else open.arguments = (open.arguments ?? '') + json
  }

  parameters (name: string): unknown { return this.options.parameters?.(name) }

  taken (): OutputDelta {
    const { delta } = this
    this.delta = {}
    return delta
  }

  flush (): void {
    if (this.held !== '') this.add(this.last, this.held)
    this.held = ''
  }

  /** Emits text, but drops white space at the beginning and end of content and reasoning. */
  private emit (kind: 'content' | 'reasoning_content', text: string): void {
    const body = this.fresh ? text.trimStart() : text
    const end = body.trimEnd()
    this.last = kind
    if (end === '') {
      this.held += body
      return
    }
    this.add(kind, this.held + end)
    this.held = body.slice(end.length)
    this.fresh = false
  }

  private add (kind: 'content' | 'reasoning_content', text: string): void {
    this.delta[kind] = (this.delta[kind] ?? '') + text
  }
}
