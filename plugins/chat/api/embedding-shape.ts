/** Answers with vectors. Pure. */

/** Vectors in the order of their texts, as little-endian 32-bit floats, and the tokens of all texts. */
export interface Vectors { vectors: readonly Uint8Array[], tokens: number }

/** Decimal digits that tell every 32-bit float from its neighbours. */
const DIGITS = 9

/** The numbers of a vector, no longer than they need be to be read back exactly as 32-bit floats. */
export function numbersOf (vector: Uint8Array): number[] {
  const view = new DataView(vector.buffer, vector.byteOffset, vector.byteLength)
  return Array.from({ length: vector.byteLength / 4 }, (_, i) =>
    Number(view.getFloat32(4 * i, true).toPrecision(DIGITS)))
}

const base64 = (vector: Uint8Array): string => Buffer.from(vector).toString('base64')

/** POST /v1/embeddings. */
export function embeddingList ({ vectors, tokens }: Vectors, model: string, format: unknown): object {
  const written = format === 'base64' ? base64 : numbersOf
  return {
    object: 'list',
    data: vectors.map((vector, index) => ({ object: 'embedding', index, embedding: written(vector) })),
    model,
    usage: { prompt_tokens: tokens, total_tokens: tokens }
  }
}

/** POST /ollama/api/embed. */
export const ollamaEmbedded = ({ vectors, tokens }: Vectors, model: string, elapsedMs: number): object => ({
  model, embeddings: vectors.map(numbersOf), total_duration: Math.round(elapsedMs * 1e6), load_duration: 0,
  prompt_eval_count: tokens
})
