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
  /** A segment could not be packed, or not in time, and is gone. */
  readonly lost: (name: string, error: string) => void
}

/** Packs what is to be packed, once at a time; asked while at it, it looks again. */
export class Archiver {
  /** Bytes of all archives, and of what waits to be packed. */
  bytes = 0
  readonly #options: ArchiveOptions
  #running: Promise<void> | null = null
  #again = false
  #packing: string | null = null
  #shedding: Promise<unknown> = Promise.resolve()

  constructor (options: ArchiveOptions) { this.#options = options }

  start (): void {
    this.#again = true
    if (this.#running === null) this.#running = this.#run().finally(() => { this.#running = null })
    else void this.#shed()
  }

  /** Resolves when it is at rest. */
  async settled (): Promise<void> {
    await this.#running
    await this.#shedding
  }

  async #run (): Promise<void> {
    while (this.#again && !this.#options.signal.aborted) {
      this.#again = false
      await this.#archiveOld().catch((error: unknown) => { this.#failed(error) })
    }
  }

  #failed (error: unknown): void { this.#options.lost(this.#options.folder, (error as Error).message) }

  /**
   * Packs every segment that is no longer read, a piece at a time and outside the event loop, and removes
   * the oldest archives beyond the limits. A segment that cannot be packed, for want of room as a rule, is
   * removed without: what is kept must not fill the disk. Ends early, leaving the rest for the next time,
   * when the signal aborts. Rejects when the folder cannot be read or a file in it not be removed.
   */
  async #archiveOld (): Promise<void> {
    const { folder, signal, limits, lost } = this.#options
    for (;;) {
      this.#packing = null
      const oldest = await this.#shed({ claim: true })
      if (oldest === undefined || signal.aborted) return
      try {
        await pack(join(folder, oldest.name), join(folder, archiveName(oldest.first)), this.#options)
      } catch (error) {
        if (signal.aborted) return
        lost(oldest.name, (error as Error).message)
      }
      await removeSegment(join(folder, oldest.name))
      const archives = await filesOf(folder, 'archive')
      for (const { name } of tooMany(archives, limits.archiveFiles, limits.archiveBytes)) {
        await unlink(join(folder, name))
      }
    }
  }

  /**
   * Events may come faster than they are packed: what waits beyond the limit goes, the oldest first, but not
   * what is being packed. Once at a time. Resolves with the oldest that is left; `claim`: it is packed now.
   */
  async #shed ({ claim = false } = {}): Promise<Sized | undefined> {
    const turn = this.#shedding.then(async () => await this.#shedNow(claim))
    this.#shedding = turn
    return await turn
  }

  async #shedNow (claim: boolean): Promise<Sized | undefined> {
    const { folder, limits, lost } = this.#options
    try {
      const old = await filesOf(folder, 'old')
      for (const { name } of tooMany(old, Infinity, limits.waitingBytes)) {
        if (name === this.#packing) continue
        await removeSegment(join(folder, name))
        lost(name, `more than ${limits.waitingBytes} bytes wait to be packed`)
      }
      const left = await filesOf(folder, 'old')
      const kept = [...left, ...await filesOf(folder, 'archive')]
      this.bytes = kept.reduce((sum, { bytes }) => sum + bytes, 0)
      if (claim) this.#packing = left[0]?.name ?? null
      return left[0]
    } catch (error) {
      this.#failed(error)
      return undefined
    }
  }
}

interface Sized { readonly name: string, readonly first: number, readonly bytes: number }

/** The files of a type with their sizes, oldest first. */
async function filesOf (folder: string, type: 'old' | 'archive'): Promise<Sized[]> {
  const isWanted = (file: StoreFile | null): file is NumberedFile => file?.type === type
  const files = (await readdir(folder)).map(readName).filter(isWanted).sort((a, b) => a.first - b.first)
  return await Promise.all(files.map(async ({ name, first }) =>
    ({ name, first, bytes: await stat(join(folder, name)).then(({ size }) => size, () => 0) })))
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
