import { nobodyRunsGguf, offerEngine } from '../../chat/service.js'
import { askPatiently, storePath } from './api.js'
import { bringIn } from './pull.js'
import { canAsk, confirm, plain, showBytes } from '../../../kernel/cli/index.js'
import type { DownloadPlan } from '../handlers/plan.js'
import type { Pace, VerbContext } from '../../../kernel/cli/index.js'
import type { SeenPrograms } from '../../chat/service.js'
import type { NamedModel } from './source.js'

/** The memory of the nodes in GET /state. */
interface MemoryView extends SeenPrograms {
  nodeIdentities: Record<string, { friendlyName: string | null }>
  nodeMemory?: Record<string, { ramTotal: { inBytes: number }, ramAvailable: { inBytes: number } } | null>
  nodeSystem?: Record<string, { accelerator?: {
    vramTotalBytes?: number | null, vramUsedBytes?: number | null
  } | null } | null>
}

/** What a node can give to weights, at most. */
interface Free { name: string, bytes: number }

/**
 * Brings a model that is not here into the store, for a verb that needs it: says what is fetched and whether
 * it fits, asks on a terminal unless `yes`, and shows how far it is. Throws VerbError.
 */
export async function fetchModel (
  ctx: VerbContext, pace: Pace, { modelId, ...named }: NamedModel, yes: boolean
): Promise<void> {
  const query = new URLSearchParams({ ...named }).toString()
  const [plan, state] = await Promise.all([
    askPatiently<DownloadPlan>(ctx, `${storePath(modelId)}/download/plan?${query}`),
    ctx.client.json<MemoryView>('/state')
  ])
  const free = freeOf(state)
  for (const line of linesOf(plan, free)) ctx.err.line(plain(line))
  refuseTooLarge(ctx, plan, free)
  await bringEngine(ctx, plan, state, yes)
  if (!yes && canAsk(ctx) && !await confirm(ctx, `Fetch ${showBytes(plan.totalBytes)}?`)) {
    throw ctx.fail(1, 'nothing was fetched')
  }
  await bringIn(ctx, pace, { modelId, body: named })
}

function freeOf ({ nodeIdentities, nodeMemory = {}, nodeSystem = {} }: MemoryView): Free[] {
  return Object.entries(nodeMemory).flatMap(([nodeId, memory]) => {
    if (memory === null) return []
    const { vramTotalBytes, vramUsedBytes } = nodeSystem[nodeId]?.accelerator ?? {}
    const vram = (vramTotalBytes ?? 0) * 0.9 - (vramUsedBytes ?? Infinity)
    const ram = Math.min(memory.ramAvailable.inBytes, memory.ramTotal.inBytes * 0.75)
    return [{ name: nodeIdentities[nodeId]?.friendlyName ?? nodeId, bytes: Math.max(0, ram, vram) }]
  }).sort((a, b) => b.bytes - a.bytes)
}

/** What weights can take at most: only GGUF models are spread over nodes. */
const mostOf = ({ engine }: DownloadPlan, free: readonly Free[]): number => engine === 'gguf'
  ? free.reduce((sum, { bytes }) => sum + bytes, 0) : free[0]?.bytes ?? Infinity

function linesOf (plan: DownloadPlan, free: readonly Free[]): string[] {
  const { modelId, hub, files, totalBytes, weightsBytes, variant, engine, disk } = plan
  const kind = [engine === null ? null : engine.toUpperCase(), variant].filter((word) => word !== null)
  const [most] = free
  return [
    `${modelId} is not here; from ${hub}: ${files} files, ${showBytes(totalBytes)}` +
    (kind.length === 0 ? '' : ` (${kind.join(' ')})`),
    `disk of the store, on ${disk.node}: ${showBytes(disk.roomBytes)} are free for it`,
    `memory: its weights take at least ${showBytes(weightsBytes)}` +
    (most === undefined ? '' : `; ${most.name} has ${showBytes(most.bytes)} for them`)
  ]
}

/** Where no node has the program that the format runs on, offers it; throws where it does not come. */
async function bringEngine (
  ctx: VerbContext, { modelId, engine }: DownloadPlan, state: MemoryView, yes: boolean
): Promise<void> {
  if (engine !== 'gguf' || !nobodyRunsGguf(state) || await offerEngine(ctx, yes)) return
  throw ctx.fail(1, `${modelId} runs on llama.cpp, whose llama-server no node has\n` +
    '  `svc engine add llama.cpp` brings it, on each node that is to run such models')
}

/** Throws with exit 6, the sum and the largest weights that would fit. */
function refuseTooLarge (ctx: VerbContext, plan: DownloadPlan, free: readonly Free[]): void {
  const { modelId, weightsBytes, variants, totalBytes, disk } = plan
  const most = mostOf(plan, free)
  if (disk.problem === null && weightsBytes <= most) return
  const rest = totalBytes - weightsBytes
  const smaller = variants.findLast(({ bytes }) => bytes <= most && bytes + rest <= disk.roomBytes)
  throw ctx.fail(6, [
    disk.problem === null
      ? `${modelId} does not fit: its weights take ${showBytes(weightsBytes)} of memory, and ` +
      `${showBytes(most)} are free for them`
      : `${modelId} does not fit on the disk of ${disk.node}: ${plain(disk.problem)}`,
    smaller === undefined
      ? '  free some: `svc ps` shows what is loaded, `svc rm` and `svc purge` give disk back'
      : `  a smaller one: svc run ${modelId}:${smaller.name} (${showBytes(smaller.bytes)})`
  ].join('\n'))
}
