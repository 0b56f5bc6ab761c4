import { kernelError } from '../../../kernel/index.js'
import type { StagingContext } from '../manifest.js'
import { askManifest } from './finder.js'
import { lanSource, type LanSourceParts } from './sources.js'
import type { ByteRange, ChunkSource } from '../transfer/types.js'
import type { StoreAccess } from './store-access.js'
import type { StoreOptions } from '../store/types.js'
import { bitmapOf, Swarm } from '../transfer/swarm.js'
import { chunksOf, type ChunkTable } from '../transfer/chunks.js'
import { ChunkAnnouncements } from '../transfer/holdings.js'
import type { LocalCopy, ModelContent } from '../types.js'

/** A model of which this node sends chunks without having a complete copy. */
export interface PartialCopy extends ModelContent {
  directory: string
  /** True for a folder that the store host imports from this node; such a folder is preferred over copies. */
  exported: boolean
  has (path: string, range: ByteRange): boolean
}

type Arriving = ModelContent & { modelId: string, directory: string }

export class Exchange {
  readonly #ctx: Pick<StagingContext, 'clock' | 'deps'>
  readonly #access: StoreAccess
  readonly #holdings: ChunkAnnouncements
  readonly #offers = new Map<string, () => void>()
  readonly #partial = new Map<string, PartialCopy>()

  constructor (ctx: Pick<StagingContext, 'clock' | 'deps'>, access: StoreAccess) {
    this.#ctx = ctx
    this.#access = access
    this.#holdings = new ChunkAnnouncements(ctx)
  }

  offer (copies: readonly LocalCopy[]): void {
    const wanted = new Set(copies.map(({ digest }) => digest))
    for (const [digest, stop] of this.#offers) {
      if (wanted.has(digest)) continue
      stop()
      this.#offers.delete(digest)
    }
    for (const digest of wanted) {
      if (!this.#offers.has(digest)) this.#offers.set(digest, this.#holdings.offer(digest, 'all'))
    }
  }

  partial (modelId: string): PartialCopy | undefined { return this.#partial.get(modelId) }

  exportFolder ({ modelId, ...copy }: Arriving): () => void {
    return this.#send(modelId, { ...copy, exported: true, has: () => true })
  }

  #send (modelId: string, copy: PartialCopy): () => void {
    this.#partial.set(modelId, copy)
    return () => { if (this.#partial.get(modelId) === copy) this.#partial.delete(modelId) }
  }

  /** Joins a transfer, to learn which node has which chunk and to send received chunks. */
  join ({ modelId, ...content }: Arriving) {
    const { manifest, digest } = content
    const table = chunksOf(manifest)
    const held = new Set<number>()
    const swarm = new Swarm(table.count)
    const has = (path: string, range: ByteRange): boolean => covers(table, held, path, range)
    const stops = [
      this.#send(modelId, { ...content, exported: false, has }),
      this.#holdings.offer(digest, () => bitmapOf(held, table.count)), this.#holdings.follow(digest, swarm)
    ]
    return {
      swarm,
      sources: () => this.#sources({ modelId, digest, manifest }, swarm),
      onSources: (fn: () => void) => {
        const each = [swarm.onChange(fn), this.#ctx.deps.cluster.onPeers(fn)]
        return () => { for (const stop of each) stop() }
      },
      onChunk: (chunk: number) => {
        held.add(chunk)
        this.#holdings.announce(digest, chunk)
      },
      onTake: (chunk: number) => { this.#holdings.claim(digest, chunk) },
      leave: () => { for (const stop of stops) stop() }
    }
  }

  #sources (content: Pick<LanSourceParts, 'modelId' | 'digest' | 'manifest'>, swarm: Swarm): ChunkSource[] {
    const { cluster } = this.#ctx.deps
    const host = this.#access.known()
    const { modelId, digest } = content
    const has = host?.live === true && !host.self && this.#access.entry(modelId, host)?.digest === digest
    const stores = has ? [host.installId] : []
    const peers = swarm.peers().filter((installId) => !stores.includes(installId))
    const common = { cluster, ...content }
    return [
      ...stores.map((installId) => lanSource({ ...common, installId, kind: 'store', has: () => true })),
      ...peers.map((installId) => lanSource({
        ...common, installId, kind: 'peer', has: (chunk) => swarm.holds(installId, chunk)
      }))
    ]
  }

  readonly fromNode: StoreOptions['fromNode'] = async (modelId, installId, signal) => {
    const { clock, deps: { cluster } } = this.#ctx
    const node = cluster.resolve(installId)
    if (node === undefined) throw kernelError('unreachable', `There is no node ${installId}.`)
    const { manifest, digest } = await askManifest({ cluster, clock }, node, modelId, 'from=self', signal)
    const source = lanSource({
      cluster, modelId, installId, kind: 'peer', digest, manifest, has: () => true
    })
    return { manifest, digest, source }
  }

  close (): void {
    for (const stop of this.#offers.values()) stop()
    this.#holdings.close()
  }
}

function covers (
  table: ChunkTable, held: ReadonlySet<number>, path: string, { start, end }: ByteRange
): boolean {
  const { first, count } = table.of(path)
  for (let chunk = first; chunk < first + count; chunk++) {
    const at = table.at(chunk)
    if (at.start < end && at.end > start && !held.has(chunk)) return false
  }
  return true
}
