/** Cuts an answer that is still being written into clauses to speak. Pure. */

/** Characters of a clause: least, least at a comma, and most. A short first clause lets sound start early. */
const LENGTHS = { first: [2, 12, 60], later: [12, 60, 240] } as const
const END = /[.!?:;…]["')\]]*(?=\s)|[。！？；]|\n+/gu
const COMMA = /,(?=\s)|[，、]|\s[–—-](?=\s)/gu
/** Full stops that end no sentence: after a title, an initial or the number of a list. */
const ABBREVIATED = /(?:^|\s)(?:Mr|Mrs|Ms|Dr|Prof|St|vs|\p{Lu}|\d{1,2})\.$/u

export class ClauseCutter {
  #text = ''
  #isFirst = true

  /** Adds text, and returns the clauses that are now complete. Joined, all clauses are the text. */
  push (text: string): string[] {
    this.#text += text
    const clauses: string[] = []
    for (let end = this.#end(); end > 0; end = this.#end()) {
      clauses.push(this.#text.slice(0, end))
      this.#text = this.#text.slice(end)
      this.#isFirst = false
    }
    return clauses
  }

  /** The rest of the text. */
  finish (): string { return this.#text }

  /** Index at which the first clause ends; 0 if it is not complete. */
  #end (): number {
    const text = this.#text
    const [least, comma, most] = this.#isFirst ? LENGTHS.first : LENGTHS.later
    const after = (pattern: RegExp, from: number): number => [...text.matchAll(pattern)]
      .map((match) => match.index + match[0].length)
      .find((end) => text.slice(0, end).trim().length >= from && !ABBREVIATED.test(text.slice(0, end))) ??
      Infinity
    const end = Math.min(after(END, least), after(COMMA, comma))
    if (end <= most) return end
    return text.length > most ? text.lastIndexOf(' ', most) + 1 || most : 0
  }
}

/** A clause and when its sound begins and ends within the answer, in ms. */
export interface SpokenClause { text: string, startMs: number, endMs: number }

/** The text spoken before `ms`; of an interrupted clause, the words in proportion to the time. */
export function heardText (clauses: readonly SpokenClause[], ms: number): string {
  return clauses.map(({ text, startMs, endMs }) => {
    const words = text.trimEnd().split(/(?<=\S)(?=\s)/)
    const share = endMs <= ms ? 1 : Math.max(0, ms - startMs) / (endMs - startMs)
    return share === 1 ? text : words.slice(0, Math.floor(words.length * share)).join('')
  }).join('').trimEnd()
}
