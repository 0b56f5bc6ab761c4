import type { Cluster, ModelCard, NodeView, SvcError } from '../../kernel/index.js'
import { checkCard } from '../../kernel/cards.js'
import { checkManifest, manifestDigest } from './files/index.js'
import { askNode, messageOf } from './net/ask.js'
import { modelUrl, NODE_CALLER } from './net/lan-source.js'
import type { Shelf, ShelfItem } from './shelf.js'
import type { StoreAccess } from './store-access.js'
import type { ClusterCopy } from './catalogue.js'
import type { ModelManifest } from './types.js'

/** Where a model can be had. */
export type Found =
  | { from: 'shelf', item: ShelfItem }
  | { from: 'lan', manifest: ModelManifest, digest: string, card: ModelCard }
  /** No store can be asked; `commit` is what the store had, when it said so. */
  | { from: 'hub', commit: string | null, why: SvcError }

export interface FinderParts {
  cluster: Cluster
  access: StoreAccess
  /** The store of this node, if it is a store host. */
  shelf: Shelf | null
  copies (modelId: string): ClusterCopy[]
  /** Whether this cluster fetches from a public hub. */
  hub: boolean
  error (
    reason: 'model_not_found' | 'store_unreachable', message: string, details?: Record<string, unknown>
  ): SvcError
}

/** Longest wait for a manifest, ms. */
export const MANIFEST_MS = 15_000

/**
 * Finds out what a model consists of. The store decides: a manifest of another node counts only when its
 * digest is the one the store has named. Throws `model_not_found`, `store_not_configured`,
 * `store_unreachable`.
 */
export async function find (parts: FinderParts, modelId: string, signal: AbortSignal): Promise<Found> {
  const { shelf, access, copies, hub, error } = parts
  const item = shelf?.get(modelId)
  if (item !== undefined) return { from: 'shelf', item }
  const entries = access.entries(modelId)
  if (entries.length === 0) {
    // Either throws, or says that the store is there and has no such model.
    const { name, live } = firstHost(parts)
    if (live) throw error('model_not_found', `The store on ${name} has no model ${modelId}.`)
  }
  const failures: string[] = []
  for (const { node, fact } of entries) {
    const holders = [node, ...peers(parts, copies(modelId), fact.digest, node)].filter(({ live }) => live)
    for (const holder of holders) {
      const from = holder === node ? 'store' : 'self'
      const query = `from=${from}&digest=${fact.digest}`
      const found = await ask(parts, holder, modelId, query, signal).catch((cause: unknown) => {
        failures.push(`${holder.name}: ${(cause as Error).message}`)
        return undefined
      })
      if (found === undefined || (from === 'self' && found.digest !== fact.digest)) continue
      return { from: 'lan', ...found }
    }
    failures.push(...node.live ? [] : [`${node.name} is lost`])
  }
  const why = error('store_unreachable', `No store that has ${modelId} can be reached` +
    `${failures.length === 0 ? '' : ` (${failures.join('; ')})`}.`)
  if (!hub) throw why
  return { from: 'hub', commit: commitOf(entries[0]?.fact.source), why }
}

/** The store host to ask, live or not. Throws `store_not_configured`. */
function firstHost ({ access }: FinderParts): NodeView {
  return access.hosts()[0] ?? access.host()
}

/** Other nodes that say they have a complete copy of that content. */
function peers (
  { cluster }: FinderParts, copies: readonly ClusterCopy[], digest: string, host: NodeView
): NodeView[] {
  return copies.filter((copy) => copy.kind !== 'store' && copy.digest === digest && copy.live)
    .flatMap((copy) => cluster.resolve(copy.nodeId) ?? [])
    .filter((node) => !node.self && node.nodeId !== host.nodeId)
}

async function ask (
  { cluster }: FinderParts, node: NodeView, modelId: string, query: string, signal: AbortSignal
): Promise<{ manifest: ModelManifest, digest: string, card: ModelCard }> {
  const answer = await askNode(cluster, node.installId, {
    method: 'GET', path: `${modelUrl(modelId)}/manifest?${query}`, caller: NODE_CALLER, signal,
    timeoutMs: MANIFEST_MS
  })
  if (answer.status !== 200) throw new Error(messageOf(answer))
  return readManifest(answer.body, modelId)
}

/** Reads what a node says a model consists of. Throws when it is not as it must be. */
export function readManifest (
  body: unknown, modelId: string
): { manifest: ModelManifest, digest: string, card: ModelCard } {
  const { card: said, digest: _digest, ...rest } = body as { card?: unknown, digest?: unknown }
  const manifest = checkManifest(rest)
  const card = checkCard(said, modelId)
  if (manifest.modelId !== modelId || card.modelId !== modelId) throw new Error('it sent another model')
  return { manifest, digest: manifestDigest(manifest), card }
}

/** The commit in the source of a store's entry (`hub:URL@COMMIT`). */
function commitOf (source: string | undefined): string | null {
  return /^hub:.*@([0-9a-f]{40})$/.exec(source ?? '')?.[1] ?? null
}
