import type { Caller } from '../../../kernel/index.js'
import type { Accelerator } from '../service.js'

/** One part of /state, as its caller may see it. */
export type View = (caller: Caller, base?: unknown) => unknown
type ByNode = Record<string, Record<string, unknown>>

/** What the kernel shows under nodeSystem, with this node's first accelerator in it: live readings count. */
export function nodeSystem (nodeId: string, accelerators: () => Accelerator[]): View {
  return (_caller, base) => {
    const live = (base as ByNode | undefined)?.[nodeId]?.['accelerator'] as object | null | undefined
    const found = accelerators()[0]
    if (found === undefined) return withFields(base, nodeId, { accelerator: live ?? null })
    const known = Object.entries(live ?? {}).filter(([, value]) => value !== null)
    return withFields(base, nodeId, { accelerator: { ...found, ...Object.fromEntries(known) } })
  }
}

/** What the kernel shows under nodeResources, with the backends of this node. */
export function nodeResources (nodeId: string, backends: () => string[]): View {
  return (_caller, base) => withFields(base, nodeId, { backends: backends() })
}

function withFields (base: unknown, nodeId: string, fields: Record<string, unknown>): ByNode {
  const nodes = (base ?? {}) as ByNode
  return { ...nodes, [nodeId]: { ...nodes[nodeId], ...fields } }
}
