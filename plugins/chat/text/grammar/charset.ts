/** Sets of code points as sorted, disjoint, closed ranges. */
export type CharSet = readonly (readonly [number, number])[]

const LAST = 0x10ffff

/** The set of these ranges, which may overlap. */
export function charSet (ranges: readonly (readonly [number, number])[]): CharSet {
  const out: [number, number][] = []
  for (const [low, high] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const last = out.at(-1)
    if (last !== undefined && low <= last[1] + 1) last[1] = Math.max(last[1], high)
    else out.push([low, high])
  }
  return out
}

/** All code points that are not in the set. */
export function complement (set: CharSet): CharSet {
  const out: [number, number][] = []
  let from = 0
  for (const [low, high] of set) {
    if (low > from) out.push([from, low - 1])
    from = high + 1
  }
  if (from <= LAST) out.push([from, LAST])
  return out
}

/** The code points in both sets. */
export function intersect (a: CharSet, b: CharSet): CharSet {
  return complement(charSet([...complement(a), ...complement(b)]))
}

const ofText = (text: string): CharSet => charSet([...text].map((c) =>
  [c.codePointAt(0) ?? 0, c.codePointAt(0) ?? 0]))

/** Sets with names: every character, digits, and what `\w` is in a pattern. */
export const ANY: CharSet = [[0, LAST]]
export const DIGIT: CharSet = [[0x30, 0x39]]
export const WORD: CharSet = charSet([[0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]])
/** White space and line ends of ECMA-262. */
export const SPACE: CharSet = charSet([[0x2000, 0x200a],
  ...ofText('\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff')])
/** What a dot stands for. */
export const NOT_LINE_END: CharSet = complement(ofText('\n\r\u2028\u2029'))

/** Every character: halves of surrogate pairs are none. */
export const SCALARS: CharSet = complement([[0xd800, 0xdfff]])
