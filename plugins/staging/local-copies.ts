import { join } from 'node:path'
import type { Bundle, BundledModel, Logger } from '../../kernel/index.js'
import { hashFile, manifestDigest } from './files/index.js'
import type { ModelRoot } from './files/index.js'
import type { LocatedModel } from './service.js'
import { CHUNK_BYTES } from './types.js'
import type { Copy, CopyRecord, ModelManifest } from './types.js'

/** A complete copy on this node. */
export interface LocalCopy extends LocatedModel {
  manifest: ModelManifest
  digest: string
}

export interface LocalCopiesParts {
  bundle: Bundle
  /** Null when its folder cannot be used. */
  staging: ModelRoot | null
  cache: ModelRoot | null
  log: Logger
  onChange: () => void
}

/** What this node has: models that ship, that are staged, that it fetched itself. In memory, after `open`. */
export class LocalCopies {
  readonly #parts: LocalCopiesParts
  readonly #byKind = {
    bundled: new Map<string, LocalCopy>(), staged: new Map<string, LocalCopy>(),
    cache: new Map<string, LocalCopy>()
  }

  constructor (parts: LocalCopiesParts) { this.#parts = parts }

  /** Looks at the disk; what cannot be read is logged and left out. */
  async open (): Promise<void> {
    const { bundle, staging, cache, log } = this.#parts
    const whole = async (what: string, work: () => Promise<void>): Promise<void> => {
      await work().catch((err: unknown) => { log.error({ err }, `${what} cannot be read`) })
    }
    let shipped: BundledModel[] = []
    await whole('the card of a model that ships', async () => { shipped = bundle.models() })
    await Promise.all([
      whole('the folder of staged copies', async () => { await this.#list('staged', staging) }),
      whole('the folder of copies from the hub', async () => { await this.#list('cache', cache) }),
      ...shipped.map(async (model) => {
        const { modelId } = model.card
        await whole(`${modelId}, which ships,`, async () => {
          this.#byKind.bundled.set(modelId, await bundled(model))
        })
      })
    ])
    this.#parts.onChange()
  }

  /** The copy to load from: what ships is used in place. */
  get (modelId: string): LocalCopy | undefined {
    return this.versions(modelId)[0]
  }

  /** Every complete copy, the one to load from first. */
  versions (modelId: string): LocalCopy[] {
    const { bundled, staged, cache } = this.#byKind
    return [bundled, staged, cache].flatMap((kind) => kind.get(modelId) ?? [])
  }

  of (kind: LocalCopy['kind'], modelId: string): LocalCopy | undefined {
    return this.#byKind[kind].get(modelId)
  }

  /** One for each model. */
  all (): LocalCopy[] {
    const { bundled, staged, cache } = this.#byKind
    return [...new Map([...cache, ...staged, ...bundled]).values()]
  }

  /** The models that ship, which a store host offers to the others. */
  bundled (): LocalCopy[] { return [...this.#byKind.bundled.values()] }

  added (kind: 'staged' | 'cache', copy: Copy): void {
    if (copy.record === null) return
    this.#byKind[kind].set(copy.modelId, localCopy(kind, copy.directory, copy.record))
    this.#parts.onChange()
  }

  removed (kind: 'staged' | 'cache', modelId: string): void {
    if (this.#byKind[kind].delete(modelId)) this.#parts.onChange()
  }

  async #list (kind: 'staged' | 'cache', root: ModelRoot | null): Promise<void> {
    for (const { modelId, directory, record } of await root?.list() ?? []) {
      if (record !== null) this.#byKind[kind].set(modelId, localCopy(kind, directory, record))
    }
  }
}

function localCopy (kind: LocalCopy['kind'], directory: string, { card, manifest }: CopyRecord): LocalCopy {
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
