import type { Logger } from '../../../kernel/index.js'
import { volumeOf } from '../files/folders.js'
import type { ModelRoot } from '../files/root.js'
import { findFiles } from '../files/walk.js'
import { requireFit } from './plans.js'
import { KeyedLock } from '../files/queues.js'
import type { Job } from '../transfer/job.js'
import { readJournal } from '../transfer/journal.js'
import type { FetchOptions } from '../transfer/types.js'

/** Free bytes below which the fetched bytes of a failed transfer are discarded. */
const FLOOR_BYTES = 2 * 1024 ** 3

export interface Admission {
  root: ModelRoot, job: Job, totalBytes: number
  /** Digest of the content, if known, since bytes of another version do not count as fetched. */
  digest?: string
  /** Makes room for a transfer; throws if the bytes do not fit. By default nothing is evicted. */
  makeRoom?: (bytes: number) => Promise<void>
}

export type Admitted = Required<Pick<FetchOptions, 'folder' | 'signal' | 'onProgress' | 'space'>>

/** Runs the transfers to each disk one at a time and checks the free disk space before each of them. */
export class FreeSpace {
  readonly headroomBytes: number
  readonly #queues = new KeyedLock()

  constructor (headroomBytes: number) { this.headroomBytes = headroomBytes }

  /** Runs a transfer into the root's incoming folder when its turn comes, if there is enough free space. */
  async admit<T> (
    { root, job, totalBytes, digest, makeRoom }: Admission,
    run: (into: Admitted) => Promise<T>
  ): Promise<T> {
    const { modelId, signal } = job
    const space = makeRoom ?? (async (bytes) => { await this.check(root, bytes) })
    root.requireUsable()
    job.sized(totalBytes)
    return await this.alone(root.root, signal, async () => {
      await space(totalBytes - await this.fetched(root.incoming(modelId), digest))
      const folder = await root.begin(modelId)
      signal.throwIfAborted()
      job.begin()
      return await run({ folder, signal, space, onProgress: (progress) => { job.moved(progress) } })
    })
  }

  async alone<T> (path: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    const { device } = await volumeOf(path)
    return await this.#queues.run(device, work, signal)
  }

  /** Throws `no_safe_fit` if these bytes would use the headroom. Evicts nothing. */
  async check (
    { root, setting }: Pick<ModelRoot, 'root' | 'setting'>, additionalBytes: number
  ): Promise<void> {
    const { freeBytes } = await volumeOf(root)
    const { headroomBytes } = this
    requireFit({ additionalBytes, freeBytes, headroomBytes, setting, idle: [] })
  }

  /** Bytes of the wanted version that are already on disk, without holes; 0 if another version is there. */
  async fetched (folder: string, digest?: string): Promise<number> {
    if (digest !== undefined && (await readJournal(folder))?.digest !== digest) return 0
    return (await findFiles(folder)).reduce((sum, { diskBytes }) => sum + diskBytes, 0)
  }

  /** After a failure, keeps the fetched bytes for the next attempt unless the disk is nearly full. */
  async discardIfFull (root: ModelRoot, modelId: string, log: Logger): Promise<void> {
    try {
      const { freeBytes } = await volumeOf(root.root)
      if (freeBytes < FLOOR_BYTES) await root.discard(modelId)
    } catch (err) {
      log.warn({ err, modelId }, 'the remains of a transfer could not be removed')
    }
  }
}
