/** The measured model: SmolLM-135M's shape with random weights, written once and cached. */
import { mkdirSync } from 'node:fs'
import { cache } from '../lib/paths.mjs'
import { benchGguf } from './gguf.mjs'

/** Threads of every peer. */
export const THREADS = 1

/** Path of the Q8_0 model. */
export function benchModel () {
  mkdirSync(cache, { recursive: true })
  return benchGguf(cache)
}

/** Random token ids; prompts of different seeds share no prefix. */
export function promptOf (length, seed = 1) {
  let state = (seed * 2654435761) >>> 0
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return 300 + (state >>> 8) % 40_000
  })
}
