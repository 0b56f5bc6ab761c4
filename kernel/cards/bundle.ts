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
    // Warnings would be written to stderr, with what the text has in it.
    value = parse(text, { maxAliasCount: 0, logLevel: 'error' })
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

interface Shipped {
  readonly of: readonly Manifest[]
  readonly engines: Map<string, RegisteredEngine>
  readonly folders: Map<string, string>
  readonly cards: Map<string, BundledModel>
}

function shippedBy (manifests: readonly Manifest[]): Shipped {
  const shipped: Shipped = { of: manifests, engines: new Map(), folders: new Map(), cards: new Map() }
  for (const m of manifests) {
    for (const [name, decl] of Object.entries(m.engines ?? {})) {
      shipped.engines.set(name, { name, owner: m.name, decl })
    }
    for (const [id, { folder }] of Object.entries(m.models ?? {})) {
      shipped.folders.set(id, fileURLToPath(folder))
    }
  }
  return shipped
}

/**
 * The engines and bundled models of the plugins that are on, of which there is another list after every
 * change; cards are read on first use.
 */
export function createBundle (
  manifests: () => readonly Manifest[], off: () => readonly Manifest[] = () => []
): Bundle {
  let last = shippedBy(manifests())
  const now = (): Shipped => {
    if (last.of !== manifests()) last = shippedBy(manifests())
    return last
  }
  const model = (id: string): BundledModel | undefined => {
    const { folders, cards } = now()
    const directory = folders.get(id)
    if (directory === undefined) return undefined
    const known = cards.get(id) ?? { card: readCard(directory), directory }
    cards.set(id, known)
    return known
  }
  return {
    engine: (name) => now().engines.get(name),
    engines: () => [...now().engines.values()],
    cardReaders: () => [...manifests(), ...off()].flatMap(({ engines = {} }) =>
      Object.values(engines).flatMap(({ cards }) => cards ?? [])),
    model,
    models: () => [...now().folders.keys()].flatMap((id) => {
      // Who asks for that one is told why.
      try { return model(id)! } catch { return [] }
    })
  }
}
