/** The cosine of the angle between two vectors; 0 for a zero vector. */
export function likeness (a: readonly number[], b: readonly number[]): number {
  let [product, ofA, ofB] = [0, 0, 0]
  for (const [i, x] of a.entries()) {
    const y = b[i] ?? 0
    product += x * y
    ofA += x * x
    ofB += y * y
  }
  return ofA === 0 || ofB === 0 ? 0 : product / Math.sqrt(ofA * ofB)
}
