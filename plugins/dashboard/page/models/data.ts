import { grouped } from '../ui/text.js'
import type { Replies } from '../../../../docs/reference/replies.js'
import type { Instance, Transfer } from '../state.js'

export type Entry = Required<Replies['GET /v1/models']['data'][number]>
export type Copied = Replies['GET /models/copies']['copies'][number]
export type Download = Required<Replies['GET /store/downloads']['downloads'][number]>

export type Row = ReturnType<typeof rowsOf>[number]

export interface Live {
  instances: readonly Instance[], downloads: readonly Download[], transfers: readonly Transfer[]
  waiting: readonly string[]
}

const RUNNING = new Set(['pending', 'downloading'])
export const isRunning = ({ status }: Download): boolean => RUNNING.has(status)
/** Whether requesting the model again would resume its download. */
export const isStopped = ({ status }: Download): boolean =>
  status === 'paused' || status === 'failed' || status === 'cancelled'

/** Every known model, on disk or in transit, by name. */
export function rowsOf (entries: readonly Entry[], copies: readonly Copied[], live: Live) {
  const listed = new Map(entries.map((entry) => [entry.id, entry]))
  const coming = live.downloads.filter(({ status }) => status !== 'complete' && status !== 'not_found')
  const ids = new Set([
    ...listed.keys(), ...copies.map(({ modelId }) => modelId), ...coming.map(({ modelId }) => modelId),
    ...live.instances.map(({ modelId }) => modelId)
  ])
  const there = grouped(copies.filter(({ kind }) => kind !== 'receiving'), ({ modelId }) => modelId)
  const placed = grouped(live.instances, ({ modelId }) => modelId)
  return [...ids].sort().map((id) => {
    const entry = listed.get(id)
    const whole = there.get(id) ?? []
    const instances = placed.get(id) ?? []
    return {
      id, title: entry?.name ?? id, description: entry?.description ?? '', tasks: entry?.tasks ?? [],
      sizeBytes: whole[0]?.sizeBytes ??
        (entry === undefined || entry.virtual ? null : entry.storage_size_megabytes * 1024 ** 2),
      quantization: entry?.quantization ?? null, contextLength: entry?.context_length ?? 0,
      virtual: entry?.virtual === true, placeable: entry?.virtual === false, instances: instances.length,
      nodes: [...new Set(whole.map(({ nodeName }) => nodeName))].sort(),
      ...stateOf(id, entry, instances, live, whole)
    }
  })
}

/** The state to show for a model; prefers the replicated state, which is newer than the catalogue. */
function stateOf (
  id: string, entry: Entry | undefined, instances: readonly Instance[], live: Live, copies: readonly Copied[]
): { state: string, level: 'ok' | 'warn' | 'error' | 'plain', remedy: string | null } {
  const remedy = entry?.remedy ?? null
  const ready = { state: 'ready', level: 'ok', remedy: null } as const
  if (instances.some((one) => one.ready)) return ready
  if (entry?.virtual === true) return entry.ready ? ready : { state: 'not ready', level: 'warn', remedy }
  if (instances.some(({ phase }) => phase === 'failed')) return { state: 'failed', level: 'error', remedy }
  if (instances[0] !== undefined) return { state: instances[0].phase, level: 'warn', remedy: null }
  if (live.waiting.includes(id)) return { state: 'waits for a place', level: 'warn', remedy }
  const download = live.downloads.find((one) => one.modelId === id)
  if (download !== undefined && (isRunning(download) || (copies.length === 0 && isStopped(download)))) {
    const { status, error } = download
    return { state: status, level: status === 'failed' ? 'error' : 'warn', remedy: error }
  }
  const comes = live.transfers.some(({ modelId, status }) => modelId === id && status === 'ongoing')
  if (comes) return { state: 'being copied', level: 'warn', remedy: null }
  const here = copies.length > 0 || entry?.installed === true
  if (here) return { state: 'not placed', level: 'plain', remedy: null }
  return { state: 'no copy', level: 'error', remedy }
}

/** The copies on each node's disk, sorted by node name; leaves out bundled models. */
export function copiesByNode (copies: readonly Copied[]): { nodeId: string, copies: Copied[] }[] {
  const ships = new Set(copies.flatMap(({ kind, modelId, nodeId }) =>
    kind === 'bundled' ? [`${modelId} ${nodeId}`] : []))
  const own = copies.filter(({ modelId, nodeId }) => !ships.has(`${modelId} ${nodeId}`))
  return [...grouped(own, ({ nodeId }) => nodeId)].map(([nodeId, copies]) => ({ nodeId, copies }))
    .sort((a, b) => a.copies[0]!.nodeName < b.copies[0]!.nodeName ? -1 : 1)
}

export function filterRows (rows: readonly Row[], text: string): Row[] {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== '')
  return rows.filter(({ id, title, tasks, state }) => {
    const all = [id, title, ...tasks, state].join(' ').toLowerCase()
    return words.every((word) => all.includes(word))
  })
}

/** A Hugging Face model as typed: `org/name`, with weights or revision if given. */
export interface Wanted { modelId: string, variant: string | null, revision: string | null }

const NAME = /^([A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*)(?::([A-Za-z0-9._-]+))?(?:@([A-Za-z0-9][\w./-]*))?$/

/** Parses `org/name`, `org/name:Q4_K_M`, `org/name@v2`, or a hub URL; null for any other text. */
export function wantedOf (text: string): Wanted | null {
  const bare = text.trim().replace(/^(https:\/\/)?(www\.)?(huggingface\.co|hf\.co)\//, '').replace(/\/$/, '')
  const match = NAME.exec(bare)
  if (match === null) return null
  return { modelId: match[1]!, variant: match[2] ?? null, revision: match[3] ?? null }
}
