/** A global pattern without nested repetition, and its replacement, whose arguments are the groups. */
export type Rule = readonly [RegExp, string | ((all: string, ...groups: never[]) => string)]
