/** Error reasons, conflict codes and event kinds that once meant something: never used again. */
export const retiredWords: ReadonlySet<string> = new Set<string>([])
