/** The direct companions of a model: drafters, sidecars, split vision weights. */
export type CompanionsOf = (modelId: string) => readonly string[]

/** The used models with everything they bring along, companions of companions too. Pure; cycles end. */
export function inUseClosure (used: Iterable<string>, companionsOf: CompanionsOf): Set<string> {
  const found = new Set(used)
  // A set's iterator also visits what is added while it runs.
  for (const modelId of found) for (const companion of companionsOf(modelId)) found.add(companion)
  return found
}
