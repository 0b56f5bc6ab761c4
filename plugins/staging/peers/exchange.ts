import type { Channel, Clock, Cluster, ModelCard } from '../../../kernel/index.js'
import { MANIFEST_MS, readManifest } from './finder.js'
import type { LocalCopy } from '../staged/local-copies.js'
import { askNode, messageOf } from './ask.js'
import { lanSource, modelUrl, NODE_CALLER } from './sources.js'
import type { ByteRange, ChunkSource } from '../transfer/types.js'
import type { StoreAccess } from './store-access.js'
import type { FromNode } from '../store/types.js'
import { ChunkBits, Swarm } from '../transfer/swarm.js'
import { chunksOf } from '../transfer/chunks.js'
import { createHoldings } from '../transfer/holdings.js'
import { fetchModel } from '../transfer/fetch.js'
import type { ChunkTable } from '../transfer/chunks.js'
import type { Holdings, HoldingsMessage } from '../transfer/holdings.js'
import type { ModelManifest } from '../types.js'

/** A model that is here in part, or in a folder that is no copy of ours. */
export interface Given {
  folder: string
  manifest: ModelManifest
  digest: string
  card: ModelCard
  /** A folder of the operator's, which counts more than a copy of ours. */
  lent: boolean
  /** Whether a range of a file has been verified. */
  has (path: string, range: ByteRange): boolean
}

/** A transfer's place among the nodes that fetch the same model. */
export interface Joined {
  readonly state: Swarm
  sources (): ChunkSource[]
  onSources (fn: () => void): () => void
  got (chunk: number): void
  take (chunk: number): void
  leave (): void
}

export interface ExchangeParts { cluster: Cluster, clock: Clock, access: StoreAccess, random: () => number }

interface Arriving {
  modelId: string
  manifest: ModelManifest
  digest: string
  folder: string
  card: ModelCard
}

/** The giving and taking of chunks between nodes. */
export class Exchange {
  readonly #parts: ExchangeParts
  readonly #channel: Channel<HoldingsMessage>
  readonly #holdings: Holdings
  readonly #stops: (() => void)[] = []
  /** By digest: complete copies that were offered. */
  readonly #offers = new Map<string, () => void>()
  /** By model id: what is being received, or lent. */
  readonly #given = new Map<string, Given>()

  constructor (parts: ExchangeParts) {
    this.#parts = parts
    const { cluster, clock } = parts
    this.#channel = cluster.channel('staging.chunks', (from, message) => {
      this.#holdings.receive(from, message)
    })
    this.#holdings = createHoldings({ channel: this.#channel, clock })
    this.#stops.push(cluster.onPeers(({ installId, up }) => {
      if (up) this.#holdings.peerUp(installId)
      else this.#holdings.peerDown(installId)
    }))
  }

  /** Offers exactly these complete copies. */
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

  /** What this node can give of a model that is no complete copy here. */
  given (modelId: string): Given | undefined { return this.#given.get(modelId) }

  /** Lends a folder to the store host, until the returned function is called. */
  lend (modelId: string, given: Omit<Given, 'has' | 'lent'>): () => void {
    const lent = { ...given, lent: true, has: () => true }
    this.#given.set(modelId, lent)
    return () => { if (this.#given.get(modelId) === lent) this.#given.delete(modelId) }
  }

  /** Takes part with a transfer: learns who has what, and gives what has come. */
  join ({ modelId, manifest, digest, folder, card }: Arriving): Joined {
    const table = chunksOf(manifest)
    const bits = new ChunkBits(table.count)
    const state = new Swarm(table.count)
    const given: Given = {
      folder, manifest, digest, card, lent: false, has: (path, range) => covers(table, bits, path, range)
    }
    this.#given.set(modelId, given)
    const held = (): Uint8Array => bits.bytes
    const sha256Of = hashesOf(manifest)
    const stops = [this.#holdings.offer(digest, held), this.#holdings.follow(digest, state)]
    return {
      state,
      sources: () => this.#sources(modelId, digest, sha256Of, state),
      onSources: (fn) => {
        const each = [state.onChange(fn), this.#parts.cluster.onPeers(fn)]
        return () => { for (const stop of each) stop() }
      },
      got: (chunk) => {
        bits.add(chunk)
        this.#holdings.announce(digest, chunk)
      },
      take: (chunk) => { this.#holdings.claim(digest, chunk) },
      leave: () => {
        for (const stop of stops) stop()
        if (this.#given.get(modelId) === given) this.#given.delete(modelId)
      }
    }
  }

  /** The store if it has this content, and every other node that has some of it. */
  #sources (
    modelId: string, digest: string, sha256Of: (path: string) => string, swarm: Swarm
  ): ChunkSource[] {
    const { cluster, access } = this.#parts
    const host = access.known()
    const has = host?.live === true && !host.self && access.entry(modelId, host)?.digest === digest
    const stores = has ? [host.installId] : []
    const peers = swarm.peers().filter((installId) => !stores.includes(installId))
    const common = { cluster, modelId, digest, sha256Of }
    return [
      ...stores.map((installId) => lanSource({ ...common, installId, kind: 'store', has: () => true })),
      ...peers.map((installId) => lanSource({
        ...common, installId, kind: 'peer', has: (chunk) => swarm.holds(installId, chunk)
      }))
    ]
  }

  /** Fetches the copy of another node into the store's incoming folder. */
  readonly fromNode: FromNode = async (modelId, installId, folder, signal, progress, admit) => {
    const { cluster, clock, random } = this.#parts
    const answer = await askNode(cluster, installId, {
      method: 'GET', path: `${modelUrl(modelId)}/manifest?from=self`, caller: NODE_CALLER, signal,
      timeoutMs: MANIFEST_MS
    })
    if (answer.status !== 200) throw new Error(messageOf(answer))
    const { manifest, digest } = readManifest(answer.body, modelId)
    const source = lanSource({
      cluster, modelId, installId, kind: 'peer', digest, has: () => true, sha256Of: hashesOf(manifest)
    })
    return await admit(manifest.totalBytes, async () => {
      await fetchModel({
        manifest, folder, clock, random, signal, sources: () => [source], onProgress: progress
      })
      return manifest
    })
  }

  close (): void {
    for (const stop of [...this.#stops, ...this.#offers.values()]) stop()
    this.#channel.close()
  }
}

/** The SHA-256 of a file by its path. */
function hashesOf ({ files }: ModelManifest): (path: string) => string {
  const hashes = new Map(files.map(({ path, sha256 }) => [path, sha256]))
  return (path) => hashes.get(path) ?? ''
}

/** Whether every chunk that a range of a file touches is there. */
function covers (table: ChunkTable, bits: ChunkBits, path: string, { start, end }: ByteRange): boolean {
  const { first, count } = table.of(path)
  for (let chunk = first; chunk < first + count; chunk++) {
    const at = table.at(chunk)
    if (at.start < end && at.end > start && !bits.has(chunk)) return false
  }
  return true
}
