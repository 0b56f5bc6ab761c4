import { appendFile, rename, stat } from 'node:fs/promises'

/** Text waiting for a slow disk; beyond it lines are dropped, so that memory stays bounded. */
const MAX_PENDING = 512 * 1024

/**
 * A log file that never grows beyond its bound: when half of it is full, it becomes `<path>.1` and a new
 * one begins. Writing never fails the caller; lines that cannot be written are counted in `lost`.
 */
export class RingFile {
  readonly #path: string
  readonly #halfBytes: number
  #pending: string[] = []
  #pendingBytes = 0
  #written = -1
  #busy: Promise<void> | null = null
  lost = 0

  constructor (path: string, maxBytes: number) {
    this.#path = path
    this.#halfBytes = Math.max(1, Math.floor(maxBytes / 2))
  }

  line (text: string): void {
    if (this.#pendingBytes > MAX_PENDING) {
      this.lost += 1
      return
    }
    this.#pending.push(`${text}\n`)
    this.#pendingBytes += text.length + 1
    this.#busy ??= this.#writeAll()
  }

  /** Resolves when everything given so far is in the file. */
  async flushed (): Promise<void> {
    while (this.#busy !== null) await this.#busy
  }

  async #writeAll (): Promise<void> {
    while (this.#pending.length > 0) {
      const lines = this.#pending
      this.#pending = []
      this.#pendingBytes = 0
      try {
        await this.#write(Buffer.from(lines.join('')))
      } catch {
        this.lost += lines.length
      }
    }
    this.#busy = null
  }

  async #write (bytes: Buffer): Promise<void> {
    if (this.#written < 0) this.#written = await sizeOf(this.#path)
    if (this.#written > 0 && this.#written + bytes.length > this.#halfBytes) {
      await rename(this.#path, `${this.#path}.1`)
      this.#written = 0
    }
    await appendFile(this.#path, bytes, { mode: 0o600 })
    this.#written += bytes.length
  }
}

async function sizeOf (path: string): Promise<number> {
  return await stat(path).then((found) => found.size, () => 0)
}
