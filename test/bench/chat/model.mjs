/** The benchmark's model: SmolLM-135M's shape with random weights, written once and cached. */
import { mkdirSync } from 'node:fs'
import { cache } from '../lib/paths.mjs'
import { benchGguf } from './gguf.mjs'

/** Compute threads for svc and for every peer. */
export const THREADS = 1

/** Path of the model in Q8_0. */
export function benchModel () {
  mkdirSync(cache, { recursive: true })
  return benchGguf(cache)
}

/** Random token ids; prompts with different seeds share no prefix, so no prompt cache helps. */
export function promptOf (length, seed = 1) {
  let state = (seed * 2654435761) >>> 0
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return 300 + (state >>> 8) % 40_000
  })
}
