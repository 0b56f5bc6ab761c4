// The possible placements of a model: memory needs of those that fit, and why the others do not.
import type { Replies } from '../../../../docs/reference/replies.js'

export type Preview = Replies['GET /instance/previews']['previews'][number]
type Details = NonNullable<Preview['details']>
export type Suggestion = NonNullable<Details['suggestions']>[number]
type Sums = NonNullable<Details['nodes']>[number]
/** Memory needs and limits of one node. The API declares these fields as optional. */
export type NodeSum = Sums & Required<Pick<Sums,
  'backend' | 'startLayer' | 'endLayer' | 'shareBytes' | 'neededBytes' | 'usableBytes'>>

export interface Way {
  key: string, title: string, preview: Preview
  fits: boolean
  /** Whether the placement lacks nothing but memory and can therefore be forced. */
  short: boolean
  sums: NodeSum[]
  suggestions: Suggestion[]
}

/** Every placement, fitting ones first; those with equal nodes and layers are merged. */
export function waysOf (previews: readonly Preview[]): Way[] {
  const seen = new Set<string>()
  const ways = previews.flatMap((preview): Way[] => {
    const { sharding, instance_meta: meta, min_nodes: least, error, reason, details } = preview
    const fits = error === null
    const sums = ((details?.ranks ?? details?.nodes ?? []) as NodeSum[]).filter(
      ({ neededBytes, usableBytes }) => typeof neededBytes === 'number' && typeof usableBytes === 'number')
    const parts = sums.map(({ nodeId, startLayer, endLayer }) => `${nodeId} ${startLayer}-${endLayer}`)
    // A placement on one node is the same for every sharding, so it is listed once.
    const same = fits ? (sums.length === 1 ? parts.join() : [sharding, meta, ...parts].join()) : null
    if (same !== null && seen.has(same)) return []
    if (same !== null) seen.add(same)
    return [{
      key: `${sharding} ${meta} ${least}`, title: titleOf(preview), preview, fits, sums,
      short: reason === 'insufficient_memory', suggestions: details?.suggestions ?? []
    }]
  })
  return [...ways.filter(({ fits }) => fits), ...ways.filter(({ fits }) => !fits)]
}

function titleOf ({ sharding, instance_meta: meta, min_nodes: least, error, details }: Preview): string {
  const count = error === null ? details?.ranks?.length ?? least : least
  if (count === 1) return 'On one node'
  const how = sharding === 'Tensor' ? 'each with a part of every layer' : 'each with some of the layers'
  return `On ${count} nodes${error === null ? '' : ' or more'}, ${how} (${sharding}, ${meta})`
}

/** The table rows of a node: one per kind of memory if its layers are split between GPU and CPU. */
export const rowsOf = (sum: NodeSum): (NodeSum & { what: string })[] => {
  const { nodeId, name, backend, startLayer, endLayer, memories } = sum
  const whole = endLayer > startLayer ? `${backend}, layers ${startLayer} to ${endLayer}` : backend
  return memories?.map(({ memory, layers, ...sums }) => ({
    nodeId, backend, startLayer, endLayer, ...name === undefined ? {} : { name }, ...sums,
    what: `${layers} layers on the ${memory === 'vram' ? 'GPU' : 'CPU'}`
  })) ?? [{ ...sum, what: whole }]
}

export function termsOf (sum: NodeSum, bytes: (count: number) => string): { need: string, use: string } {
  const { shareBytes, cacheBytes, bufferBytes = 0, fixedBytes = 0, freeBytes, limitBytes } = sum
  const need = cacheBytes === undefined
    ? `for ${bytes(shareBytes)} of weights`
    : `weights ${bytes(shareBytes)} + KV cache ${bytes(cacheBytes)} + buffers ${bytes(bufferBytes)} + ` +
      `process ${bytes(fixedBytes)}`
  const { reservedBytes = 0 } = sum
  const reserved = reservedBytes > 0 ? `, less ${bytes(reservedBytes)} of models that load` : ''
  const use = freeBytes === undefined || limitBytes === undefined
    ? ''
    : `the lesser of ${bytes(Math.max(0, freeBytes))} free and ${bytes(limitBytes)} allowed${reserved}`
  return { need, use }
}

export interface Ask { contextLength: number | null, excluded: readonly string[] }

export function queryOf (modelId: string, { contextLength, excluded }: Ask): URLSearchParams {
  const query = new URLSearchParams({ model_id: modelId })
  if (contextLength !== null) query.set('context_length', String(contextLength))
  for (const id of excluded) query.append('excluded_node_ids', id)
  return query
}

export function placeBody (way: Way, { contextLength, excluded }: Ask, force: boolean): object {
  const { model_id, sharding, instance_meta, min_nodes } = way.preview
  return {
    model_id, sharding, instance_meta, min_nodes, excluded_nodes: excluded,
    ...contextLength === null ? {} : { context_length: contextLength }, ...force ? { force } : {}
  }
}
