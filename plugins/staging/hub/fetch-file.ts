import type { Clock } from '../../../kernel/index.js'
import type { ManifestFile } from '../types.js'
import { delay } from '../../../kernel/index.js'
import { backoffMs } from './backoff.js'
import { HubError } from './errors.js'
import { LONG_WAIT_MS } from './patience.js'
import { PartialFile } from './partial-file.js'
import type { Tally } from './tally.js'
import type { HubClient, HubFile, HubSelection } from './types.js'

/** How often the bytes may be wrong before a file is given up. */
const MOST_WRONG = 3
/** How often a file may begin anew because the hub sends only all of it, before it is given up. */
const MOST_RESTARTS = 3
/** A connection that brought this much was no failure in a row. */
const GOOD_BYTES = 1024 * 1024

/** What all files of one download share. */
export interface Job {
  client: HubClient
  selection: HubSelection
  folder: string
  clock: Clock
  random: () => number
  /** Failed tries in a row before a file is given up. */
  retries: number
  signal: AbortSignal
  tally: Tally
  /** Awaited after new bytes went to the disk; throws to end the download. */
  wrote: (bytes: number) => Promise<void>
}

/**
 * Brings one file to the folder, going on from what is there, and checks its hash. Throws HubError once
 * the failure is none that passes, or came too often.
 */
export async function fetchFile (job: Job, file: HubFile): Promise<ManifestFile> {
  const partial = await PartialFile.open(job.folder, file, job.signal)
  try {
    const patience = new Patience(job, file)
    for (;;) {
      const before = partial.length
      try {
        return await complete(job, file, partial)
      } catch (error) {
        const waitMs = patience.after(error, partial.length - before)
        if (patience.startOver) await partial.restart()
        await delay(job.clock, waitMs, job.signal)
      }
    }
  } finally {
    await partial.close()
  }
}

/** One try: what is missing of a file, and its hash. */
async function complete (job: Job, file: HubFile, partial: PartialFile): Promise<ManifestFile> {
  job.tally.has(file.path, partial.length)
  if (partial.length < file.size) {
    const { client, selection, signal } = job
    const { stream } = await client.open(selection, file, { start: partial.length, signal })
    try {
      for await (const bytes of stream) {
        await note(job, file, partial, await partial.append(bytes))
      }
    } finally {
      // Also what came before a connection broke is worth keeping.
      await note(job, file, partial, await partial.flush())
    }
  }
  const { sha256, chunkSha256, right } = partial.hashes()
  if (!right) throw new HubError('hash', `${file.path}: the bytes are not those the hub names (wrong hash)`)
  job.tally.finished()
  return { path: file.path, size: file.size, sha256, chunkSha256 }
}

async function note (job: Job, file: HubFile, partial: PartialFile, wrote: number): Promise<void> {
  if (wrote === 0) return
  job.tally.has(file.path, partial.length)
  await job.wrote(wrote)
}

/** Decides whether a failed file is tried again, and when. */
class Patience {
  /** Whether what is on disk is of no use for the next try. */
  startOver = false
  readonly #job: Job
  readonly #file: HubFile
  #failures = 0
  #wrong = 0
  #restarts = 0

  constructor (job: Job, file: HubFile) {
    this.#job = job
    this.#file = file
  }

  /** Milliseconds until the next try, after one that brought `gained` bytes. Throws when there is none. */
  after (error: unknown, gained: number): number {
    if (!(error instanceof HubError)) throw error
    const { retries, random } = this.#job
    this.#failures = gained >= GOOD_BYTES && error.reason !== 'hash' ? 1 : this.#failures + 1
    if (error.reason === 'hash' && ++this.#wrong >= MOST_WRONG) {
      throw new HubError('hash', `${this.#file.path}: ${MOST_WRONG} times the bytes were not those the hub ` +
        'names; the file is broken there, or something changes it on the way')
    }
    // What is thrown away is no progress, however much of it came.
    if (error.reason === 'no_range' && ++this.#restarts >= MOST_RESTARTS) {
      throw new HubError('no_range', `${this.#file.path}: ${MOST_RESTARTS} times the download broke ` +
        'off and the server would only send the whole file; try another mirror (model_store.hub.url), ' +
        'or pull a folder')
    }
    if (error.reason !== 'hash' && (!error.retryable || this.#failures > retries)) throw error
    // Others may use the disk meanwhile: whoever holds its queue waits outside of it (`inTurn`).
    if ((error.retryAfterMs ?? 0) > LONG_WAIT_MS) throw error
    this.startOver = error.reason === 'hash' || error.reason === 'no_range'
    return Math.max(error.retryAfterMs ?? 0, backoffMs(this.#failures, random))
  }
}
