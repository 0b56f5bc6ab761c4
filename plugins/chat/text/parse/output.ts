import { CallReader } from './call-reader.js'
import { beginningOf } from '../stream.js'
import { toolFormats, type ToolFormat, type ToolFormatName } from '../tool-formats.js'
import type { CallDelta } from './call-reader.js'

/** A piece of a tool call in the shape of OpenAI's stream: id and name come once, then arguments. */
export interface ToolCallDelta { index: number, id?: string, name?: string, arguments?: string }

/** What is new of an answer. */
export interface OutputDelta { content: string, reasoning: string, toolCalls: ToolCallDelta[] }

/** How an output is read. */
export interface OutputOptions {
  /** How the model writes calls; null: calls are not looked for (the request has no tools). */
  tools: ToolFormatName | null
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

/**
 * `calls` is what follows the marker, where a list may begin; `no call` is what stands between the markers of
 * a call and is none.
 */
type Mode = 'content' | 'reasoning' | 'calls' | 'call' | 'after call' | 'no call'

/**
 * Takes an output apart into content, reasoning and tool calls while it comes. The result does not depend
 * on how the text was cut; a marker is never part of it. White space next to markers is dropped. Calls are
 * read in the formats of ../tool-formats.
 */
export class OutputReader {
  /** Calls so far. */
  calls = 0
  private readonly newId: () => string
  private readonly format: ToolFormat | null
  private mode: Mode
  private pending = ''
  /** White space that counts only if something follows. */
  private space = ''
  /** No content or reasoning since the last marker: leading white space is dropped. */
  private fresh: boolean
  /** Nothing but white space came before: a call without a marker may begin. */
  private begins: boolean
  private reader = new CallReader()
  private out: OutputDelta = nothing()

  constructor ({ tools, startsInReasoning = false, newId }: OutputOptions) {
    this.newId = newId
    this.format = tools === null ? null : toolFormats[tools]
    this.mode = startsInReasoning ? 'reasoning' : 'content'
    this.fresh = startsInReasoning
    this.begins = this.format?.bare === true
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
    if (this.mode === 'call' && !this.reader.certain) {
      this.pending = this.reader.text + this.pending
      this.mode = 'content'
    }
    if (this.mode !== 'call' && this.mode !== 'after call') {
      this.emit(this.pending)
      this.write(this.space)
    }
    this.pending = ''
    this.space = ''
    return this.out
  }

  /** Handles the beginning of `pending`; false where more text is needed. */
  private advance (): boolean {
    switch (this.mode) {
      case 'content': return this.content()
      case 'reasoning': return this.until([THINK_END], () => { this.turn('content') })
      case 'no call': return this.until([this.format?.end ?? ''], () => { this.turn('content') })
      case 'calls': return this.beginCalls()
      case 'call': return this.call()
      case 'after call': return this.afterCall()
    }
  }

  private content (): boolean {
    if (this.begins && this.startsBare()) return true
    const markers = this.format === null ? [THINK] : [THINK, this.format.marker]
    return this.until(markers, (marker) => { this.turn(marker === THINK ? 'reasoning' : 'calls') })
  }

  /** Whether a call without a marker begins. */
  private startsBare (): boolean {
    const text = this.pending.trimStart()
    if (text === '') return false
    if (text.startsWith('{')) {
      if (!this.fresh) this.space += this.pending.slice(0, this.pending.length - text.length)
      this.pending = text
      this.readObject()
      return true
    }
    const markers = [THINK, this.format!.marker]
    if (!markers.some((m) => m.startsWith(text) || text.startsWith(m))) this.begins = false
    return false
  }

  /** Passes text on up to the first of the markers, and keeps back what may begin one. */
  private until (markers: readonly string[], found: (marker: string) => void): boolean {
    const text = this.pending
    const places = markers.map((marker) => ({ marker, at: text.indexOf(marker) })).filter(({ at }) => at >= 0)
    const [first] = places.sort((a, b) => a.at - b.at)
    const end = first?.at ?? text.length - beginningOf(text, markers)
    this.emit(text.slice(0, end))
    this.pending = text.slice(end + (first?.marker.length ?? 0))
    if (first !== undefined) found(first.marker)
    return first !== undefined
  }

  /** Goes on behind a marker. */
  private turn (mode: Mode): void {
    this.mode = mode
    this.space = ''
    this.fresh = true
  }

  private readObject (): void {
    this.mode = 'call'
    this.reader = new CallReader()
  }

  /** Passes over the beginning of a list, where the format has one. */
  private beginCalls (): boolean {
    this.pending = this.pending.trimStart()
    if (this.pending === '') return false
    if (this.format?.list === true && this.pending.startsWith('[')) this.pending = this.pending.slice(1)
    this.readObject()
    return true
  }

  /** Reads the object of a call; what turns out to be no call is read again as text. */
  private call (): boolean {
    if (this.reader.text === '') this.pending = this.pending.trimStart()
    if (this.pending === '') return false
    const state = this.feed()
    if (state === 'call') this.mode = 'after call'
    if (state === 'other') {
      this.mode = this.format?.end === undefined ? 'content' : 'no call'
      this.begins = false
      this.pending = this.reader.text + this.pending
    }
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
      : { index, id: this.newId(), ...delta })
  }

  /** What follows a call: its end marker, another call of a list or in bare JSON, or content. */
  private afterCall (): boolean {
    const { end, between = '', list } = this.format ?? {}
    if (end !== undefined) return this.skipTo(end)
    this.pending = this.pending.trimStart()
    const c = this.pending[0]
    if (c === undefined) return false
    if (c === '{') {
      this.readObject()
    } else if (between.includes(c)) {
      this.pending = this.pending.slice(1)
    } else {
      if (c === ']' && list === true) this.pending = this.pending.slice(1)
      this.turn('content')
      this.begins = false
    }
    return true
  }

  /** Drops text up to a marker. */
  private skipTo (marker: string): boolean {
    const at = this.pending.indexOf(marker)
    if (at < 0) {
      this.pending = this.pending.slice(this.pending.length - beginningOf(this.pending, [marker]))
      return false
    }
    this.pending = this.pending.slice(at + marker.length)
    this.turn('content')
    return true
  }

  /** Passes on text of the current mode without white space at its beginning and end. */
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
