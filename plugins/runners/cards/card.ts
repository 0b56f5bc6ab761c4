import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { compileStrict, issuesOf } from '../../../kernel/api/validate.js'
import type { ModelCard } from '../../../kernel/index.js'
import { cardSchema } from './schema.js'

/** Checks a card, which error messages call `where`. Throws an Error that names the field. */
export function checkCard (value: unknown, where: string): ModelCard {
  const fits = compileStrict(cardSchema)
  if (fits(value)) return value as ModelCard
  const [issue] = issuesOf(fits.errors)
  throw new Error(`model card ${where}: ${issue?.path ?? ''} ${issue?.message ?? 'is not valid'}`)
}

/** Reads a YAML card. Throws an Error that names `where` or the field. */
export function parseCard (text: string, where: string): ModelCard {
  let value: unknown
  try {
    // Warnings would print the content of the card to stderr.
    value = parse(text, { maxAliasCount: 0, logLevel: 'error' })
  } catch (error) {
    throw new Error(`model card ${where}: ${(error as Error).message}`, { cause: error })
  }
  return checkCard(value, where)
}

/** Reads the card.yaml in a folder. Throws an Error that names the file and the field. */
export function readCard (folder: string): ModelCard {
  const path = join(folder, 'card.yaml')
  return parseCard(readFileSync(path, 'utf8'), path)
}
