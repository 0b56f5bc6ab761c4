import { plain, showBytes, type Verb } from '../../../kernel/cli/index.js'
import { copiesByModel, sizeOfCopies, locationsText, type CopiesAnswer } from './api.js'
import type { Answers } from '../routes.js'
import type { ClusterCopy } from '../types.js'

type ListEntry = Answers['models']['data'][number]

export interface ModelRow {
  modelId: string, sizeBytes: number | null
  state: 'ready' | 'receiving' | 'installed' | 'store unreachable' | '-'
  tasks: string[], copies: ClusterCopy[]
}

export default {
  async run (ctx) {
    const [{ copies, silent_store: silent = null }, { data }] = await Promise.all([
      ctx.client.json<CopiesAnswer>('/models/copies'), ctx.client.json<Answers['models']>('/v1/models')
    ])
    const models = joinModels(data.filter(
      ({ id, root = id, virtual }) => root === id && (virtual !== true || !id.startsWith('svc/'))
    ), copies, silent !== null)
    if (ctx.out.json) ctx.out.value({ models })
    else if (models.length === 0 && silent === null) {
      ctx.err.line('no models yet: run `svc pull org/name` or `svc pull ./folder`')
      for (const { name, models = {} } of (await ctx.declared()).manifests) {
        const [id] = Object.keys(models)
        if (id !== undefined) ctx.err.line(`the plugin ${name}, which provides ${id}, is off`)
      }
    } else {
      ctx.out.table(['NAME', 'SIZE', 'WHERE', 'STATE'], models.map((model) => [model.modelId,
        model.sizeBytes === null ? '-' : showBytes(model.sizeBytes), locationsText(model.copies),
        model.state]))
    }
    if (silent !== null) {
      ctx.err.line(plain(`the store on ${silent} cannot be reached, so models may be missing: svc nodes`))
    }
  }
} satisfies Verb

const MIB = 1024 * 1024

export function joinModels (
  entries: readonly ListEntry[], copies: readonly ClusterCopy[], storeAway = false
): ModelRow[] {
  const listed = new Map(entries.map((entry) => [entry.id, entry]))
  const byModel = copiesByModel(copies)
  const ids = [...new Set([...listed.keys(), ...byModel.keys()])].sort()
  return ids.map((modelId) => {
    const entry = listed.get(modelId)
    const own = byModel.get(modelId) ?? []
    const told = entry?.virtual === true ? undefined : entry?.storage_size_megabytes
    return {
      modelId, sizeBytes: sizeOfCopies(own) ?? (told === undefined ? null : Math.round(told * MIB)),
      state: stateOf(entry, own, storeAway), tasks: entry?.tasks ?? [], copies: own
    }
  })
}

function stateOf (
  entry: ListEntry | undefined, copies: readonly ClusterCopy[], storeAway: boolean
): ModelRow['state'] {
  if (entry?.ready === true) return 'ready'
  if (copies.some((copy) => copy.kind === 'receiving')) return 'receiving'
  const usable = copies.some((copy) => copy.kind !== 'store' && copy.live)
  if (entry?.installed === true || usable) return 'installed'
  return storeAway ? 'store unreachable' : '-'
}
