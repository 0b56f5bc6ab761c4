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
      lastModified: '2026-01-02T03:04:05.000Z',
      pipeline_tag: id.endsWith('vectors') ? 'feature-extraction' : 'text-generation'
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

/** Bytes of a chunk of Xet's. */
const CHUNK_BYTES = 65_536
/** Chunks that lie beside each other in one xorb; the next ones lie in the other. */
const RUN = 3
const LZ4_FRAME = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]

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

/** A frame of LZ4's with one block that was not worth compressing. */
function lz4 (bytes: Buffer): Buffer {
  const size = Buffer.alloc(4)
  size.writeUInt32LE((bytes.length | 0x8000_0000) >>> 0)
  return Buffer.concat([Buffer.from(LZ4_FRAME), size, bytes, Buffer.alloc(4)])
}

/** The first bytes of all groups of four, then the second ones, and so on. */
const grouped = (bytes: Buffer): Buffer => Buffer.concat([0, 1, 2, 3].map((nth) =>
  Buffer.from(bytes.filter((_, at) => at % 4 === nth))))

/** How chunks are kept, by turns: as they are, in LZ4, in LZ4 with their bytes grouped. */
const KEPT = [(bytes: Buffer) => bytes, lz4, (bytes: Buffer) => lz4(grouped(bytes))]

/** Each chunk after a header of version, compression and lengths. */
function packed (chunk: Buffer, turn: number): Buffer {
  const body = KEPT[turn % KEPT.length]!(chunk)
  const header = Buffer.alloc(8)
  header.writeUIntLE(body.length, 1, 3)
  header.writeUInt8(turn % KEPT.length, 4)
  header.writeUIntLE(chunk.length, 5, 3)
  return Buffer.concat([header, body])
}

interface Run { xorb: number, first: number, count: number, length: number, at: number, bytes: number }

/** A file in two xorbs, runs of chunks in the one and the other by turns, and each of them once. */
export function xorbsOf (file: Buffer): Laid {
  const there = LAID.get(file) ?? layOut(file)
  LAID.set(file, there)
  return there
}

interface Laid { xorbs: Buffer[], runs: Run[] }
const LAID = new WeakMap<Buffer, Laid>()

function layOut (file: Buffer): Laid {
  const parts: Buffer[][] = [[], []]
  const runs: Run[] = []
  const known = new Map<string, Run>()
  for (let from = 0; from < file.length; from += RUN * CHUNK_BYTES) {
    const bytes = file.subarray(from, from + RUN * CHUNK_BYTES)
    const there = known.get(sha('sha256', bytes))
    if (there !== undefined) { runs.push(there); continue }
    const xorb = known.size % 2
    const own = parts[xorb]!
    const at = own.reduce((sum, { length }) => sum + length, 0)
    const first = own.length
    for (let i = 0; i < bytes.length; i += CHUNK_BYTES) {
      own.push(packed(bytes.subarray(i, i + CHUNK_BYTES), own.length))
    }
    const count = own.length - first
    const size = own.slice(first).reduce((sum, { length }) => sum + length, 0)
    const run = { xorb, first, count, length: bytes.length, at, bytes: size }
    known.set(sha('sha256', bytes), run)
    runs.push(run)
  }
  return { xorbs: parts.map((own) => Buffer.concat(own)), runs }
}

/** Of which chunks the bytes of a file from an offset on consist, and where they are. */
export function reconstruction (
  bytes: Buffer, { sha256, url, from }: { sha256: string, url: string, from: number }
): object {
  const runs = [...xorbsOf(bytes).runs]
  const hashOf = ({ xorb }: Run): string => `${sha256}${xorb}`
  let skipped = 0
  while (runs.length > 1 && skipped + runs[0]!.length <= from) skipped += runs.shift()!.length
  const xorbs: Record<string, object[]> = {}
  for (const run of new Set(runs)) {
    const [chunks, at] = [{ start: run.first, end: run.first + run.count },
      { start: run.at, end: run.at + run.bytes - 1 }]
    const list = xorbs[hashOf(run)] ??= []
    list.push({ url: `${url}${run.xorb}`, ranges: [{ chunks, bytes: at }] })
  }
  return {
    offset_into_first_range: from - skipped,
    terms: runs.map((run) => ({
      hash: hashOf(run), unpacked_length: run.length,
      range: { start: run.first, end: run.first + run.count }
    })),
    xorbs
  }
}
