import { frameOf, Rule, stepInto } from './machine.js'
import type { Frame, State } from './machine.js'

/**
 * States of a run of white space: none yet, one space, one or two line ends, then up to 20 blanks of
 * indentation.
 */
export const SPACES = 24
const ONE = 1
const LINE = 2
const LINES = 3
const LAST = SPACES - 1

/** The next state of a run of white space; -1 where the byte is none or the run is long enough. */
export function stepSpace (state: number, byte: number): number {
  const blank = byte === 0x20 || byte === 0x09
  if (!blank && byte !== 0x0a) return -1
  if (state === 0) return byte === 0x20 ? ONE : byte === 0x0a ? LINE : -1
  if (state === ONE || state === LAST) return -1
  if (byte === 0x0a) return state === LINE ? LINES : -1
  return state === LINE ? LINES + 1 : state + 1
}

/** White space, then a value. */
export class SpaceThen extends Rule {
  override readonly takesMarkers: boolean
  private readonly value: Rule

  constructor (hole: Frame, value: Rule) {
    super(hole)
    this.value = value
    this.takesMarkers = value.takesMarkers
  }

  measure (): number {
    return this.value.least
  }

  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, 0, ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const space = stepSpace(frame.state as number, byte)
    const ret = frame.ret as Frame
    return space >= 0 ? [frameOf(this, space, ret)] : stepInto(this.value, ret, byte)
  }

  rest (_state: State): number {
    return this.value.least
  }
}

/** One of several kinds of value. Options may be added until the first start. */
export class Choice extends Rule {
  readonly options: Rule[] = []

  measure (): number {
    return Math.min(Infinity, ...this.options.map((o) => o.least))
  }

  start (ret: Frame): readonly Frame[] {
    return this.options.filter((o) => o.least < Infinity).flatMap((o) => o.start(ret))
  }

  step (): readonly Frame[] {
    return []
  }

  rest (): number {
    return this.least
  }
}

/** Several values one after the other. */
export class Sequence extends Rule {
  override readonly takesMarkers = true
  private readonly parts: readonly Rule[]

  constructor (hole: Frame, parts: readonly Rule[]) {
    super(hole)
    this.parts = parts
  }

  measure (): number {
    return this.rest(0)
  }

  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, 0, ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const at = frame.state as number
    const ret = frame.ret as Frame
    const after = at + 1 < this.parts.length ? frameOf(this, at + 1, ret) : ret
    return stepInto(this.parts[at] as Rule, after, byte)
  }

  rest (state: State): number {
    return this.parts.slice(state as number).reduce((sum, p) => sum + p.least, 0)
  }

  override final (state: State): boolean {
    const part = this.parts[state as number]
    return part instanceof Free && part.final()
  }
}

/** A value, then up to `max` - 1 times another one. */
export class Repeat extends Rule {
  override readonly takesMarkers = true
  private readonly first: Rule
  private readonly others: Rule
  private readonly max: number

  constructor (hole: Frame, first: Rule, others: Rule, max: number) {
    super(hole)
    this.first = first
    this.others = others
    this.max = max
  }

  measure (): number {
    return this.first.least
  }

  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, 0, ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const done = frame.state as number
    if (done >= this.max) return []
    return stepInto(done === 0 ? this.first : this.others, frameOf(this, done + 1, frame.ret as Frame), byte)
  }

  rest (state: State): number {
    return state === 0 ? this.first.least : 0
  }

  override complete (state: State): boolean {
    return state !== 0
  }
}

/** Any text up to and including a marker (none: for ever). `mayEnd`: the output may end before the marker. */
export class Free extends Rule {
  override readonly takesMarkers = true
  private readonly marker: Uint8Array
  private readonly mayEnd: boolean
  private readonly notFirst: number

  /** `notFirst`: a byte that may not be the first one after white space (-1: any may). */
  constructor (hole: Frame, marker: string, mayEnd: boolean, notFirst = -1) {
    super(hole)
    this.marker = new TextEncoder().encode(marker)
    this.mayEnd = mayEnd
    this.notFirst = notFirst
  }

  measure (): number {
    return this.mayEnd ? 0 : this.marker.length
  }

  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, this.notFirst >= 0 ? -1 : 0, ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const ret = frame.ret as Frame
    let matched = frame.state as number
    if (matched < 0) {
      if (byte === this.notFirst) return []
      if (byte === 0x20 || byte === 0x0a) return [frame]
      matched = 0
    }
    matched = this.advance(matched, byte)
    return matched === this.marker.length && matched > 0 ? [ret] : [frameOf(this, matched, ret)]
  }

  rest (state: State): number {
    return this.mayEnd ? 0 : this.marker.length - Math.max(0, state as number)
  }

  override final (): boolean {
    return this.mayEnd
  }

  /** How much of the marker the text ends with after one more byte. */
  private advance (matched: number, byte: number): number {
    const text = [...this.marker.subarray(0, matched), byte]
    for (let n = Math.min(text.length, this.marker.length); n > 0; n--) {
      const tail = text.slice(text.length - n)
      if (tail.every((b, i) => b === this.marker[i])) return n
    }
    return 0
  }
}
