import { createReadStream, createWriteStream } from 'node:fs'
import { readdir, rename, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { archiveName, readName, tooMany } from './names.js'
import { outlive, removeSegment } from './segment.js'
import { delay } from '../../../kernel/index.js'
import type { Clock } from '../../../kernel/index.js'
import type { StoreLimits } from './limits.js'
import type { NumberedFile, StoreFile } from './names.js'

export interface ArchiveOptions {
  readonly folder: string
  readonly clock: Clock
  readonly limits: StoreLimits
  readonly signal: AbortSignal
  /** A segment could not be packed, and is gone. */
  readonly lost: (name: string, error: string) => void
}

/** Packs what is to be packed, once at a time; asked while at it, it looks again. */
export class Archiver {
  /** Bytes of all archives. */
  bytes = 0
  readonly #options: ArchiveOptions
  #running: Promise<void> | null = null
  #again = false

  constructor (options: ArchiveOptions) { this.#options = options }

  start (): void {
    this.#again = true
    this.#running ??= this.#run().finally(() => { this.#running = null })
  }

  /** Resolves when it is at rest. */
  async settled (): Promise<void> { await this.#running }

  async #run (): Promise<void> {
    while (this.#again && !this.#options.signal.aborted) {
      this.#again = false
      try {
        this.bytes = await archiveOld(this.#options)
      } catch (error) {
        this.#options.lost(this.#options.folder, (error as Error).message)
      }
    }
  }
}

/**
 * Packs every segment that is no longer read, a piece at a time and outside the event loop, and removes the
 * oldest archives beyond the limits. A segment that cannot be packed, for want of room as a rule, is removed
 * without: what is kept must not fill the disk. Ends early, leaving the rest for the next time, when the
 * signal aborts. Returns the bytes of all archives. Rejects when the folder cannot be read.
 */
async function archiveOld (options: ArchiveOptions): Promise<number> {
  const { folder, signal, limits, lost } = options
  for (const { name, first } of await filesOf(folder, 'old')) {
    if (signal.aborted) break
    try {
      await pack(join(folder, name), join(folder, archiveName(first)), options)
    } catch (error) {
      if (signal.aborted) break
      lost(name, (error as Error).message)
    }
    await removeSegment(join(folder, name))
    await prune(folder, limits)
  }
  return (await archivesOf(folder)).reduce((sum, { bytes }) => sum + bytes, 0)
}

async function archivesOf (folder: string): Promise<{ name: string, first: number, bytes: number }[]> {
  return await Promise.all((await filesOf(folder, 'archive')).map(async (file) =>
    ({ ...file, bytes: (await stat(join(folder, file.name))).size })))
}

async function prune (folder: string, limits: StoreLimits): Promise<void> {
  const archives = await archivesOf(folder)
  for (const { name } of tooMany(archives, limits.archiveFiles, limits.archiveBytes)) {
    await unlink(join(folder, name))
  }
}

async function filesOf (
  folder: string, type: 'old' | 'archive'
): Promise<{ name: string, first: number }[]> {
  const isWanted = (file: StoreFile | null): file is NumberedFile =>
    file?.type === type
  return (await readdir(folder)).map(readName).filter(isWanted).sort((a, b) => a.first - b.first)
}

async function pack (from: string, to: string, options: ArchiveOptions): Promise<void> {
  const temporary = `${to}.tmp`
  try {
    await pipeline(createReadStream(from), paced(options), createGzip({ level: 1 }),
      createWriteStream(temporary, { mode: 0o600 }), { signal: options.signal })
    await outlive(temporary)
    await rename(temporary, to)
  } catch (error) {
    await unlink(temporary).catch(() => {})
    throw error
  }
}

/** Lets bytes pass no faster than the limit says, so that the disk has time for others. */
function paced ({ clock, limits, signal }: ArchiveOptions): Transform {
  const began = clock.mono()
  let bytes = 0
  return new Transform({
    transform (chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      const wait = began + bytes / limits.archiveRate * 1000 - clock.mono()
      if (wait < 10) done(null, chunk)
      else delay(clock, wait, signal).then(() => { done(null, chunk) }, done)
    }
  })
}
