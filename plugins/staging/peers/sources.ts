import type { Caller, Cluster, MemberResponse } from '../../../kernel/index.js'
import type { ChunkSource, ByteRange } from '../transfer/types.js'
import type { LocalFile } from '../files/bring.js'
import { openInside, readPieces } from '../files/open.js'
import { fileOf } from '../files/record.js'
import type { ModelManifest } from '../types.js'

export const NODE_CALLER: Caller = { id: 'node', mode: 'direct', authorities: new Set(['read']) }

const HEAD_MS = 15_000

export interface LanSourceParts {
  cluster: Cluster, modelId: string, installId: string, kind: 'store' | 'peer'
  /** Digest that selects the version, since a node may have several. */
  digest: string
  has (chunk: number): boolean
  /** Manifest with the SHA-256 of each file, which the ETag of a response must equal. */
  manifest: ModelManifest
}

export function lanSource (parts: LanSourceParts): ChunkSource {
  const { cluster, modelId, installId, kind, digest, has, manifest } = parts
  const from = kind === 'store' ? 'store' : 'self'
  return {
    id: installId, kind, has,
    async read (path, { start, end }, signal) {
      const etag = `"${fileOf(manifest, path)?.sha256 ?? ''}"`
      const url = `${fileUrl(modelId, path)}?from=${from}&digest=${digest}`
      const response = await cluster.request(installId, {
        method: 'GET', path: url, caller: NODE_CALLER, signal, timeoutMs: HEAD_MS,
        headers: { range: `bytes=${start}-${end - 1}`, 'if-range': etag }
      })
      try {
        check(response, { start, end }, etag)
      } catch (error) {
        response.body.destroy()
        throw error
      }
      return response.body as AsyncIterable<Uint8Array>
    }
  }
}

export function modelPath (modelId: string): string {
  return modelId.split('/').map(encodeURIComponent).join('/')
}

export function modelUrl (modelId: string): string { return `/store/models/${modelPath(modelId)}` }

export function fileUrl (modelId: string, path: string): string {
  return `${modelUrl(modelId)}/files/${path.split('/').map(encodeURIComponent).join('/')}`
}

function check ({ status, headers }: MemberResponse, { start, end }: ByteRange, etag: string): void {
  if (status !== 206) throw new Error(`it responded with ${status} instead of 206`)
  if (headers['etag'] !== etag) throw new Error('it has another version of the file')
  if (headers['content-encoding'] !== undefined) throw new Error('it sent an encoded body')
  const range = headers['content-range'] ?? ''
  if (!range.startsWith(`bytes ${start}-${end - 1}/`)) throw new Error(`it sent "${range}" of the file`)
}

/** A chunk source that reads local files; `find` locates the file for a manifest path. */
export function diskSource (find: (path: string) => Pick<LocalFile, 'root' | 'inner'>): ChunkSource {
  return {
    id: 'disk', kind: 'store', has: () => true,
    read: async (path, range, signal) => readFrom(find(path), range, signal)
  }
}

export const folderSource = (root: string): ChunkSource => diskSource((inner) => ({ root, inner }))

async function * readFrom (
  { root, inner }: Pick<LocalFile, 'root' | 'inner'>, range: ByteRange, signal: AbortSignal
): AsyncGenerator<Uint8Array> {
  const handle = await openInside(root, inner, 'read')
  try {
    for await (const piece of readPieces(handle, range)) {
      signal.throwIfAborted()
      yield piece
    }
  } finally { await handle.close() }
}
