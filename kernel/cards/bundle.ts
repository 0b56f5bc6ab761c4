import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { cardSchema } from './schema.js'
import { compileStrict, issuesOf } from '../api/validate.js'
import type { BundledModel } from '../api/engine.js'
import type { Manifest } from '../api/plugin.js'
import type { ModelCard } from '../api/engine.js'
import type { Bundle, RegisteredEngine } from '../api/services.js'

/** Checks a card; `where` names it in the message. Throws an Error that names the field. */
export function checkCard (value: unknown, where: string): ModelCard {
  const fits = compileStrict(cardSchema)
  if (fits(value)) return value as ModelCard
  const [issue] = issuesOf(fits.errors)
  throw new Error(`model card ${where}: ${issue?.path ?? ''} ${issue?.message ?? 'is not valid'}`)
}

/** Reads a card in YAML. Throws an Error that names the place or the field. */
export function parseCard (text: string, where: string): ModelCard {
  let value: unknown
  try {
    value = parse(text, { maxAliasCount: 0 })
  } catch (error) {
    throw new Error(`model card ${where}: ${(error as Error).message}`, { cause: error })
  }
  return checkCard(value, where)
}

/** Reads the card of a folder. Throws with the file and the field when it is not as the schema says. */
export function readCard (folder: string): ModelCard {
  const path = join(folder, 'card.yaml')
  return parseCard(readFileSync(path, 'utf8'), path)
}

/** The engines and bundled models of a set of plugins; cards are read on first use. */
export function createBundle (manifests: readonly Manifest[]): Bundle {
  const engines = new Map<string, RegisteredEngine>()
  const folders = new Map<string, string>()
  const cards = new Map<string, BundledModel>()
  for (const m of manifests) {
    for (const [name, decl] of Object.entries(m.engines ?? {})) {
      engines.set(name, { name, owner: m.name, decl })
    }
    for (const [id, { folder }] of Object.entries(m.models ?? {})) folders.set(id, fileURLToPath(folder))
  }
  const model = (id: string): BundledModel | undefined => {
    const directory = folders.get(id)
    if (directory === undefined) return undefined
    const known = cards.get(id) ?? { card: readCard(directory), directory }
    cards.set(id, known)
    return known
  }
  return {
    engine: (name) => engines.get(name),
    engines: () => [...engines.values()],
    model,
    models: () => [...folders.keys()].flatMap((id) => {
      // Who asks for that one is told why.
      try { return model(id)! } catch { return [] }
    })
  }
}
