import { modelIdProblem } from '../files/names.js'
import { told } from './listing.js'
import type { LibraryFetch } from './http.js'
import type { Found } from './types.js'

/** Formats that run here, the best first, and the tag by which the hub finds models that have them. */
const ENGINES = ['gguf', 'onnx'] as const
const TASK = /^[a-z0-9-]{1,64}$/
/** Tasks of the hub whose ONNX models run here; null: a model without a task. */
const ONNX_TASKS =
  new Set([null, 'feature-extraction', 'sentence-similarity', 'text-to-speech', 'text-to-audio'])

/** Models with these words in their names, those that run here first, then the most downloaded. */
export async function searchHub (
  url: string, open: () => LibraryFetch, query: string, limit: number
): Promise<Found[]> {
  const [gguf, onnx, all] = await Promise.all([...ENGINES, null].map(async (engine) =>
    await list(url, open(), { query, limit, engine })))
  const [runs, others] = [[...gguf!], [] as Found[]]
  for (const one of onnx!) {
    if (ONNX_TASKS.has(one.task)) runs.push(one)
    else others.push({ ...one, engine: null })
  }
  const known = new Set<string>()
  const once = (found: readonly Found[]): Found[] => found.filter(({ modelId }) => {
    if (known.has(modelId)) return false
    known.add(modelId)
    return true
  })
  return [...once(runs).sort(byDownloads), ...once([...others, ...all!]).sort(byDownloads)]
}

const byDownloads = (a: Found, b: Found): number =>
  (b.downloads ?? 0) - (a.downloads ?? 0) || (a.modelId < b.modelId ? -1 : 1)

async function list (
  hubUrl: string, via: LibraryFetch, asked: { query: string, limit: number, engine: Found['engine'] }
): Promise<Found[]> {
  const { listModels } = await import('@huggingface/hub')
  const { query, limit, engine } = asked
  const search = { query, ...engine === null ? {} : { tags: [engine] } }
  const found: Found[] = []
  try {
    for await (const entry of listModels({ search, limit, sort: 'downloads', hubUrl, fetch: via.fetch })) {
      // A name that svc could not pull by is no use to anybody.
      if (typeof entry.name === 'string' && modelIdProblem(entry.name) === null) {
        found.push({
          modelId: entry.name, engine,
          task: typeof entry.task === 'string' && TASK.test(entry.task) ? entry.task : null,
          downloads: countOf(entry.downloads), likes: countOf(entry.likes),
          updatedAt: Number.isNaN(+entry.updatedAt) ? null : entry.updatedAt.toISOString(),
          gated: entry.gated === 'auto' || entry.gated === 'manual'
        })
      }
    }
    return found
  } catch (error) {
    throw told(via, error, 'list of models')
  } finally {
    via.end()
  }
}

const countOf = (value: unknown): number | null =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? value as number : null
