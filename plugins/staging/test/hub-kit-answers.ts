import { createHash } from 'node:crypto'
import type { HubFaults, HubModel } from './hub-kit.js'

export interface Stored { bytes: Buffer, sha256: string, gitSha1: string, lfs: boolean }
export interface Commit {
  id: string
  files: Map<string, Stored>
  licence: string | null
  languages: string[]
}

const WEIGHTS = /\.(onnx|onnx_data|bin|gguf|safetensors|pt)$/

const sha = (algorithm: string, ...parts: (Buffer | string)[]): string => {
  const hash = createHash(algorithm)
  for (const part of parts) hash.update(part)
  return hash.digest('hex')
}

export function gitBlobSha1 (bytes: Buffer): string {
  return sha('sha1', `blob ${bytes.length}\0`, bytes)
}

export function commitOf (model: HubModel): Commit {
  const files = new Map(Object.entries(model.files).map(([path, content]) => {
    const bytes = Buffer.from(content)
    const lfs = model.lfs === undefined ? WEIGHTS.test(path) : model.lfs.includes(path)
    return [path, { bytes, sha256: sha('sha256', bytes), gitSha1: gitBlobSha1(bytes), lfs }]
  }))
  const id = sha('sha1', ...[...files].map(([path, file]) => `${path}\0${file.sha256}\0`))
  return { id, files, licence: model.licence ?? null, languages: model.languages ?? [] }
}

/** The response to `GET /api/models/{id}/revision/{rev}?expand=…`. */
export function describe (modelId: string, { id, licence, languages }: Commit): object {
  const tags = [...languages, ...licence === null ? [] : [`license:${licence}`]]
  const cardData = { license: licence ?? undefined, language: languages }
  return { _id: 'x', id: modelId, sha: id, private: false, gated: false, lastModified: '', tags, cardData }
}

/** The answer to `GET /api/models?search=…&filter=…&limit=…`. */
export function found (models: ReadonlyMap<string, Commit>, query: URLSearchParams): object[] {
  const words = (query.get('search') ?? '').toLowerCase()
  const ending = query.get('filter')
  return [...models].filter(([id, { files }]) => id.toLowerCase().includes(words) &&
    (ending === null || [...files.keys()].some((path) => path.endsWith(`.${ending}`))))
    .map(([id, { files }], at) => ({
      _id: `${at}`, id, private: false, gated: files.has('GATED') ? 'manual' : false, likes: at,
      downloads: [...files.values()].reduce((sum, { bytes }) => sum + bytes.length, 0),
      lastModified: '2026-01-02T03:04:05.000Z',
      pipeline_tag: id.endsWith('vectors') ? 'feature-extraction' : 'text-generation'
    }))
    .sort((a, b) => b.downloads - a.downloads).slice(0, Number(query.get('limit')))
}

/** The answer to `GET /api/models/{id}/tree/{commit}?recursive=true`. */
export function list (commit: Commit, faults: Pick<HubFaults, 'sizes' | 'hashes'>, xet: boolean): object[] {
  return [...commit.files].map(([path, file]) => {
    const size = faults.sizes?.[path] ?? file.bytes.length
    const sha256 = faults.hashes?.[path] ?? file.sha256
    const lfs = { lfs: { oid: sha256, size, pointerSize: 134 }, ...xet ? { xetHash: sha256 } : {} }
    return { type: 'file', path, size, oid: file.gitSha1, ...file.lfs ? lfs : {} }
  })
}
