import { spend } from './budget.js'
import { frameOf, Rule } from './machine.js'
import type { Frame, State } from './machine.js'

/**
 * States inside a JSON string, by what comes next. BODY: a new character. U1..U4: digits of \u escapes (the
 * D state: after a first digit D). H3, H4: the last digits of a high surrogate, which L0..L5 complete.
 * C1..C3: continuation bytes of UTF-8; the others are its restricted second bytes.
 */
const [OPEN, BODY, ESC, U1, U2, U2D, U3, U4, H3, H4, L0, L1, L2, L3, L4, L5, C1, C2, C3, E0, ED, F0, F4,
  COUNT] =
  Array.from({ length: 24 }, (_, i) => i) as [number, number, number, number, number, number, number, number,
    number, number, number, number, number, number, number, number, number, number, number, number, number,
    number, number, number]

/** Bytes to the end of the current character. */
const REST: Record<number, number> = {
  [OPEN]: 0, [BODY]: 0, [ESC]: 1, [U1]: 4, [U2]: 3, [U2D]: 3, [U3]: 2, [U4]: 1, [H3]: 8, [H4]: 7,
  [L0]: 6, [L1]: 5, [L2]: 4, [L3]: 3, [L4]: 2, [L5]: 1, [C1]: 1, [C2]: 2, [C3]: 3, [E0]: 2, [ED]: 2, [F0]: 3,
  [F4]: 3
}

/** next[state * 256 + byte]: the next state, or 255 where the byte does not fit. */
const NEXT = ((): Uint8Array => {
  const next = new Uint8Array(COUNT * 256).fill(255)
  const put = (from: number, low: number, high: number, to: number): void => {
    for (let b = low; b <= high; b++) next[from * 256 + b] = to
  }
  const hex = (from: number, low: string, high: string, to: number): void => {
    for (let d = parseInt(low, 16); d <= parseInt(high, 16); d++) {
      for (const c of [d.toString(16), d.toString(16).toUpperCase()]) put(from, c.charCodeAt(0),
        c.charCodeAt(0), to)
    }
  }
  put(BODY, 0x20, 0x7f, BODY)
  put(BODY, 0x22, 0x22, 255)
  put(BODY, 0x5c, 0x5c, ESC)
  for (const c of '"\\/bfnrt') put(ESC, c.charCodeAt(0), c.charCodeAt(0), BODY)
  put(ESC, 0x75, 0x75, U1)
  hex(U1, '0', 'c', U2)
  hex(U1, 'd', 'd', U2D)
  hex(U1, 'e', 'f', U2)
  hex(U2, '0', 'f', U3)
  hex(U2D, '0', '7', U3)
  hex(U2D, '8', 'b', H3)
  hex(U3, '0', 'f', U4)
  hex(U4, '0', 'f', BODY)
  hex(H3, '0', 'f', H4)
  hex(H4, '0', 'f', L0)
  put(L0, 0x5c, 0x5c, L1)
  put(L1, 0x75, 0x75, L2)
  hex(L2, 'd', 'd', L3)
  hex(L3, 'c', 'f', L4)
  hex(L4, '0', 'f', L5)
  hex(L5, '0', 'f', BODY)
  put(BODY, 0xc2, 0xdf, C1)
  put(BODY, 0xe0, 0xe0, E0)
  put(BODY, 0xe1, 0xef, C2)
  put(BODY, 0xed, 0xed, ED)
  put(BODY, 0xf0, 0xf0, F0)
  put(BODY, 0xf1, 0xf3, C3)
  put(BODY, 0xf4, 0xf4, F4)
  put(C1, 0x80, 0xbf, BODY)
  put(C2, 0x80, 0xbf, C1)
  put(C3, 0x80, 0xbf, C2)
  put(E0, 0xa0, 0xbf, C1)
  put(ED, 0x80, 0x9f, C1)
  put(F0, 0x90, 0xbf, C2)
  put(F4, 0x80, 0x8f, C2)
  return next
})()

const QUOTE = 0x22

/**
 * A JSON string of `min` to `max` characters (code points, as JSON Schema counts them). State: place in the
 * current character + COUNT * finished characters, as far as their number matters.
 */
export class Text extends Rule {
  private readonly min: number
  private readonly max: number

  constructor (hole: Frame, min = 0, max = Infinity) {
    super(hole)
    this.min = min
    this.max = max
  }

  measure (): number {
    return this.min <= this.max ? this.min + 2 : Infinity
  }

  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, OPEN, ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const ret = frame.ret as Frame
    spend(60)
    const place = (frame.state as number) % COUNT
    const count = Math.floor((frame.state as number) / COUNT)
    if (place === OPEN) return byte === QUOTE ? [frameOf(this, BODY, ret)] : []
    if (place === BODY) {
      if (byte === QUOTE) return count >= this.min ? [ret] : []
      if (count >= this.max) return []
    }
    const next = NEXT[place * 256 + byte] as number
    if (next === 255) return []
    const done = next === BODY ? this.counted(count + 1) : count
    return [frameOf(this, next + COUNT * done, ret)]
  }

  rest (state: State): number {
    const place = (state as number) % COUNT
    if (place === OPEN) return this.least
    const count = Math.floor((state as number) / COUNT) + (place === BODY ? 0 : 1)
    return (REST[place] ?? 0) + Math.max(0, this.min - count) + 1
  }

  /** Far from both bounds the number of characters makes no difference to the next token. */
  override alike (state: State, longest: number): State {
    const place = (state as number) % COUNT
    const count = Math.floor((state as number) / COUNT)
    const same = this.min - count > longest
      ? this.min - longest - 1
      : count >= this.min && this.max - count > longest ? this.min : count
    return place + COUNT * same
  }

  private counted (count: number): number {
    return this.max === Infinity ? Math.min(count, this.min) : count
  }
}
