/** Answers with vectors. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Vectors in the order of their texts, as little-endian 32-bit floats, and the tokens of all texts. */
export interface Vectors { vectors: readonly Uint8Array[], tokens: number }

/** Decimal digits that tell every 32-bit float from its neighbours. */
const DIGITS = 9
/** What is written before others have their turn. A request may have millions of numbers. */
const TURN_BYTES = 64 * 1024

/** The numbers of a vector, no longer than they need be to be read back exactly as 32-bit floats. */
export function numbersOf (vector: Uint8Array): number[] {
  const view = new DataView(vector.buffer, vector.byteOffset, vector.byteLength)
  return Array.from({ length: vector.byteLength / 4 }, (_, i) =>
    Number(view.getFloat32(4 * i, true).toPrecision(DIGITS)))
}

const base64 = (vector: Uint8Array): string => Buffer.from(vector).toString('base64')

/** Every vector as `write` has it. */
async function written<T> (vectors: readonly Uint8Array[], write: (vector: Uint8Array) => T): Promise<T[]> {
  const all: T[] = []
  let bytes = 0
  for (const vector of vectors) {
    all.push(write(vector))
    bytes += vector.length
    if (bytes < TURN_BYTES) continue
    bytes = 0
    await nextTurn()
  }
  return all
}

/** POST /v1/embeddings. */
export async function embeddingList (
  { vectors, tokens }: Vectors, model: string, format: unknown
): Promise<object> {
  const embeddings = await written<unknown>(vectors, format === 'base64' ? base64 : numbersOf)
  return {
    object: 'list',
    data: embeddings.map((embedding, index) => ({ object: 'embedding', index, embedding })),
    model,
    usage: { prompt_tokens: tokens, total_tokens: tokens }
  }
}

/** POST /ollama/api/embed. */
export async function ollamaEmbedded (
  { vectors, tokens }: Vectors, model: string, elapsedMs: number
): Promise<object> {
  return {
    model, embeddings: await written(vectors, numbersOf), total_duration: Math.round(elapsedMs * 1e6),
    load_duration: 0, prompt_eval_count: tokens
  }
}
