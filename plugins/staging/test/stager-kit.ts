import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { systemClock } from '../../../kernel/api/clock.js'
import { Exchange } from '../peers/exchange.js'
import { manifestDigest } from '../files/record.js'
import { ModelRoot } from '../files/root.js'
import { LocalCopies } from '../staged/local-copies.js'
import { FreeSpace } from '../space/free-space.js'
import { Stager, type StagerParts } from '../staged/stager.js'
import { StoreAccess } from '../peers/store-access.js'
import { contextOf, known, Network, scratch, type Test } from './manager-kit.js'
import { memoryLog } from './store-kit.js'
import { contentOf, liveClock, manifestOf } from './transfer-kit.js'
import { card } from '../../runners/test/samples.js'
import type { ModelCard } from '../../../kernel/index.js'
import type { Found } from '../peers/finder.js'
import type { LocalCopy, StoreEntryFact } from '../types.js'

export const ID = 'acme/model'
export const CONTENT = contentOf({ 'm.gguf': 100_000, 'a/b.txt': 10, 'empty': 0 })
export const OTHER = contentOf({ 'm.gguf': 50_000 }, 7)

export interface World {
  stager: Stager
  staging: ModelRoot
  beside: ModelRoot
  cache: ModelRoot
  local: LocalCopies
  /** Emitted events, in order. */
  told: string[]
  failures: Record<string, unknown>[]
  log: ReturnType<typeof memoryLog>
}

/** Creates a stager with real folders. */
export async function world (
  t: Test, find: (modelId: string, signal: AbortSignal, digest?: string) => Found | Promise<Found>,
  more: Partial<StagerParts> = {}
): Promise<World> {
  const [staging, beside, cache] = (['staged', 'beside', 'cache'] as const)
    .map((role) => new ModelRoot({ root: scratch(t), clock: systemClock, role }))
  for (const root of [staging, beside, cache]) await root!.prepare()
  const cluster = new Network().node('me')
  const log = memoryLog()
  const told: string[] = []
  const failures: Record<string, unknown>[] = []
  const emit = (kind: string, payload: Record<string, unknown>): void => {
    const { modelId, status, reason, errorMessage: message } = payload
    told.push(`${kind === 'DownloadFailed' ? 'failed' : String(status)} ${String(modelId)}`)
    if (kind === 'DownloadFailed') failures.push({ modelId, reason, message })
  }
  const ctx = contextOf(cluster, { clock: liveClock, log, emit })
  const exchange = new Exchange(ctx, new StoreAccess(ctx, known))
  const roots = { staged: staging!, beside: beside!, cache: cache! }
  const local = new LocalCopies(ctx, roots, { models: () => [] })
  const stager = new Stager({
    ctx, roots, local, evictor: { makeRoom: async () => {} },
    freeSpace: new FreeSpace(0), exchange, hub: null, random: () => 0.01,
    find: async (modelId, digest, signal) => await find(modelId, signal, digest),
    derive: async (_folder, { modelId }) => card(modelId),
    onChange: () => {}, inUse: () => false,
    ...more
  })
  t.teardown(() => { exchange.close() })
  return { stager, staging: staging!, beside: beside!, cache: cache!, local, told, failures, log }
}

/** Creates the copy that a stager gets from the store or, if `bundled`, from a package. */
export function item (t: Test, { content = CONTENT, modelId = ID, bundled = false,
  companions = [] as string[] } = {}): LocalCopy {
  const directory = scratch(t)
  for (const [path, bytes] of content) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), bytes, { mode: 0o444 })
  }
  const manifest = { ...manifestOf(content), modelId }
  const about: ModelCard = card(modelId,
    { companions: companions.map((id) => ({ modelId: id, role: 'draft' })) })
  return {
    modelId, directory, manifest, digest: manifestDigest(manifest), card: about, source: 'file',
    downloadedAt: '', kind: bundled ? 'bundled' : 'store'
  }
}

export const factOf = (
  { digest, manifest: { totalBytes, revision }, card }: LocalCopy
): StoreEntryFact => ({
  digest, revision, totalBytes, source: '', downloadedAt: '', bundled: false, card
})

export const offered = (one: LocalCopy): Found => ({ from: 'offered', item: one })
