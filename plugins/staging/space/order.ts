/** What the order of eviction looks at. */
export interface Used { modelId: string, lastUsedMs: number }

/** Newest use first; equal times by model id, so that a plan comes out the same every time. */
export function newestFirst (a: Used, b: Used): number {
  return b.lastUsedMs - a.lastUsedMs || (a.modelId < b.modelId ? -1 : 1)
}
