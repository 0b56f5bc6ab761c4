import { CallReader } from './call-reader.js'
import type { CallDelta } from './call-reader.js'
import { toolFormats, type ToolFormat, type ToolFormatName } from '../tool-formats.js'

/** A piece of a tool call in the shape of OpenAI's stream: id and name come once, then arguments. */
export interface ToolCallDelta { index: number, id?: string, name?: string, arguments?: string }

/** What is new of an answer. */
export interface OutputDelta { content: string, reasoning: string, toolCalls: ToolCallDelta[] }

/** How an output is read. */
export interface OutputOptions {
  /** How the model writes calls; null: calls are not looked for (the request has no tools). */
  tools: ToolFormatName | null
  /** Look for `<think>`. Default true. */
  reasoning?: boolean
  /** The prompt ends inside `<think>`. Default false. */
  startsInReasoning?: boolean
  /** Ids of calls, e.g. `call_` and random characters. */
  newId: () => string
}

const THINK = '<think>'
const THINK_END = '</think>'

/** Special tokens that the text stream has to pass on for the reader (`StreamOptions.markers`). */
export const MARKERS: readonly string[] = [THINK, THINK_END, ...Object.values(toolFormats).flatMap(
  ({ marker, end }) => end === undefined ? [marker] : [marker, end])]

/** `call` is a call up to its end marker, `json` one that ends with its object. */
type Mode = 'content' | 'reasoning' | 'call' | 'after call' | 'json'

/**
 * Takes an output apart into content, reasoning and tool calls while it comes. The result does not depend
 * on how the text was cut; a marker is never part of it. White space next to markers is dropped. Calls are
 * read in the formats of ../../tool-formats.
 */
export class OutputReader {
  /** Calls so far. */
  calls = 0
  private readonly options: OutputOptions
  private readonly format: ToolFormat | undefined
  private mode: Mode
  private pending = ''
  /** White space that counts only if something follows. */
  private space = ''
  /** No content or reasoning since the last marker: leading white space is dropped. */
  private fresh = true
  /** Nothing but white space came before: bare JSON may begin. */
  private begins: boolean
  private reader = new CallReader()
  private out: OutputDelta = nothing()

  constructor (options: OutputOptions) {
    this.options = options
    this.format = options.tools === null ? undefined : toolFormats[options.tools]
    this.mode = options.startsInReasoning === true ? 'reasoning' : 'content'
    this.begins = this.format?.bare === true
    this.fresh = this.mode === 'reasoning'
  }

  push (text: string): OutputDelta {
    this.out = nothing()
    this.pending += text
    while (this.pending !== '' && this.advance());
    return this.out
  }

  /** What was held back. */
  end (): OutputDelta {
    this.out = nothing()
    const rest = this.pending
    this.pending = ''
    if (this.mode === 'content' || this.mode === 'reasoning') {
      this.emit(rest)
      this.write(this.space)
    } else if (!this.reader.certain && this.mode !== 'after call') {
      const unfinished = this.reader.state === 'open' ? this.reader.text : ''
      this.mode = 'content'
      this.emit(unfinished + rest)
      this.write(this.space)
    }
    this.space = ''
    return this.out
  }

  /** Handles the beginning of `pending`; false where more text is needed. */
  private advance (): boolean {
    switch (this.mode) {
      case 'content': return this.content()
      case 'reasoning': return this.until([THINK_END], () => this.turn('content'))
      case 'call': return this.reader.state === 'open' ? this.readCall() : this.skipTo(this.format?.end ?? '')
      case 'after call': return this.afterCall()
      default: return this.json()
    }
  }

  private content (): boolean {
    if (this.begins && this.startsBare()) return true
    const markers = this.options.reasoning === false ? [] : [THINK]
    if (this.format !== undefined) markers.push(this.format.marker)
    return this.until(markers, (marker) => {
      this.reader = new CallReader()
      this.turn(marker === THINK ? 'reasoning' : this.format?.end === undefined ? 'json' : 'call')
    })
  }

  private startsBare (): boolean {
    const text = this.pending.trimStart()
    if (text === '') return false
    if (text.startsWith('{')) {
      this.space += this.pending.slice(0, this.pending.length - text.length)
      this.pending = text
      this.reader = new CallReader()
      this.mode = 'json'
      return true
    }
    const markers = [THINK, this.format!.marker]
    if (!markers.some((m) => m.startsWith(text) || text.startsWith(m))) this.begins = false
    return false
  }

