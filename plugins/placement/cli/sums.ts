import { plain, showBytes } from '../../../kernel/cli/index.js'
import { count } from './api.js'

/** The sums of one node, of a placement that fits or of one that does not. */
export interface NodeSums {
  nodeId: string
  name?: string
  backend: string
  startLayer: number
  endLayer: number
  shareBytes: number
  neededBytes: number
  usableBytes: number
  overhead?: number
  cacheBytes?: number
  fixedBytes?: number
  availableBytes?: number
  limitBytes?: number
  reservedBytes?: number
}

/** A change that would make it fit. */
interface Suggestion {
  kind: string
  text: string
  instanceId?: string
  minNodes?: number
  sharding?: string
  instanceMeta?: string
}

/** One line per node: what it needs and what it can use, with every term that is told. */
export function sumLines (nodes: readonly NodeSums[], nameOf: (nodeId: string) => string): string[] {
  return nodes.map((node) => {
    const { startLayer, endLayer, neededBytes, usableBytes } = node
    const layers = endLayer > startLayer ? `, layers ${startLayer} to ${endLayer}` : ''
    const fits = neededBytes < usableBytes
    return plain(`${node.name ?? nameOf(node.nodeId)} (${node.backend}${layers}): ` +
      `needs ${showBytes(neededBytes)}${needTerms(node)}, ` +
      `can use ${showBytes(usableBytes)}${useTerms(node)}` +
      `${fits ? '' : `: ${showBytes(neededBytes - usableBytes)} too little`}`)
  })
}

function needTerms ({ shareBytes, overhead, cacheBytes = 0, fixedBytes = 0 }: NodeSums): string {
  if (overhead === undefined) return ` for ${showBytes(shareBytes)} of weights`
  return ` = weights ${showBytes(shareBytes)} x ${overhead.toFixed(2)} + cache ${showBytes(cacheBytes)} + ` +
    `runner ${showBytes(fixedBytes)}`
}

function useTerms ({ availableBytes, limitBytes, reservedBytes }: NodeSums): string {
  if (availableBytes === undefined || limitBytes === undefined) return ''
  const reserved = reservedBytes === undefined || reservedBytes === 0
    ? ''
    : `, less ${showBytes(reservedBytes)} of models that load`
  return ` (the lesser of ${showBytes(availableBytes)} free and ${showBytes(limitBytes)} allowed${reserved})`
}

/** What would make it fit, each with the command where there is one. */
export function suggestionLines (modelId: string, suggestions: readonly Suggestion[]): string[] {
  if (suggestions.length === 0) return []
  return [`${count(suggestions.length, 'way')} to make it fit:`, ...suggestions.map((suggestion) => {
    const command = commandOf(modelId, suggestion)
    return plain(`  ${suggestion.text}${command === undefined ? '' : `: ${command}`}`)
  })]
}

function commandOf (
  modelId: string, { kind, instanceId, minNodes, sharding, instanceMeta }: Suggestion
): string | undefined {
  if (kind === 'stop' && instanceId !== undefined) return `svc stop ${instanceId}`
  if (kind === 'min_nodes' && minNodes !== undefined) return `svc place ${modelId} --min-nodes ${minNodes}`
  if (kind === 'sharding' && sharding !== undefined) {
    return `svc place ${modelId} --sharding ${sharding.toLowerCase()}`
  }
  if (kind === 'instance_meta' && instanceMeta !== undefined) {
    return `svc place ${modelId} --meta ${instanceMeta}`
  }
  return undefined
}

/** The sums and the ways out that an error or a preview tells. */
export function linesOf (
  modelId: string, details: Record<string, unknown> | null | undefined, nameOf: (nodeId: string) => string
): string[] {
  const nodes = (details?.['ranks'] ?? details?.['nodes'] ?? []) as NodeSums[]
  const sums = nodes.filter(({ neededBytes }) => typeof neededBytes === 'number')
  return [
    ...sumLines(sums, nameOf), ...suggestionLines(modelId, (details?.['suggestions'] ?? []) as Suggestion[])
  ]
}
