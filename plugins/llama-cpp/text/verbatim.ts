/** Prevents text in messages from being tokenized as special tokens. */

/** A noncharacter at which the rendered conversation is cut into pieces that are tokenized separately. */
export const CUT = '\ufdd0'

interface Step { next: Map<string, Step>, ends: boolean }

/** Inserts CUT after the first character of special tokens. */
export class TokenSplitter {
  private readonly first: Step = { next: new Map(), ends: false }

  constructor (words: Iterable<string>) {
    for (const word of words) {
      let at = this.first
      for (const char of word) {
        const next = at.next.get(char) ?? { next: new Map(), ends: false }
        at.next.set(char, next)
        at = next
      }
      at.ends = true
    }
  }

  /** Copies a value, with CUT inserted in all texts and keys. */
  cut<T> (value: T): T {
    if (typeof value === 'string') return this.cutText(value) as T
    if (Array.isArray(value)) return value.map((each: unknown) => this.cut(each)) as T
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, each]) =>
      [this.cutText(key), this.cut(each as unknown)])) as T
  }

  private cutText (text: string): string {
    let out = ''
    let from = 0
    for (let at = 0; at < text.length; at++) {
      if (!this.begins(text, at)) continue
      const end = at + String.fromCodePoint(text.codePointAt(at)!).length
      out += text.slice(from, end) + CUT
      from = end
    }
    return out + text.slice(from)
  }

  private begins (text: string, from: number): boolean {
    let step: Step | undefined = this.first
    for (let at = from; step !== undefined && !step.ends; at++) {
      const char = String.fromCodePoint(text.codePointAt(at) ?? 0)
      step = at < text.length ? step.next.get(char) : undefined
      at += char.length - 1
    }
    return step !== undefined
  }
}
