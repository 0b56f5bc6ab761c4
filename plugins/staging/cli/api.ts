import { modelInPath, type VerbContext } from '../../../kernel/cli/index.js'
import { groupBy } from '../cards/gguf-parts.js'
import type { ClusterCopy } from '../types.js'

type ExitCode = Parameters<VerbContext['fail']>[0]

export const storePath = (modelId: string): string => `/store/models/${modelInPath(modelId)}`

/** GET /models/copies; older nodes do not send `silent_store`. */
export interface CopiesAnswer { copies: ClusterCopy[], silent_store?: string | null }

export const copiesByModel = (copies: readonly ClusterCopy[]): Map<string, ClusterCopy[]> =>
  groupBy(copies, ({ modelId }) => modelId)

const byReason: Readonly<Record<string, ExitCode>> = { no_safe_fit: 6, disk_full: 6, not_found: 3 }

export function exitFor (reason: string | null | undefined): ExitCode { return byReason[reason ?? ''] ?? 1 }

/** Seconds for which a command that waits for a transfer retries if its node becomes unreachable. */
const RETURN_SECONDS = 60

/** Fetches a path while a command waits for a transfer; retries if the node is unreachable or not ready. */
export async function retryUntil<T> (ctx: VerbContext, path: string): Promise<T> {
  return await ctx.retry({
    seconds: RETURN_SECONDS,
    again: ctx.notYet,
    onWait: (error) => { ctx.err.update(`${error.message.split('\n')[0]!}; retrying`) }
  }, () => ctx.client.json<T>(path))
}

const KINDS = ['store', 'staged', 'bundled', 'cache', 'receiving'] as const

/** Locations of copies as text: `store@node1, staged@node2,node3`; `-` if there are none. */
export function locationsText (copies: readonly Pick<ClusterCopy, 'nodeName' | 'kind' | 'live'>[]): string {
  const name = (copy: (typeof copies)[number]): string => `${copy.nodeName}${copy.live ? '' : ' (lost)'}`
  const parts = KINDS.flatMap((kind) => {
    const nodes = copies.filter((copy) => copy.kind === kind).map(name)
    const sorted = [...new Set(nodes)].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    return sorted.length === 0 ? [] : [`${kind}@${sorted.join(',')}`]
  })
  return parts.join(', ') || '-'
}

/** Model size in bytes, preferably from a complete copy; undefined without copies. */
export function sizeOfCopies (copies: readonly ClusterCopy[]): number | undefined {
  const whole = copies.filter((copy) => copy.kind !== 'receiving')
  const sizes = (whole.length > 0 ? whole : copies).map((copy) => copy.sizeBytes)
  return sizes.length === 0 ? undefined : Math.max(...sizes)
}
