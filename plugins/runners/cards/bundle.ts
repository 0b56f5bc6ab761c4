import { fileURLToPath } from 'node:url'
import type { BundledModelDecl, Declarations, EngineDecl, ModelCard } from '../../../kernel/index.js'
import { readCard } from './card.js'

export interface RegisteredEngine { name: string, owner: string, decl: EngineDecl }

/** A bundled model: its card and the absolute folder it is loaded from. */
export interface BundledModel { card: ModelCard, directory: string }

export type Bundle = ReturnType<typeof createBundle>

/** Bundled models of the plugins that are enabled at the time of each call. */
export function createBundle (declarations: Pick<Declarations, 'manifests' | 'off'>) {
  const known = new WeakMap<BundledModelDecl, BundledModel>()
  const engines = (): RegisteredEngine[] => declarations.manifests.flatMap(({ name: owner, engines = {} }) =>
    Object.entries(engines).map(([name, decl]) => ({ name, owner, decl })))
  const shipped = (): [string, BundledModelDecl][] =>
    declarations.manifests.flatMap(({ models = {} }) => Object.entries(models))
  const read = (decl: BundledModelDecl): BundledModel => {
    const directory = fileURLToPath(decl.folder)
    const model = known.get(decl) ?? { card: readCard(directory), directory }
    known.set(decl, model)
    return model
  }
  return {
    engines,
    engine: (wanted: string): RegisteredEngine | undefined => engines().find(({ name }) => name === wanted),
    /** The `cards` modules of all engines, including those of disabled plugins. */
    cardReaders: () => [...declarations.manifests, ...declarations.off].flatMap(({ engines = {} }) =>
      Object.values(engines).flatMap(({ cards }) => cards ?? [])),
    /** Reads and checks the card on first use. Throws if the card is broken. */
    model (modelId: string): BundledModel | undefined {
      const found = shipped().find(([id]) => id === modelId)
      return found && read(found[1])
    },
    models: (): BundledModel[] => shipped().flatMap(([, decl]) => {
      // Skip a broken card here; `model` throws the reason.
      try { return read(decl) } catch { return [] }
    })
  }
}
