/**
 * Grammar of question patterns: `{a|b}` is a choice, `[x]` is optional, both nest; `<M>` matches any word.
 */
export type Pattern = readonly Part[]

/** Literal text, or a choice among alternative patterns. */
export type Part = string | { readonly oneOf: readonly Pattern[] }

/** Parses a question pattern. Throws for an unbalanced bracket. */
export function parsePattern (text: string): Pattern {
  const at = { text, index: 0 }
  const [pattern] = readChoices(at, '')
  return pattern!
}

/** Reads alternatives up to the bracket `end`; at the top level `end` is empty and `|` is literal. */
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
 * The probability that a sentence generated from the pattern contains each word, if all choices are equally
 * likely. `words` splits text into the words to count.
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

/** Mean of several tables of word probabilities; a missing word has probability 0. */
export function meanChances (tables: readonly ReadonlyMap<string, number>[]): Map<string, number> {
  const mean = new Map<string, number>()
  for (const table of tables) {
    for (const [word, chance] of table) mean.set(word, (mean.get(word) ?? 0) + chance / tables.length)
  }
  return mean
}
