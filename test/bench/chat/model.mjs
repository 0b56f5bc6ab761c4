/** The model that is measured: SmolLM-135M's shape with random weights, written once and kept. */
import { mkdirSync } from 'node:fs'
import { cache } from '../lib/paths.mjs'
import { benchGguf } from './gguf.mjs'

/** Threads of every peer. */
export const THREADS = 1

/** Path of the model in 8 bits. */
export function benchModel () {
  mkdirSync(cache, { recursive: true })
  return benchGguf(cache)
}

/** Token ids that mean nothing; another `seed` shares no beginning with this one. */
export function promptOf (length, seed = 1) {
  let state = (seed * 2654435761) >>> 0
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return 300 + (state >>> 8) % 40_000
  })
}
