/** A matcher and a random generator for GBNF with llama.cpp's semantics. */

type Symbol = { set: readonly [number, number][] } | { rule: number }
export interface Gbnf { rules: Symbol[][][], root: number }

/** Parses the GBNF subset that svc's compiler emits. Repetitions become rules, as in llama.cpp. */
export function parseGbnf (text: string): Gbnf {
  const ids = new Map<string, number>()
  const rules: Symbol[][][] = []
  const idOf = (name: string): number => {
    const id = ids.get(name) ?? rules.push([]) - 1
    ids.set(name, id)
    return id
  }
  const defined = new Set<number>()
  for (const line of text.split('\n')) {
    if (line === '') continue
    const [, name, body] = /^([0-9a-zA-Z-]+) ::= (.*)$/.exec(line) ?? []
    if (name === undefined || body === undefined) throw new Error(`no rule: ${line}`)
    const parser = new Body(body, rules, idOf)
    rules[idOf(name)] = parser.alternatives()
    if (parser.at !== body.length) throw new Error(`"${body.slice(parser.at)}" in ${line}`)
    defined.add(idOf(name))
  }
  for (const [name, id] of ids) if (!defined.has(id)) throw new Error(`rule ${name} is not defined`)
  return { rules, root: idOf('root') }
}

class Body {
  at = 0
  private readonly text: string
  private readonly rules: Symbol[][][]
  private readonly idOf: (name: string) => number

  constructor (text: string, rules: Symbol[][][], idOf: (name: string) => number) {
    this.text = text
    this.rules = rules
    this.idOf = idOf
  }

  alternatives (): Symbol[][] {
    const out = [this.sequence()]
    while (this.take(/\| */y) !== undefined) out.push(this.sequence())
    return out
  }

