import { createHash } from 'node:crypto'
import type { ListFileEntry } from '@huggingface/hub'
import { EMPTY_SHA256, MOST_FILES } from '../files/record.js'
import { filePathProblem, modelIdProblem, shown } from '../files/names.js'
import { HubError, type HubSearchResult, type HubFile, type HubSelection } from './types.js'

const SHA256 = /^[0-9a-f]{64}$/
const SHA1 = /^[0-9a-f]{40}$/
const LICENCE = /^[A-Za-z0-9._+-]{1,64}$/
const LANGUAGE = /^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$/
const EMPTY_BLOB_SHA1 = createHash('sha1').update('blob 0\0').digest('hex')
const MOST_LISTED = 100_000

/** Reads a revision's commit, files and licence; checkSelected validates file names. Throws HubError. */
export async function describe (
  url: string, fetch: typeof globalThis.fetch, modelId: string, revision: string
): Promise<Pick<HubSelection, 'commit' | 'files' | 'licence' | 'languages'>> {
  const { modelInfo, listFiles } = await import('@huggingface/hub')
  try {
    const additionalFields: ('sha' | 'tags' | 'cardData')[] = ['sha', 'tags', 'cardData']
    const info = await modelInfo({ name: modelId, revision, hubUrl: url, fetch, additionalFields })
    const { sha: commit } = info
    if (!SHA1.test(commit)) throw bad('it has no commit')
    const repo = { type: 'model', name: modelId } as const
    const files: HubFile[] = []
    for await (const entry of listFiles({ repo, revision: commit, recursive: true, hubUrl: url, fetch })) {
      if (files.length >= MOST_LISTED) throw bad(`it has more than ${MOST_LISTED} files`)
      if (entry.type !== 'directory') files.push(fileOf(entry))
    }
    const card: Record<string, unknown> = { ...info.cardData }
    const tagged = texts(info.tags).filter((tag) => tag.startsWith('license:'))
      .map((tag) => tag.slice('license:'.length))
    return {
      commit, files,
      licence: [...texts(card['license']), ...tagged].find((name) => LICENCE.test(name)) ?? null,
      languages: texts(card['language']).filter((tag) => LANGUAGE.test(tag)).slice(0, 200)
    }
  } catch (error) { throw told(error, 'description of the model') }
}

const isText = (value: unknown, shape: RegExp): value is string =>
  typeof value === 'string' && shape.test(value)

function fileOf ({ path, size, oid, lfs }: ListFileEntry): HubFile {
  if (typeof path !== 'string') throw bad('a file has no name')
  const bytes = lfs?.size ?? size
  return {
    path,
    // Invalid sizes become -1 and invalid hashes null; checkSelected throws if such a file is selected.
    size: Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : -1,
    sha256: isText(lfs?.oid, SHA256) ? lfs.oid : null,
    gitSha1: lfs == null && isText(oid, SHA1) ? oid : null
  }
}

/** Throws HubError for an unsafe name, size or hash. Returns the sum of the sizes. */
export function checkSelected (files: readonly HubFile[]): number {
  if (files.length > MOST_FILES) throw bad(`it has ${files.length} files, more than ${MOST_FILES}`)
  const seen = new Set<string>()
  let total = 0n
  for (const file of files) {
    const problem = filePathProblem(file.path)
    if (problem !== null) throw bad(problem)
    const folded = file.path.toLowerCase()
    if (seen.has(folded)) throw bad(`${shown(file.path)} occurs twice with different case`)
    seen.add(folded)
    checkFile(file)
    total += BigInt(file.size)
  }
  if (total > BigInt(Number.MAX_SAFE_INTEGER)) throw bad(`its files have ${total} bytes in total`)
  return Number(total)
}

function checkFile (file: HubFile): void {
  const { path, size, sha256, gitSha1 } = file
  if (size < 0) throw bad(`${path} has no size`)
  if (sha256 === null && gitSha1 === null) throw bad(`${path} has no hash`)
  const empty = sha256 === EMPTY_SHA256 || gitSha1 === EMPTY_BLOB_SHA1
  if (empty !== (size === 0)) throw bad(`${path} has ${size} bytes, which contradicts its hash`)
}

function texts (value: unknown): string[] {
  const list: unknown[] = Array.isArray(value) ? value : [value]
  return list.filter((entry) => typeof entry === 'string')
}

function bad (why: string, what = 'description of the model'): HubError {
  return new HubError('bad_answer', `the hub's ${what} cannot be used: ${why}`)
}

/** Maps TypeErrors and SyntaxErrors to hub faults, since the hub library does not validate responses. */
function told (error: unknown, what: string): unknown {
  return error instanceof TypeError || error instanceof SyntaxError ? bad(error.message, what) : error
}

/** Formats that svc can run, best first; the hub uses the same words as tags. */
const ENGINES = ['gguf', 'onnx'] as const
const TASK = /^[a-z0-9-]{1,64}$/
/** Hub tasks whose ONNX models svc can run; null stands for a model without a task. */
const ONNX_TASKS =
  new Set([null, 'feature-extraction', 'sentence-similarity', 'text-to-speech', 'text-to-audio'])

export async function searchHub (
  url: string, fetch: typeof globalThis.fetch, query: string, limit: number
): Promise<HubSearchResult[]> {
  const [gguf, onnx, all] = await Promise.all([...ENGINES, null].map(async (engine) =>
    await list(url, fetch, { query, limit, engine })))
  const [runs, others] = [[...gguf!], [] as HubSearchResult[]]
  for (const one of onnx!) {
    if (ONNX_TASKS.has(one.task)) runs.push(one)
    else others.push({ ...one, engine: null })
  }
  const known = new Set<string>()
  const once = (found: readonly HubSearchResult[]): HubSearchResult[] => found.filter(({ modelId }) => {
    if (known.has(modelId)) return false
    known.add(modelId)
    return true
  })
  return [...once(runs).sort(byDownloads), ...once([...others, ...all!]).sort(byDownloads)]
}

const byDownloads = (a: HubSearchResult, b: HubSearchResult): number =>
  (b.downloads ?? 0) - (a.downloads ?? 0) || (a.modelId < b.modelId ? -1 : 1)

async function list (
  hubUrl: string, fetch: typeof globalThis.fetch,
  asked: { query: string, limit: number, engine: HubSearchResult['engine'] }
): Promise<HubSearchResult[]> {
  const { listModels } = await import('@huggingface/hub')
  const { query, limit, engine } = asked
  const search = { query, ...engine === null ? {} : { tags: [engine] } }
  const found: HubSearchResult[] = []
  try {
    for await (const entry of listModels({ search, limit, sort: 'downloads', hubUrl, fetch })) {
      // Skip names that `svc pull` could not use.
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
  } catch (error) { throw told(error, 'list of models') }
}

const countOf = (value: unknown): number | null =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? value as number : null
