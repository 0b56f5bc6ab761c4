import { join } from 'node:path'
import { readVersioned, writeVersioned, type Clock, type Logger } from '../../kernel/index.js'

interface Stored { used: Record<string, string>, inTouch: string | null }

const FORMAT = 1

export interface NotesOptions { home: string, clock: Pick<Clock, 'now'>, log: Logger }

/** Each device's last day of use, and the last contact with the cluster; a crash may lose changes. */
export class DeviceNotes {
  readonly #options: NotesOptions
  readonly #path: string
  readonly #used: Map<string, string>
  #inTouch: string | null
  #dirty = false

  /** Throws HomeError for a file that is broken or from a later version of svc. */
  constructor (options: NotesOptions) {
    this.#options = options
    this.#path = join(options.home, 'state', 'device-notes.json')
    const { used = {}, inTouch = null } = readVersioned<Partial<Stored>>(this.#path, FORMAT) ?? {}
    this.#used = new Map(Object.entries(used))
    this.#inTouch = inTouch
  }

  /** Wall time of the last contact with the cluster, in ms; null if it was never recorded. */
  get inTouchMs (): number | null { return this.#inTouch === null ? null : Date.parse(this.#inTouch) }

  usedDay (deviceId: string): string | null { return this.#used.get(deviceId) ?? null }

  /** Records the day of use; true if it changed. */
  noteUse (deviceId: string, day: string): boolean {
    if (this.#used.get(deviceId) === day) return false
    this.#used.set(deviceId, day)
    this.#dirty = true
    return true
  }

  noteTouch (): void {
    this.#inTouch = new Date(this.#options.clock.now()).toISOString()
    this.#dirty = true
  }

  forget (deviceId: string): void { if (this.#used.delete(deviceId)) this.#dirty = true }

  /** Writes the file if anything changed since the last write. */
  write (): void {
    if (!this.#dirty) return
    try {
      const used = Object.fromEntries(this.#used)
      writeVersioned(this.#path, FORMAT, { used, inTouch: this.#inTouch } satisfies Stored)
      this.#dirty = false
    } catch (err) {
      this.#options.log.error({ err }, 'the notes on devices could not be written')
    }
  }
}
