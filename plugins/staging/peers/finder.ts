import { askMember, type AskMemberParts, type NodeView, type SvcError } from '../../../kernel/index.js'
import { checkCard } from '../../runners/cards/card.js'
import type { StagingContext } from '../manifest.js'
import { checkCardPaths } from '../files/names.js'
import { checkManifest, manifestDigest } from '../files/record.js'
import type { Catalogue } from '../manager/catalogue.js'
import type { Store } from '../store/store.js'
import type { LocalCopy, ModelContent, StoreEntryFact } from '../types.js'
import { peerErrorText } from './each-node.js'
import { modelUrl, NODE_CALLER } from './sources.js'
import type { StoreAccess } from './store-access.js'

export type Found =
  | { from: 'offered', item: LocalCopy }
  | { from: 'lan' } & ModelContent
  /** The store is unreachable; its copy came from this node's hub at `commit`, so the hub may be used. */
  | { from: 'hub', commit: string, fact: StoreEntryFact, why: SvcError }

export interface FinderParts {
  ctx: Pick<StagingContext, 'clock' | 'deps' | 'error'>
  access: StoreAccess
  catalogue: Pick<Catalogue, 'copies'>
  store: Pick<Store, 'offer'> | null
  hub: { url: string } | null
}

/** Timeout in ms and size limit in bytes for a manifest, which may list 16,384 files and their chunks. */
const MANIFEST_MS = 15_000
const MANIFEST_BYTES = 64 * 1024 * 1024

/**
 * Finds the manifest of a model. With `wanted`, it must have that digest; otherwise it is the store's, or one
 * from another node with the digest in the store's entry. Throws `model_not_found`, `store_not_configured`,
 * `store_unreachable`.
 */
export async function find (
  parts: FinderParts, modelId: string, wanted: string | undefined, signal: AbortSignal
): Promise<Found> {
  const { store, access, hub, ctx: { error } } = parts
  const right = (digest: string): boolean => wanted === undefined || digest === wanted
  const item = store?.offer(modelId)
  if (item !== undefined && right(item.digest)) return { from: 'offered', item }
  const host = access.known()
  const fact = access.entry(modelId, host)
  const failures: string[] = []
  const ask = async (questions: Question[]): Promise<ModelContent | undefined> =>
    await firstRight(parts, modelId, questions, failures, signal)
  if (fact === undefined || !right(fact.digest)) {
    // A node may have the wanted version although it has published another one, and the store may not have
    // published the content of a recent pull yet.
    const older = wanted === undefined ? [] : copiesOf(parts, modelId, wanted)
    const newest = host === undefined || host.self ? [] : [{ node: host, query: 'from=store', right }]
    const found = await ask([...older, ...newest])
    if (found !== undefined) return { from: 'lan', ...found }
    const { name } = access.host()
    throw error('model_not_found', item === undefined && fact === undefined
      ? `The store on ${name} has no model ${modelId}.` : replaced(modelId, name))
  }
  const { digest, source } = fact
  const first = {
    node: host!, query: `from=store&digest=${digest}`,
    // Without `wanted`, any version is fine: the store may have a newer one than it has published.
    right: (other: string) => other === digest || wanted === undefined
  }
  const holders = copiesOf(parts, modelId, digest, digest).filter(({ node }) => node.nodeId !== host!.nodeId)
  const found = await ask([first, ...holders])
  if (found !== undefined) return { from: 'lan', ...found }
  const why = error('store_unreachable', `No reachable store has ${modelId} (${failures.join('; ')}).`)
  const commit = hub === null ? null : commitOf(source, hub.url)
  if (commit === null) throw why
  return { from: 'hub', commit, fact, why }
}

/** A request for a manifest; `right` decides whether the answer has an acceptable digest. */
interface Question { node: NodeView, query: string, right: (digest: string) => boolean }

async function firstRight (
  { ctx: { clock, deps: { cluster } } }: FinderParts, modelId: string, questions: readonly Question[],
  failures: string[], signal: AbortSignal
): Promise<ModelContent | undefined> {
  for (const { node, query, right } of questions) {
    try {
      if (!node.live) { failures.push(`${node.name} is lost`); continue }
      const found = await askManifest({ cluster, clock }, node, modelId, query, signal)
      if (right(found.digest)) return found
      failures.push(`${node.name} has other content`)
    } catch (error) {
      failures.push(`${node.name}: ${(error as Error).message}`)
    }
  }
  return undefined
}

/** Requests to other nodes with a complete copy; with `say`, only to nodes that published that digest. */
function copiesOf (
  { ctx: { deps: { cluster } }, catalogue }: FinderParts, modelId: string, digest: string, say?: string
): Question[] {
  return catalogue.copies(modelId)
    .filter(({ live, kind }) => live && kind !== 'store' && kind !== 'receiving')
    .filter((copy) => say === undefined || copy.digest === say)
    .flatMap(({ nodeId }) => cluster.resolve(nodeId) ?? [])
    .filter(({ self }) => !self)
    .map((node) => ({ node, query: `from=self&digest=${digest}`, right: (other) => other === digest }))
}

const replaced = (modelId: string, store: string): string =>
  `The store on ${store} now has another version of ${modelId}, and no node has the version that the ` +
  'instance needs. Stop the instance and place the model again.'

export async function askManifest (
  parts: AskMemberParts, node: NodeView, modelId: string, query: string, signal: AbortSignal
): Promise<ModelContent> {
  const text = await askMember(parts, node, {
    path: `${modelUrl(modelId)}/manifest?${query}`, caller: NODE_CALLER, signal, refusals: true,
    ms: MANIFEST_MS, bytes: MANIFEST_BYTES
  }).catch((error: unknown) => { throw peerErrorText(error as Error) })
  return readManifest(JSON.parse(text), modelId)
}

export function readManifest (body: unknown, modelId: string): ModelContent {
  const { card: said, digest: _digest, ...rest } = body as { card?: unknown, digest?: unknown }
  const manifest = checkManifest(rest)
  const card = checkCardPaths(checkCard(said, modelId), modelId)
  if (manifest.modelId !== modelId || card.modelId !== modelId) throw new Error('it sent another model')
  return { manifest, digest: manifestDigest(manifest), card }
}

/**
 * The commit in the source of a store's entry (`hub:URL@COMMIT`); null for any other source. The name of such
 * a model may be private or belong to somebody else on the hub, so it must not be sent there.
 */
function commitOf (source: string, hub: string): string | null {
  const commit = source.startsWith(`hub:${hub}@`) ? source.slice(`hub:${hub}@`.length) : ''
  return /^[0-9a-f]{40}$/.test(commit) ? commit : null
}
