import { readdir, lstat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '../../../kernel/index.js'
import { volumeOf } from '../files/folders.js'
import type { ModelRoot } from '../files/root.js'
import { NoSafeFit, planCapacity } from './plans.js'
import { SerialQueue } from '../files/queues.js'
import { readJournal } from '../transfer/resume.js'

/** A transfer that failed keeps what it fetched only while so much stays free, bytes. */
const FLOOR_BYTES = 2 * 1024 ** 3

/** The room on this node's disks: transfers to one disk go one after the other, each checked in its turn. */
export class Room {
  readonly headroomBytes: number
  /** One queue for each file system. */
  readonly #queues = new Map<number, SerialQueue>()

  /** `headroomBytes`: what must stay free after a transfer. */
  constructor (headroomBytes: number) { this.headroomBytes = headroomBytes }

  /** Runs a transfer when those before it on the same disk have ended. */
  async alone<T> (
    path: string, label: string, signal: AbortSignal | undefined, fn: () => Promise<T>
  ): Promise<T> {
    const { device } = await volumeOf(path)
    const queue = this.#queues.get(device) ?? new SerialQueue()
    this.#queues.set(device, queue)
    return await queue.run(label, fn, signal)
  }

  /** Throws NoSafeFit when so many more bytes would eat into the headroom. Evicts nothing. */
  async check (path: string, additionalBytes: number): Promise<void> {
    const { freeBytes } = await volumeOf(path)
    const plan = planCapacity({ additionalBytes, freeBytes, headroomBytes: this.headroomBytes, idle: [] })
    if (!plan.fits) throw new NoSafeFit(plan.sentence, plan.numbers)
  }

  /**
   * Bytes on the disk of a transfer that was broken off; files have holes, which do not count. With a digest
   * those of another version count as none: they may have to be fetched again.
   */
  async kept (folder: string, digest: string | null): Promise<number> {
    if (digest !== null && (await readJournal(folder))?.digest !== digest) return 0
    let sum = 0
    for (const entry of await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => [])) {
      if (!entry.isFile()) continue
      const { size, blocks } = await lstat(join(entry.parentPath, entry.name))
      sum += Math.min(size, blocks * 512)
    }
    return sum
  }

  /** After a failure: what was fetched stays for the next attempt, unless the disk is nearly full. */
  async letGo (root: ModelRoot, modelId: string, log: Logger): Promise<void> {
    try {
      const { freeBytes } = await volumeOf(root.root)
      if (freeBytes < FLOOR_BYTES) await root.discard(modelId)
    } catch (err) {
      log.warn({ err, modelId }, 'what is left of a transfer could not be removed')
    }
  }
}