  private sequence (): Symbol[] {
    const out: Symbol[] = []
    for (;;) {
      const start = out.length
      const [name] = this.take(/[0-9a-zA-Z-]+/y) ?? []
      if (name !== undefined) out.push({ rule: this.idOf(name) })
      else if (this.take(/"/y) !== undefined) {
        while (this.take(/"/y) === undefined) { const c = this.char(); out.push({ set: [[c, c]] }) }
      } else if (this.take(/\[/y) !== undefined) {
        const set: [number, number][] = []
        while (this.take(/\]/y) === undefined) {
          const low = this.char()
          set.push([low, this.take(/-/y) === undefined ? low : this.char()])
        }
        out.push({ set })
      } else if (this.take(/\( */y) !== undefined) {
        out.push({ rule: this.rules.push(this.alternatives()) - 1 })
        if (this.take(/\)/y) === undefined) throw new Error('no ")"')
      } else return out
      const sign = this.take(/([*+?])|\{(\d+)(,?)(\d*)\}/y)
      if (sign !== undefined) this.repeat(out, out.splice(start), sign)
      this.take(/ +/y)
    }
  }

  private repeat (out: Symbol[], part: Symbol[], [, mark, least = '', comma, most = '']: string[]): void {
    const min = mark === undefined ? Number(least) : mark === '+' ? 1 : 0
    const max = mark === undefined ? (comma === '' ? min : most === '' ? Infinity : Number(most))
      : mark === '?' ? 1 : Infinity
    if (Math.max(min, max < Infinity ? max : 0) >=
      2000) throw new Error('llama.cpp refuses 2,000 repetitions')
    for (let i = 0; i < min; i++) out.push(...part)
    if (max === Infinity) {
      const id = this.rules.push([]) - 1
      this.rules[id] = [[...part, { rule: id }], []]
      out.push({ rule: id })
      return
    }
    let last: Symbol | undefined
    for (let i = min; i < max; i++) {
      last = { rule: this.rules.push([[...part, ...last === undefined ? [] : [last]], []]) - 1 }
    }
    if (last !== undefined) out.push(last)
  }

  private char (): number {
    const hex = this.take(/\\(?:x([0-9A-F]{2})|u([0-9A-F]{4})|U([0-9A-F]{8}))/y)
    if (hex !== undefined) return parseInt(hex[1] ?? hex[2] ?? hex[3]!, 16)
    const escape = this.take(/\\([trn"\\[\]])/y)
    if (escape !== undefined) return ['\t', '\r', '\n']['trn'.indexOf(escape[1]!)]?.charCodeAt(0) ??
      escape[1]!.charCodeAt(0)
    const plain = this.take(/[^\\]/yu)
    if (plain === undefined) throw new Error(`an unknown escape: ${this.text.slice(this.at)}`)
    return plain[0]!.codePointAt(0)!
  }

  private take (expression: RegExp): string[] | undefined {
    expression.lastIndex = this.at
    const match = expression.exec(this.text)
    if (match === null) return undefined
    this.at += match[0].length
    return match
  }
}

/** A parse stack as in llama.cpp: the symbols that remain to be matched, innermost rule first. */
interface Stack { symbols: readonly Symbol[], at: number, below: Stack | null, key: string }

/** Whether the grammar accepts a string; `most.stacks` receives the peak number of parse stacks. */
export function admits (gbnf: Gbnf, text: string, most = { stacks: 0 }): boolean {
  const ids = new Map<unknown, number>()
  const idOf = (value: unknown): number => {
    const id = ids.get(value) ?? ids.size
    ids.set(value, id)
    return id
  }
  const push = (symbols: readonly Symbol[], at: number, below: Stack | null): Stack | null =>
    at === symbols.length ? below
      : { symbols, at, below, key: `${idOf(symbols)}:${at} ${idOf(below?.key)}` }
  const open = (stacks: (Stack | null)[]): (Stack | null)[] => {
    const out = new Map<string, Stack | null>()
    const seen = new Set<string>()
    for (const stack of stacks) {
      if (seen.has(stack?.key ?? '')) continue
      seen.add(stack?.key ?? '')
      const symbol = stack?.symbols[stack.at]
      if (stack === null || symbol === undefined || 'set' in symbol) out.set(stack?.key ?? '', stack)
      else for (const one of gbnf.rules[symbol.rule] ??
        []) stacks.push(push(one, 0, push(stack.symbols, stack.at + 1, stack.below)))
    }
    return [...out.values()]
  }
  let stacks = open(gbnf.rules[gbnf.root]!.map((one) => push(one, 0, null)))
  for (const c of text) {
    const code = c.codePointAt(0)!
    stacks = open(stacks.flatMap((stack) => {
      const symbol = stack?.symbols[stack.at]
      if (stack === null || symbol === undefined || !('set' in symbol)) return []
      const fits = symbol.set.some(([low, high]) => low <= code && code <= high)
      return fits ? [push(stack.symbols, stack.at + 1, stack.below)] : []
    }))
    most.stacks = Math.max(most.stacks, stacks.length)
    if (stacks.length === 0) return false
  }
  return stacks.includes(null)
}

/** Random numbers from 0 to 1, reproducible by seed (mulberry32). */
export function chance (seed: number): () => number {
  let state = seed
  return () => {
    state = state + 0x6d2b79f5 | 0
    let t = Math.imul(state ^ state >>> 15, 1 | state)
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t
    return ((t ^ t >>> 14) >>> 0) / 2 ** 32
  }
}

/** Generates random strings that a grammar accepts; after `size` characters it ends the string quickly. */
export function generator (gbnf: Gbnf, random: () => number, size = 60): () => string {
  const { rules } = gbnf
  const shortest = rules.map(() => Infinity)
  const lengthOf = (symbols: Symbol[]): number =>
    symbols.reduce((sum, symbol) => sum + ('set' in symbol ? 1 : shortest[symbol.rule]!), 0)
  for (let changed = true; changed;) {
    changed = false
    for (let i = rules.length - 1; i >= 0; i--) {
      const length = Math.min(...rules[i]!.map(lengthOf))
      if (length < shortest[i]!) { shortest[i] = length; changed = true }
    }
  }
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  return () => {
    let text = ''
    const todo: Symbol[] = [{ rule: gbnf.root }]
    for (let symbol = todo.pop(); symbol !== undefined; symbol = todo.pop()) {
      if ('set' in symbol) {
        const [low, high] = pick(symbol.set)
        // Prefer the first and last character of a range, where bugs are likely.
        const code = random() < 0.3 ? low : random() < 0.3 ? high
          : low + Math.floor(random() * (Math.min(high, low + 200) - low + 1))
        text += String.fromCodePoint(code)
        continue
      }
      const all = rules[symbol.rule]!.filter((one) => lengthOf(one) < Infinity)
      const least = Math.min(...all.map(lengthOf))
      const one = text.length > size ? pick(all.filter((each) => lengthOf(each) === least)) : pick(all)
      todo.push(...one.toReversed())
    }
    return text
  }
}