  /** Hands out text up to the first of the markers, and keeps back what may begin one. */
  private until (markers: readonly string[], found: (marker: string) => void): boolean {
    const text = this.pending
    let at = text.length
    let marker: string | null = null
    for (const m of markers) {
      const i = text.indexOf(m)
      if (i >= 0 && i < at) {
        at = i
        marker = m
      }
    }
    const keep = marker === null ? mayBegin(text, markers) : 0
    this.emit(text.slice(0, at - keep))
    this.pending = marker === null ? text.slice(text.length - keep) : text.slice(at + marker.length)
    if (marker === null) return false
    found(marker)
    return true
  }

  private turn (mode: Mode): void {
    this.mode = mode
    this.space = ''
    this.fresh = true
  }

  /** Reads characters of a call; text that is no call becomes content. */
  private readCall (): boolean {
    if (this.reader.text === '') this.pending = this.pending.trimStart()
    if (this.pending === '') return false
    const read = this.feed()
    if (read === 'other') this.show(this.reader.text)
    return true
  }

  /** Gives the reader what is there, up to the end of its object. */
  private feed (): CallReader['state'] {
    let used = 0
    for (const c of this.pending) {
      used += c.length
      const delta = this.reader.push(c)
      if (delta !== null) this.called(delta)
      if (this.reader.state !== 'open') break
    }
    this.pending = this.pending.slice(used)
    return this.reader.state
  }

  private called (delta: CallDelta): void {
    if (delta.name !== undefined) this.calls++
    const index = this.calls - 1
    this.out.toolCalls.push(delta.name === undefined ? { index, ...delta }
      : { index, id: this.options.newId(), ...delta })
  }

  /** What stands between `<tool_call>` and its end without being a call is content. */
  private show (text: string): void {
    this.mode = 'content'
    this.emit(text)
    this.mode = 'call'
  }

  /** Passes over text up to a marker; text of no call is content. */
  private skipTo (marker: string): boolean {
    const at = this.pending.indexOf(marker)
    const keep = at < 0 ? mayBegin(this.pending, [marker]) : 0
    const passed = this.pending.slice(0, at < 0 ? this.pending.length - keep : at)
    if (this.reader.state === 'other') this.show(passed)
    this.pending = at < 0 ? this.pending.slice(this.pending.length - keep)
      : this.pending.slice(at + marker.length)
    if (at < 0) return false
    this.turn('content')
    return true
  }

  /** After a call of a list or in bare JSON: another one, or content. */
  private afterCall (): boolean {
    const text = this.pending.trimStart()
    this.pending = text
    if (text === '') return false
    const c = text[0] as string
    const { between = '', list } = this.format ?? {}
    if (c === '{') {
      this.reader = new CallReader()
      this.mode = 'json'
    } else if (between.includes(c)) {
      this.pending = text.slice(1)
    } else {
      if (c === ']' && list === true) this.pending = text.slice(1)
      this.turn('content')
      this.begins = false
    }
    return true
  }

  /** Reads a call that ends with its JSON object. */
  private json (): boolean {
    if (this.reader.text === '') {
      this.pending = this.pending.trimStart()
      if (this.format?.list === true && this.pending.startsWith('[')) {
        this.pending = this.pending.slice(1).trimStart()
      }
    }
    if (this.pending === '') return false
    const state = this.feed()
    if (state === 'call') {
      this.mode = 'after call'
    } else if (state === 'other') {
      this.mode = 'content'
      this.begins = false
      this.pending = this.reader.text + this.pending
      this.reader = new CallReader()
    }
    return true
  }

  /** Hands out text of the current mode without white space at its beginning and end. */
  private emit (text: string): void {
    const body = this.fresh ? text.trimStart() : text
    const end = body.trimEnd()
    if (end === '') {
      this.space += body
      return
    }
    this.write(this.space + end)
    this.space = body.slice(end.length)
    this.fresh = false
  }

  private write (text: string): void {
    if (this.mode === 'reasoning') this.out.reasoning += text
    else this.out.content += text
  }
}

const nothing = (): OutputDelta => ({ content: '', reasoning: '', toolCalls: [] })

/** Length of the longest end of `text` that begins one of the markers. */
function mayBegin (text: string, markers: readonly string[]): number {
  let longest = 0
  for (const marker of markers) {
    for (let n = Math.min(marker.length - 1, text.length); n > longest; n--) {
      if (text.endsWith(marker.slice(0, n))) longest = n
    }
  }
  return longest
}
