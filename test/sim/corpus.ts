import { readFileSync } from 'node:fs'
import type { Plan } from './plan.js'

/** A run that once went wrong: with this code before a defect was mended, or with the code of a mutant. */
export interface Case {
  readonly name: string
  /** Whose code goes wrong in it; null for a defect of the real one. */
  readonly mutant: string | null
  readonly plan: Plan
}

/** The cases of corpus.json. */
export function corpus (): readonly Case[] {
  return JSON.parse(readFileSync(new URL('corpus.json', import.meta.url), 'utf8')) as Case[]
}
