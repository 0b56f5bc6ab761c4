import { plain, showBytes } from '../../../kernel/cli/index.js'
import { needWords, type Need } from '../../runners/cards/memory-forecast.js'
import type { Usable } from '../planner/memory.js'
import type { MemoryPart, PlanRank, Suggestion } from '../planner/types.js'
import { count } from './state.js'

export interface PreviewRow {
  sharding: string
  min_nodes: number
  error: string | null
  reason?: string | null
  details: Record<string, unknown> | null
}

/** Memory figures for one node, either from a plan (`ranks`) or from a refusal (`nodes`). */
type NodeSums = Omit<PlanRank, 'freeAfterBytes' | 'nodeId' | keyof Need> &
  Pick<Need, 'shareBytes' | 'neededBytes'> & { nodeId?: string, name?: string } & Partial<Need & Usable>

const partsOf = (node: NodeSums, name: string): string[] => node.memories === undefined
  ? [sumLine(node, name)]
  : node.memories.map((part: MemoryPart) => sumLine(
      { backend: node.backend, startLayer: 0, endLayer: 0, ...part },
      `${name}, ${part.layers} layers on the ${part.memory === 'vram' ? 'GPU' : 'CPU'}`))

function sumLine (node: NodeSums, name: string): string {
  const { backend, startLayer, endLayer, neededBytes, usableBytes } = node
  const layers = endLayer > startLayer ? `, layers ${startLayer} to ${endLayer}` : ''
  const fits = neededBytes < usableBytes
  return plain(`${name} (${backend}${layers}): needs ${showBytes(neededBytes)}${needTerms(node)}, ` +
    `can use ${showBytes(usableBytes)}${useTerms(node)}` +
    `${fits ? '' : `: ${showBytes(neededBytes - usableBytes)} too little`}`)
}

function needTerms ({ shareBytes, cacheBytes, bufferBytes = 0, fixedBytes = 0 }: NodeSums): string {
  if (cacheBytes === undefined) return ` for ${showBytes(shareBytes)} of weights`
  return ` = ${needWords({ shareBytes, cacheBytes, bufferBytes, fixedBytes }, showBytes)}`
}

function useTerms ({ freeBytes, limitBytes, reservedBytes = 0 }: NodeSums): string {
  if (freeBytes === undefined || limitBytes === undefined) return ''
  const reserved = reservedBytes === 0 ? '' : `, less ${showBytes(reservedBytes)} of models that load`
  return ` (the lesser of ${showBytes(Math.max(0, freeBytes))} free and ${showBytes(limitBytes)} ` +
    `allowed${reserved})`
}

/** A change that would make the model fit; `command` is null if no single command makes that change. */
export interface FitSuggestion { text: string, command: string | null }

export function waysOf (
  modelId: string, details: Record<string, unknown> | null | undefined
): FitSuggestion[] {
  const suggestions = (details?.['suggestions'] ?? []) as Suggestion[]
  return suggestions.map((one) => ({ text: plain(one.text), command: commandOf(modelId, one) }))
}

/** `modelId`: the model, and the options of the refused command, which the suggested one repeats. */
function commandOf (modelId: string, change: Suggestion): string | null {
  const place = (flag: string, value: string | number): string =>
    `svc place ${modelId.replace(new RegExp(` ${flag} \\S+`), '')} ${flag} ${value}`
  switch (change.kind) {
    case 'stop': return `svc stop ${change.instanceId}`
    case 'context_length': return place('--ctx', change.contextLength)
    case 'slots': return place('--slots', change.slots)
    case 'min_nodes': return place('--min-nodes', change.minNodes)
    case 'sharding': return place('--sharding', change.sharding.toLowerCase())
    case 'instance_meta': return place('--meta', change.instanceMeta)
    case 'undrain': return change.nodeIds.map((id) => `svc undrain ${id}`).join(' && ')
    default: return null
  }
}

interface Unload { instanceId: string, modelId: string, idleSeconds: number, bytes: number }

/** The instances that a request for the model, or `--make-room`, would unload. */
function unloadLines (unloads: readonly Unload[] | undefined): string[] {
  if (unloads === undefined) return []
  if (unloads.length === 0) return ['--make-room would wait: what could be unloaded is in use or is new']
  return ['--make-room, or a request with on_demand, would unload the least valuable idle models:',
    ...unloads.map(({ instanceId, modelId, idleSeconds, bytes }) => plain(`  ${modelId} (${instanceId}), ` +
      `${showBytes(bytes)}, without a request for ${Math.round(idleSeconds)} s`))]
}

export function linesOf (
  modelId: string, details: Record<string, unknown> | null | undefined, nameOf: (nodeId: string) => string
): string[] {
  const nodes = (details?.['ranks'] ?? details?.['nodes'] ?? []) as NodeSums[]
  const ways = waysOf(modelId, details)
  return [
    // A refusal lacks `neededBytes` if the client supplied the whole instance instead of requesting a plan.
    ...nodes.filter(({ neededBytes }) => typeof neededBytes === 'number')
      .flatMap((node) => partsOf(node, node.name ?? nameOf(node.nodeId!))),
    ...ways.length === 0 ? [] : [`${count(ways.length, 'way')} to make it fit:`],
    ...ways.map(({ text, command }) => plain(`  ${text}${command === null ? '' : `: ${command}`}`)),
    ...unloadLines(details?.['unloads'] as Unload[] | undefined)
  ]
}
