import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { CHUNK_BYTES, type CopyRecord, type ManifestFile, type ModelManifest } from '../types.js'
import type { ModelCard } from '../../../kernel/index.js'

export type Files = Record<string, string>

export const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex')

export function scratch (t: { teardown (fn: () => void): void }): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'svc-files-')))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  return folder
}

export function write (folder: string, files: Files): void {
  mkdirSync(folder, { recursive: true })
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
}

/** Manifest entry for a file of at most one chunk. */
export function entryOf (path: string, text: string): ManifestFile {
  const hash = sha256(text)
  return { path, size: Buffer.byteLength(text), sha256: hash, chunkSha256: text === '' ? [] : [hash] }
}

export function manifestOf (modelId: string, files: Files): ModelManifest {
  const entries = Object.entries(files).map(([path, text]) => entryOf(path, text))
    .sort((a, b) => a.path < b.path ? -1 : 1)
  const totalBytes = entries.reduce((sum, { size }) => sum + size, 0)
  return { modelId, revision: 'main', totalBytes, chunkBytes: CHUNK_BYTES, files: entries }
}

export function recordOf (modelId: string, files: Files): CopyRecord {
  const card = { modelId, title: 'a test' } as ModelCard
  const manifest = manifestOf(modelId, files)
  return { manifest, card, source: 'file', publishedAt: '2026-01-01T00:00:00.000Z' }
}
