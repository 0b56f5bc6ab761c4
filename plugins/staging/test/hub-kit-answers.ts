import { createHash } from 'node:crypto'
import type { HubFaults, HubModel } from './hub-kit.js'

/** A file of the fake hub, and a commit. */
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

/** The git blob id of some bytes. */
export function gitBlobSha1 (bytes: Buffer): string {
  return sha('sha1', `blob ${bytes.length}\0`, bytes)
}

/** A commit with these files. */
export function commitOf (model: HubModel): Commit {
  const files = new Map(Object.entries(model.files).map(([path, content]) => {
    const bytes = Buffer.from(content)
    const lfs = model.lfs === undefined ? WEIGHTS.test(path) : model.lfs.includes(path)
    return [path, { bytes, sha256: sha('sha256', bytes), gitSha1: gitBlobSha1(bytes), lfs }]
  }))
  const id = sha('sha1', ...[...files].map(([path, file]) => `${path}\0${file.sha256}\0`))
  return { id, files, licence: model.licence ?? null, languages: model.languages ?? [] }
}

/** What `GET /api/models/{id}/revision/{rev}?expand=…` says. */
export function describe (modelId: string, { id, licence, languages }: Commit): object {
  const tags = [...languages, ...licence === null ? [] : [`license:${licence}`]]
  const cardData = { license: licence ?? undefined, language: languages }
  return { _id: 'x', id: modelId, sha: id, private: false, gated: false, lastModified: '', tags, cardData }
}

/** What `GET /api/models?search=…&filter=…&limit=…` lists of the models there are. */
export function found (models: ReadonlyMap<string, Commit>, query: URLSearchParams): object[] {
  const words = (query.get('search') ?? '').toLowerCase()
  const ending = query.get('filter')
  return [...models].filter(([id, { files }]) => id.toLowerCase().includes(words) &&
    (ending === null || [...files.keys()].some((path) => path.endsWith(`.${ending}`))))
    .map(([id, { files }], at) => ({
      _id: `${at}`, id, private: false, gated: files.has('GATED') ? 'manual' : false, likes: at,
      downloads: [...files.values()].reduce((sum, { bytes }) => sum + bytes.length, 0),
      lastModified: '2026-01-02T03:04:05.000Z', pipeline_tag: 'text-generation'
    }))
    .sort((a, b) => b.downloads - a.downloads).slice(0, Number(query.get('limit')))
}

/** What `GET /api/models/{id}/tree/{commit}?recursive=true` lists. */
export function list (commit: Commit, faults: Pick<HubFaults, 'sizes' | 'hashes'>, xet: boolean): object[] {
  return [...commit.files].map(([path, file]) => {
    const size = faults.sizes?.[path] ?? file.bytes.length
    const sha256 = faults.hashes?.[path] ?? file.sha256
    const lfs = { lfs: { oid: sha256, size, pointerSize: 134 }, ...xet ? { xetHash: sha256 } : {} }
    return { type: 'file', path, size, oid: file.gitSha1, ...file.lfs ? lfs : {} }
  })
}

/** Bytes of a chunk of Xet's: a file is one block of chunks that are not compressed. */
const CHUNK_BYTES = 65_536
const HEADER_BYTES = 8

/** Headers by which the hub says where in Xet's store a file is. */
export function xetInfo (
  { bytes, sha256 }: { bytes: Buffer, sha256: string }, auth: string, store: string
): Record<string, string> {
  return {
    'content-type': 'application/vnd.xet-fileinfo+json', 'x-linked-size': String(bytes.length),
    'x-linked-etag': `"${sha256}"`, 'x-xet-hash': sha256,
    link: `<${auth}>; rel="xet-auth", <${store}/v1/reconstructions/${sha256}>; rel="xet-reconstruction-info"`
  }
}

/** Of which chunks the bytes of a file from an offset on consist, and where they are. */
export function reconstruction (
  bytes: Buffer, { sha256, url, from }: { sha256: string, url: string, from: number }
): object {
  const count = Math.ceil(bytes.length / CHUNK_BYTES)
  const first = Math.floor(from / CHUNK_BYTES)
  const range = { start: first, end: count }
  const at = { start: first * (CHUNK_BYTES + HEADER_BYTES), end: bytes.length + HEADER_BYTES * count - 1 }
  return {
    offset_into_first_range: from % CHUNK_BYTES,
    terms: [{ hash: sha256, unpacked_length: bytes.length - first * CHUNK_BYTES, range }],
    xorbs: { [sha256]: [{ url, ranges: [{ chunks: range, bytes: at }] }] }
  }
}

/** A file as a block: each chunk after a header of version, compression (0: none) and lengths. */
export function blockOf (bytes: Buffer): Buffer {
  const parts: Buffer[] = []
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    const chunk = bytes.subarray(at, at + CHUNK_BYTES)
    const header = Buffer.alloc(HEADER_BYTES)
    header.writeUIntLE(chunk.length, 1, 3)
    header.writeUIntLE(chunk.length, 5, 3)
    parts.push(header, chunk)
  }
  return Buffer.concat(parts)
}
