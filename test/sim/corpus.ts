import { readFileSync } from 'node:fs'
import type { Plan } from './plan.js'

/** A run that once failed, either with the code before a fix or with a mutant. */
export interface Case {
  readonly name: string
  /** The mutant that fails in this run; null for a defect of the real code. */
  readonly mutant: string | null
  readonly plan: Plan
}

/** The cases of corpus.json. */
export function corpus (): readonly Case[] {
  return JSON.parse(readFileSync(new URL('corpus.json', import.meta.url), 'utf8')) as Case[]
}
