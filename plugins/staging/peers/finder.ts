import type { Cluster, NodeView, SvcError } from '../../../kernel/index.js'
import { checkCard } from '../../../kernel/cards/index.js'
import { checkManifest, manifestDigest } from '../files/record.js'
import { askNode, messageOf } from './ask.js'
import { modelUrl, NODE_CALLER } from './sources.js'
import type { OfferedModels } from '../store/offered.js'
import type { StoreEntry } from '../store/types.js'
import type { StoreAccess } from './store-access.js'
import type { ClusterCopy, StoreEntryFact } from '../manager/catalogue.js'
import type { ModelContent } from '../types.js'

/** Where a model can be had. */
export type Found =
  | { from: 'offered', item: StoreEntry }
  | { from: 'lan' } & ModelContent
  /** No store can be asked, and the content it had came from this node's hub. */
  | { from: 'hub', commit: string, fact: StoreEntryFact, why: SvcError }

export interface FinderParts {
  cluster: Cluster
  access: StoreAccess
  /** The store of this node, if it is a store host. */
  offered: OfferedModels | null
  copies (modelId: string): ClusterCopy[]
  /** Address of the hub this node may ask; null where it asks none. */
  hub: string | null
  error (
    reason: 'model_not_found' | 'store_unreachable', message: string, details?: Record<string, unknown>
  ): SvcError
}

/** Longest wait for a manifest, ms. */
const MANIFEST_MS = 15_000

/**
 * Finds out what a model consists of. The store decides: a manifest of another node counts only when its
 * digest is the one the store has named, or the `wanted` one, which counts more. Throws `model_not_found`,
 * `store_not_configured`, `store_unreachable`.
 */
export async function find (
  parts: FinderParts, modelId: string, wanted: string | undefined, signal: AbortSignal
): Promise<Found> {
  const { offered, access, hub, error } = parts
  const right = (digest: string | undefined): boolean => wanted === undefined || digest === wanted
  const item = offered?.get(modelId)
  if (item !== undefined && right(item.digest)) return { from: 'offered', item }
  const host = access.known()
  const stored = access.entry(modelId, host)
  const fact = stored !== undefined && right(stored.digest) ? stored : undefined
  if (fact === undefined) {
    const old = wanted === undefined ? undefined : await older(parts, modelId, wanted, signal)
    const found = old ?? await unlisted(parts, host ?? access.host(), modelId, signal, right)
    if (found !== undefined) return { from: 'lan', ...found }
    const { name } = access.host()
    const other = item !== undefined || stored !== undefined
    throw error('model_not_found',
      other ? replaced(modelId, name) : `The store on ${name} has no model ${modelId}.`)
  }
  const failures: string[] = []
  const asked = { host: host!, fact, exactly: wanted !== undefined }
  const found = await fromHolder(parts, modelId, asked, failures, signal)
  if (found !== undefined) return { from: 'lan', ...found }
  const why = error('store_unreachable',
    `No store that has ${modelId} can be reached (${failures.join('; ')}).`)
  const commit = hub === null ? null : commitOf(fact.source, hub)
  if (commit === null) throw why
  return { from: 'hub', commit, fact, why }
}

/** What the store, else a node with the same content, says the model consists of; notes the failures. */
async function fromHolder (
  parts: FinderParts, modelId: string,
  { host, fact, exactly }: { host: NodeView, fact: StoreEntryFact, exactly: boolean },
  failures: string[], signal: AbortSignal
): Promise<ModelContent | undefined> {
  if (!host.live) failures.push(`${host.name} is lost`)
  const holders = [host, ...peers(parts, parts.copies(modelId), fact.digest, host)].filter(({ live }) => live)
  for (const holder of holders) {
    const from = holder === host ? 'store' : 'self'
    const query = `from=${from}&digest=${fact.digest}`
    const { installId } = holder
    const found = await askManifest(parts.cluster, installId, modelId, query, signal)
      .catch((cause: unknown) => {
        failures.push(`${holder.name}: ${(cause as Error).message}`)
        return undefined
      })
    // A store may have been updated since it told, which is right where nothing in particular is wanted.
    const other = found?.digest !== fact.digest && (from === 'self' || exactly)
    if (found !== undefined && !other) return found
    if (found !== undefined) failures.push(`${holder.name} has other content`)
  }
  return undefined
}

/** What the store has and this node has not heard of yet, as right after a pull. */
async function unlisted (
  parts: FinderParts, host: NodeView, modelId: string, signal: AbortSignal,
  right: (digest: string) => boolean
): Promise<ModelContent | undefined> {
  if (!host.live || host.self) return undefined
  const found = await askManifest(parts.cluster, host.installId, modelId, 'from=store', signal)
    .catch(() => undefined)
  return found !== undefined && right(found.digest) ? found : undefined
}

/** A version that the store has no more, of a node that has it. */
async function older (
  parts: FinderParts, modelId: string, digest: string, signal: AbortSignal
): Promise<ModelContent | undefined> {
  // A node tells of one version of a model only, and may have this one, too.
  for (const node of peers(parts, parts.copies(modelId), null, null)) {
    const query = `from=self&digest=${digest}`
    const found = await askManifest(parts.cluster, node.installId, modelId, query, signal)
      .catch(() => undefined)
    if (found?.digest === digest) return found
  }
  return undefined
}

const replaced = (modelId: string, store: string): string =>
  `The store on ${store} has another version of ${modelId} now, and no node has the one this was placed ` +
  'with. Stop the instance and place the model again.'

/** Other nodes that say they have a complete copy, of that content unless it is null. */
function peers (
  { cluster }: FinderParts, copies: readonly ClusterCopy[], digest: string | null, host: NodeView | null
): NodeView[] {
  return copies.filter((copy) => copy.live && copy.kind !== 'store' && copy.kind !== 'receiving' &&
    (digest === null || copy.digest === digest))
    .flatMap((copy) => cluster.resolve(copy.nodeId) ?? [])
    .filter((node) => !node.self && node.nodeId !== host?.nodeId)
}

/** What a node says a model consists of. Throws when it does not say, or not as it must. */
export async function askManifest (
  cluster: Cluster, installId: string, modelId: string, query: string, signal: AbortSignal
): Promise<ModelContent> {
  const answer = await askNode(cluster, installId, {
    method: 'GET', path: `${modelUrl(modelId)}/manifest?${query}`, caller: NODE_CALLER, signal,
    timeoutMs: MANIFEST_MS
  })
  if (answer.status !== 200) throw new Error(messageOf(answer))
  return readManifest(answer.body, modelId)
}

/** Reads such an answer. Throws when it is not as it must be. */
export function readManifest (body: unknown, modelId: string): ModelContent {
  const { card: said, digest: _digest, ...rest } = body as { card?: unknown, digest?: unknown }
  const manifest = checkManifest(rest)
  const card = checkCard(said, modelId)
  if (manifest.modelId !== modelId || card.modelId !== modelId) throw new Error('it sent another model')
  return { manifest, digest: manifestDigest(manifest), card }
}

/**
 * The commit in the source of a store's entry (`hub:URL@COMMIT`); null where it came from anywhere else. Such
 * a name may be private, and somebody else may own it at a hub: it is never sent there.
 */
function commitOf (source: string, hub: string): string | null {
  const commit = source.startsWith(`hub:${hub}@`) ? source.slice(`hub:${hub}@`.length) : ''
  return /^[0-9a-f]{40}$/.test(commit) ? commit : null
}
