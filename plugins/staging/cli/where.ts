import type { ModelCopy } from './api.js'

const KINDS = ['store', 'staged', 'bundled', 'cache', 'receiving'] as const

/** Where copies are, for people: `store@node1, staged@node2,node3`; `-` when nowhere. */
export function whereOf (
  copies: readonly Pick<ModelCopy, 'nodeId' | 'nodeName' | 'kind' | 'live'>[]
): string {
  const name = (copy: (typeof copies)[number]): string =>
    `${copy.nodeName ?? copy.nodeId}${copy.live === false ? ' (lost)' : ''}`
  const parts = KINDS.flatMap((kind) => {
    const nodes = copies.filter((copy) => copy.kind === kind).map(name)
    const sorted = [...new Set(nodes)].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    return sorted.length === 0 ? [] : [`${kind}@${sorted.join(',')}`]
  })
  return parts.join(', ') || '-'
}

/** Size of the model, bytes: of a whole copy where there is one; undefined without any. */
export function sizeOfCopies (copies: readonly ModelCopy[]): number | undefined {
  const whole = copies.filter((copy) => copy.kind !== 'receiving')
  const sizes = (whole.length > 0 ? whole : copies).map((copy) => copy.sizeBytes)
  return sizes.length === 0 ? undefined : Math.max(...sizes)
}
