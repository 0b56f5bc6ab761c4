/** What String.replace takes: a global pattern without nested repetition, and its replacement. */
// The replacer's arguments follow the groups of its own pattern, which the type system cannot see.
export type Rule = readonly [RegExp, string | ((all: string, ...groups: never[]) => string)]

/** Applies the rules one after the other. */
export function applyRules (text: string, rules: readonly Rule[]): string {
  let out = text
  for (const [pattern, replacement] of rules) {
    out = typeof replacement === 'string'
      ? out.replace(pattern, replacement)
      : out.replace(pattern, replacement as (all: string, ...groups: unknown[]) => string)
  }
  return out
}
