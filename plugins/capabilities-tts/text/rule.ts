/** A global pattern (no nested repetition, so linear time) and its replacement, which gets the groups. */
export type Rule = readonly [RegExp, string | ((all: string, ...groups: never[]) => string)]
