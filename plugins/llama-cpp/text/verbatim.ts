/** Prevents text in messages from being tokenized as special tokens. */

/** A noncharacter at which the rendered conversation is cut into pieces that are tokenized separately. */
export const CUT = '\ufdd0'

/** Inserts CUT after the first character of special tokens. */
export class TokenSplitter {
  private readonly begins: RegExp

  constructor (words: readonly string[]) {
    const alternatives = words.map((word) => word.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&'))
    this.begins = new RegExp(`(?=${alternatives.join('|') || '(?!)'})[^]`, 'gu')
  }

  /** Copies a value, with CUT inserted in all texts and keys. */
  cut<T> (value: T): T {
    if (typeof value === 'string') return this.cutText(value) as T
    if (Array.isArray(value)) return value.map((each: unknown) => this.cut(each)) as T
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, each]) =>
      [this.cutText(key), this.cut(each as unknown)])) as T
  }

  private cutText (text: string): string { return text.replace(this.begins, `$&${CUT}`) }
}
