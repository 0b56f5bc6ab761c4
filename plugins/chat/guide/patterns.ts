/**
 * The grammar of the question patterns: `{a|b}` is one of them, `[x]` may be left out, both nest; `<M>`
 * stands for any word.
 */
export type Pattern = readonly Part[]

/** A run of text, or a choice among patterns. */
export type Part = string | { readonly oneOf: readonly Pattern[] }

/** Reads a pattern. Throws on a bracket without its partner. */
export function parsePattern (text: string): Pattern {
  const at = { text, index: 0 }
  const [pattern] = readChoices(at, '')
  return pattern!
}

/** Reads alternatives up to the closing bracket; at the top level there is none, and `|` is a character. */
function readChoices (at: { text: string, index: number }, end: string): Pattern[] {
  const choices: Part[][] = [[]]
  for (; at.index < at.text.length; at.index++) {
    const char = at.text[at.index]!
    if (char === end) return choices
    if (char === '{' || char === '[') {
      at.index++
      const inner = readChoices(at, char === '{' ? '}' : ']')
      const oneOf = char === '{' ? inner : [...inner, []]
      choices.at(-1)!.push({ oneOf })
    } else if (char === '|' && end !== '') choices.push([])
    else if (char === '}' || char === ']') {
      throw new Error(`"${char}" has no partner in the pattern: ${at.text}`)
    } else append(choices.at(-1)!, char)
  }
  if (end !== '') throw new Error(`"${end}" is missing in the pattern: ${at.text}`)
  return choices
}

function append (parts: Part[], char: string): void {
  const last = parts.at(-1)
  if (typeof last === 'string') parts[parts.length - 1] = last + char
  else parts.push(char)
}

/**
 * How likely each word is in a sentence of the pattern, every choice being equally likely: at most 1 each.
 * `words` splits a text into the words that count.
 */
export function wordChances (pattern: Pattern, words: (text: string) => string[]): Map<string, number> {
  const absent = new Map<string, number>()
  for (const part of pattern) {
    const chances = typeof part === 'string'
      ? new Map(words(part).map((word) => [word, 1]))
      : meanChances(part.oneOf.map((choice) => wordChances(choice, words)))
    for (const [word, chance] of chances) absent.set(word, (absent.get(word) ?? 1) * (1 - chance))
  }
  return new Map([...absent].map(([word, chance]) => [word, 1 - chance]))
}

/** The mean of several tables of chances; a word that is missing in one has the chance 0 there. */
export function meanChances (tables: readonly ReadonlyMap<string, number>[]): Map<string, number> {
  const mean = new Map<string, number>()
  for (const table of tables) {
    for (const [word, chance] of table) mean.set(word, (mean.get(word) ?? 0) + chance / tables.length)
  }
  return mean
}
