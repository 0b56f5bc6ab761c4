import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Bundle, BundledModel } from '../../runners/service.js'
import type { StagingContext } from '../manifest.js'
import { errnoOf } from '../files/names.js'
import { hashFile } from '../files/hash.js'
import { localCopy } from '../files/record.js'
import type { ModelRoot } from '../files/root.js'
import { CHUNK_BYTES, type LocalCopy, type ModelManifest, type Role } from '../types.js'

export type Roots = Record<Exclude<Role, 'store'>, ModelRoot>

/** Index of this node's complete copies, in memory after `open`. */
export class LocalCopies {
  readonly bundled = new Map<string, LocalCopy>()
  readonly #ctx: Pick<StagingContext, 'clock' | 'log'>
  readonly #roots: Roots
  readonly #bundle: Pick<Bundle, 'models'>

  constructor (ctx: Pick<StagingContext, 'clock' | 'log'>, roots: Roots, bundle: Pick<Bundle, 'models'>) {
    this.#ctx = ctx
    this.#roots = roots
    this.#bundle = bundle
  }

  async open (): Promise<void> {
    const { clock, log } = this.#ctx
    const since = new Date(clock.now()).toISOString()
    const whole = async (what: string, work: () => Promise<void>): Promise<void> => {
      await work().catch((err: unknown) => { log.error({ err }, `${what} cannot be read`) })
    }
    await Promise.all([
      ...Object.values(this.#roots).map(async (root) => {
        await whole(`the model folder ${root.root}`, async () => { await root.load() })
      }),
      ...this.#bundle.models().map(async (model) => {
        const { modelId } = model.card
        await whole(`${modelId}, which ships,`, async () => {
          this.bundled.set(modelId, await shipped(model, since))
        })
      })
    ])
  }

  /** The copy to load, with this digest if given; bundled models are used in place. */
  get (modelId: string, digest?: string): LocalCopy | undefined {
    return this.versions(modelId).find((copy) => digest === undefined || copy.digest === digest)
  }

  /** Every complete copy of a model, the preferred one first; without an id, the copies of all models. */
  versions (modelId?: string): LocalCopy[] {
    const { staged, beside, cache } = this.#roots
    return [this.bundled, beside.copies, staged.copies, cache.copies].flatMap((copies) =>
      modelId === undefined ? [...copies.values()] : copies.get(modelId) ?? [])
  }

  all (): LocalCopy[] {
    return [...new Map(this.versions().reverse().map((copy) => [copy.modelId, copy])).values()]
  }

  async forgetGone (modelId: string): Promise<void> {
    for (const root of Object.values(this.#roots)) {
      const directory = root.copies.get(modelId)?.directory
      const gone = directory !== undefined &&
        await stat(directory).then(() => false, (error: unknown) => errnoOf(error) === 'ENOENT')
      if (gone) root.forget(modelId)
    }
  }
}

/** The copy of a bundled model. Throws if a file does not match the card. */
async function shipped ({ card, directory }: BundledModel, publishedAt: string): Promise<LocalCopy> {
  const files: ModelManifest['files'] = []
  for (const { path, bytes, sha256 } of card.files) {
    const found = await hashFile(join(directory, path))
    if (found.size !== bytes || (sha256 !== undefined && found.sha256 !== sha256)) {
      throw new Error(`${card.modelId}: ${path} does not match the card`)
    }
    files.push({ path, ...found })
  }
  const { modelId, revision, totalBytes } = card
  const manifest = { modelId, revision, totalBytes, chunkBytes: CHUNK_BYTES, files }
  return localCopy('bundled', directory, { manifest, card, source: 'package', publishedAt })
}
