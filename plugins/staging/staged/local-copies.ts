import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { BundledModel } from '../../../kernel/index.js'
import type { StagingContext } from '../manifest.js'
import { hashFile } from '../files/hash.js'
import { manifestDigest } from '../files/record.js'
import type { ModelRoot } from '../files/root.js'
import type { LocatedModel } from '../service.js'
import { CHUNK_BYTES } from '../types.js'
import type { Copy, CopyRecord, ModelContent, ModelManifest } from '../types.js'

export interface LocalCopy extends LocatedModel, ModelContent {}

/** The folders of this node that copies are brought to. */
export interface Roots {
  /** Where runners load from. */
  staged: ModelRoot
  /** Newer versions of models while the ones in `staged` are in use. */
  beside: ModelRoot
  /** What came from the hub while no store could be reached. */
  cache: ModelRoot
}

type BroughtTo = keyof Roots

/** What this node has: models that ship, that are staged, that it fetched itself. In memory, after `open`. */
export class LocalCopies {
  readonly #ctx: Pick<StagingContext, 'deps' | 'log'>
  readonly #roots: Roots
  readonly #changed: () => void
  readonly #byKind = {
    bundled: new Map<string, LocalCopy>(), staged: new Map<string, LocalCopy>(),
    beside: new Map<string, LocalCopy>(), cache: new Map<string, LocalCopy>()
  }

  constructor (ctx: Pick<StagingContext, 'deps' | 'log'>, roots: Roots, changed: () => void) {
    this.#ctx = ctx
    this.#roots = roots
    this.#changed = changed
  }

  /** Looks at the disk; what cannot be read is logged and left out. */
  async open (): Promise<void> {
    const { deps: { bundle }, log } = this.#ctx
    const { staged, beside, cache } = this.#roots
    const whole = async (what: string, work: () => Promise<void>): Promise<void> => {
      await work().catch((err: unknown) => { log.error({ err }, `${what} cannot be read`) })
    }
    const shipped = bundle.models()
    await Promise.all([
      whole('the folder of staged copies', async () => { await this.#list('staged', staged) }),
      whole('the folder of other versions', async () => { await this.#list('beside', beside) }),
      whole('the folder of copies from the hub', async () => { await this.#list('cache', cache) }),
      ...shipped.map(async (model) => {
        const { modelId } = model.card
        await whole(`${modelId}, which ships,`, async () => {
          this.#byKind.bundled.set(modelId, await bundled(model))
        })
      })
    ])
    this.#changed()
  }

  /** The copy to load from, of that content if one is named: what ships is used in place. */
  get (modelId: string, digest?: string): LocalCopy | undefined {
    return this.versions(modelId).find((copy) => digest === undefined || copy.digest === digest)
  }

  /** Every complete copy of a model, the one to load from first; of all models where none is named. */
  versions (modelId?: string): LocalCopy[] {
    const { bundled, staged, beside, cache } = this.#byKind
    return [bundled, beside, staged, cache].flatMap((kind) =>
      modelId === undefined ? [...kind.values()] : kind.get(modelId) ?? [])
  }

  of (kind: 'bundled' | BroughtTo, modelId: string): LocalCopy | undefined {
    return this.#byKind[kind].get(modelId)
  }

  /** One for each model. */
  all (): LocalCopy[] {
    const { bundled, staged, beside, cache } = this.#byKind
    return [...new Map([...cache, ...staged, ...beside, ...bundled]).values()]
  }

  /** The models that ship, which a store host offers to the others. */
  bundled (): LocalCopy[] { return [...this.#byKind.bundled.values()] }

  added (kind: BroughtTo, copy: Copy): void {
    if (copy.record === null) return
    this.#byKind[kind].set(copy.modelId, localCopy(kind, copy.directory, copy.record))
    this.#changed()
  }

  /** Forgets the copies of a model whose folders are no longer there. */
  async forgetGone (modelId: string): Promise<void> {
    for (const kind of ['staged', 'beside', 'cache'] as const) {
      const copy = this.#byKind[kind].get(modelId)
      if (copy === undefined) continue
      const error = await stat(copy.directory).then(() => null, (err: NodeJS.ErrnoException) => err)
      if (error?.code === 'ENOENT') this.removed(kind, modelId)
    }
  }

  removed (kind: BroughtTo, modelId: string): void {
    if (this.#byKind[kind].delete(modelId)) this.#changed()
  }

  async #list (kind: BroughtTo, root: ModelRoot): Promise<void> {
    for (const { modelId, directory, record } of await root.list()) {
      if (record !== null) this.#byKind[kind].set(modelId, localCopy(kind, directory, record))
    }
  }
}

function localCopy (
  where: 'bundled' | BroughtTo, directory: string, { card, manifest }: CopyRecord
): LocalCopy {
  const kind = where === 'beside' ? 'staged' : where
  return { kind, directory, card, manifest, digest: manifestDigest(manifest) }
}

/** A model of a package, with its files hashed. Throws when one is not as its card says. */
async function bundled ({ card, directory }: BundledModel): Promise<LocalCopy> {
  const files: ModelManifest['files'] = []
  for (const { path, bytes, sha256 } of card.files) {
    const found = await hashFile(join(directory, path))
    if (found.size !== bytes || (sha256 !== undefined && found.sha256 !== sha256)) {
      throw new Error(`${card.modelId}: ${path} is not the file its card names`)
    }
    files.push({ path, ...found })
  }
  const { modelId, revision, totalBytes } = card
  const manifest = { modelId, revision, totalBytes, chunkBytes: CHUNK_BYTES, files }
  return localCopy('bundled', directory, { manifest, card, source: 'package', publishedAt: '' })
}
