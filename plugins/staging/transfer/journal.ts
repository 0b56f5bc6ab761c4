import { unlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { keepOnly } from '../files/seal.js'
import { openInside, openSvcFile, parentOf, readPieces, replaceSvcFile } from '../files/open.js'
import { eachOf } from '../files/queues.js'
import { findFiles, type FoundFile } from '../files/walk.js'
import { beginWork, GATHER_BYTES, type Chunk, type ChunkTable, type Verifier, type Work } from './chunks.js'
import type { FileList } from './types.js'

export interface ResumedChunks { complete: Set<number>, begun: Work[] }

/** Which bytes `findKept` verifies: those in a journal, complete chunks, or each file's first bytes. */
export type ResumeEvidence = JournalState | 'whole chunks' | 'first bytes'

interface Search { folder: string, table: ChunkTable, claims: ResumeEvidence, kept: ResumedChunks }

/**
 * Removes files outside the manifest from the incoming folder, creates empty files, and verifies the bytes
 * that `claims` names: the chunks in a journal, all complete chunks or, if each file is one chunk, its first
 * bytes. Throws file system errors, or the signal's reason.
 */
export async function findKept (
  folder: string, files: FileList['files'], table: ChunkTable, claims: ResumeEvidence,
  signal: AbortSignal | undefined
): Promise<ResumedChunks> {
  await keepOnly(folder, new Set(files.map(({ path }) => path)))
  const found = new Map((await findFiles(folder)).map((file) => [file.path, file]))
  const kept: ResumedChunks = { complete: new Set(), begun: [] }
  const search = { folder, table, claims, kept }
  const wanted = files.filter(({ path, size }) => size === 0 || found.has(path))
  // Two files at a time, so that one is read while the other is hashed.
  await eachOf(wanted, 2, async (file) => {
    signal?.throwIfAborted()
    await checkKept(search, file, found.get(file.path), signal)
  })
  return kept
}

/** Verifies a file and cuts it to its size. Never writes to a file with other hard links; may unlink it. */
async function checkKept (
  { folder, table, claims, kept }: Search, file: FileList['files'][number],
  { size, links }: Pick<FoundFile, 'size' | 'links'> = { size: 0, links: 1 }, signal?: AbortSignal
): Promise<void> {
  const { first, count } = table.of(file.path)
  const shared = links > 1
  const handle = await openInside(folder, file.path, shared ? 'read' : 'update')
  try {
    if (size > file.size && !shared) await handle.truncate(file.size)
    for (let i = first; i < first + count; i++) {
      const chunk = table.at(i)
      if (chunk.start >= size) break
      const whole = chunk.end - chunk.start
      const claimed = claims === 'first bytes' ? Math.min(whole, size) : claimedOf(claims, i, whole)
      if (claimed === 0 || claimed > whole || chunk.start + claimed > size) continue
      const verifier = await hashed(handle, chunk, claimed, signal)
      if (claimed === whole) {
        if (verifier.right()) kept.complete.add(i)
      } else if (!shared) kept.begun.push(beginWork(i, chunk, { verifier, done: claimed }))
    }
  } finally { await handle.close() }
  const chunks = Array.from({ length: count }, (_, i) => first + i)
  if (!shared || (size === file.size && chunks.every((i) => kept.complete.has(i)))) return
  for (const i of chunks) kept.complete.delete(i)
  await parentOf(folder, file.path, false, async ({ path }, name) => { await unlink(join(path, name)) })
}

function claimedOf (claims: JournalState | 'whole chunks', chunk: number, whole: number): number {
  const claimed = claims === 'whole chunks' ? 'whole' : claims.chunks.get(chunk) ?? 0
  return claimed === 'whole' ? whole : claimed
}

/** Returns a verifier that has hashed the first bytes of a chunk. */
async function hashed (
  handle: FileHandle, chunk: Chunk, bytes: number, signal: AbortSignal | undefined
): Promise<Verifier> {
  const { start } = chunk
  const verifier = chunk.verifier()
  for await (const piece of readPieces(handle, { start, end: start + bytes }, GATHER_BYTES)) {
    signal?.throwIfAborted()
    verifier.update(piece)
  }
  return verifier
}

export const JOURNAL = '.svc-journal'
const HEADER = 'svc-journal 1 '

/** Unverified contents of a journal: for each chunk, `whole` or the number of first bytes on disk. */
export interface JournalState { digest: string, chunks: Map<number, 'whole' | number> }

/** Applies a journal line; ignores invalid lines, which a crash may leave. */
function readLine ({ chunks }: JournalState, line: string): void {
  const [, complete, partial, bytes] = /^(?:c (\d{1,9})|p (\d{1,9}) (\d{1,9}))$/.exec(line) ?? []
  if (complete !== undefined) chunks.set(Number(complete), 'whole')
  else if (partial !== undefined) chunks.set(Number(partial), Number(bytes))
}

/** The journal in a folder; undefined if missing or invalid. */
export async function readJournal (folder: string): Promise<JournalState | undefined> {
  const file = await openSvcFile(folder, JOURNAL, 'read').catch(() => undefined)
  if (file === undefined) return undefined
  let state: JournalState | undefined
  for await (const line of file.readLines()) {
    if (state !== undefined) readLine(state, line)
    else if (line.startsWith(HEADER)) {
      state = { digest: line.slice(HEADER.length), chunks: new Map() }
    } else break
  }
  await file.close().catch(() => {})
  return state
}

/** Records the bytes on disk, so that a killed transfer can resume. */
export class Journal {
  readonly #file: FileHandle
  readonly #failed: (error: unknown) => void
  #written: Promise<void> = Promise.resolve()

  private constructor (file: FileHandle, failed: (error: unknown) => void) {
    this.#file = file
    this.#failed = failed
  }

  /** Starts a new journal with the kept chunks. `failed` receives the error from a later write. */
  static async begin (
    folder: string, digest: string, { complete, begun }: ResumedChunks, failed: (error: unknown) => void
  ): Promise<Journal> {
    const whole = [...complete].map((chunk) => `c ${chunk}\n`)
    const partial = begun.map(({ number, done }) => `p ${number} ${done}\n`)
    const file = await replaceSvcFile(folder, JOURNAL, async (file) => {
      await file.writeFile(`${HEADER}${digest}\n${whole.join('')}${partial.join('')}`)
      return file
    })
    return new Journal(file, failed)
  }

  complete (chunk: number): void { this.#note(`c ${chunk}\n`) }

  partial (chunk: number, bytes: number): void { this.#note(`p ${chunk} ${bytes}\n`) }

  async close (): Promise<void> {
    await this.#written
    await this.#file.close()
  }

  #note (line: string): void {
    this.#written = this.#written.then(async () => { await this.#file.writeFile(line) }).catch(this.#failed)
  }
}
