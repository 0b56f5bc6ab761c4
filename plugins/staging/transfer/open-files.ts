import { openInside } from '../files/index.js'
import type { FileHandle } from 'node:fs/promises'

interface Entry { file: Promise<FileHandle>, users: number }

/** The files of an incoming folder, each open once while any of its chunks is in flight. */
export class OpenFiles {
  readonly #folder: string
  readonly #open = new Map<string, Entry>()

  constructor (folder: string) { this.#folder = folder }

  /** Lends a file, made when absent, to `work`. Throws the error of opening it, or what `work` throws. */
  async use<T> (path: string, work: (file: FileHandle) => Promise<T>): Promise<T> {
    let entry = this.#open.get(path)
    if (entry === undefined) {
      entry = { file: openInside(this.#folder, path, 'update'), users: 0 }
      this.#open.set(path, entry)
    }
    entry.users++
    try {
      return await work(await entry.file)
    } finally {
      if (--entry.users === 0) {
        this.#open.delete(path)
        await entry.file.then(async (file) => { await file.close() }, () => {})
      }
    }
  }
}
