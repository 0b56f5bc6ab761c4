import { openOwn, putOwn } from '../files/index.js'
import type { FileHandle } from 'node:fs/promises'

/** The journal's name in an incoming folder. */
export const JOURNAL = '.svc-journal'
const HEADER = 'svc-journal 1 '

/** What a journal says is on disk, to be hashed again: whole chunks, and the first bytes of others. */
export interface JournalState { digest: string, complete: Set<number>, partial: Map<number, number> }

/** Takes one line of a journal into its state. A line that is none (torn by a crash) says nothing. Pure. */
export function readLine (state: JournalState, line: string): void {
  const [, word, chunk, bytes] = /^([cp]) (\d{1,9})(?: (\d{1,9}))?$/.exec(line) ?? []
  if (word === undefined) return
  const i = Number(chunk)
  if (word === 'p' && bytes !== undefined) {
    state.complete.delete(i)
    state.partial.set(i, Number(bytes))
  } else if (word === 'c' && bytes === undefined) {
    state.partial.delete(i)
    state.complete.add(i)
  }
}

/** Reads a folder's journal; undefined when there is none, or none of ours. */
export async function readJournal (folder: string): Promise<JournalState | undefined> {
  const file = await openOwn(folder, JOURNAL, 'read').catch(() => undefined)
  if (file === undefined) return undefined
  let state: JournalState | undefined
  for await (const line of file.readLines()) {
    if (state !== undefined) readLine(state, line)
    else if (line.startsWith(HEADER)) {
      state = { digest: line.slice(HEADER.length), complete: new Set(), partial: new Map() }
    } else break
  }
  await file.close().catch(() => {})
  return state
}

/**
 * Notes what is on disk, so that a killed transfer goes on where it was. Lines are gathered while a write
 * runs.
 */
export class Journal {
  readonly #file: FileHandle
  readonly #failed: (error: unknown) => void
  #lines: string[] = []
  #writing: Promise<void> | undefined

  private constructor (file: FileHandle, failed: (error: unknown) => void) {
    this.#file = file
    this.#failed = failed
  }

  /**
   * Begins a new journal with what is there already, in place of the old one. Throws the file system's error.
   * `failed` is told when a later write fails.
   */
  static async begin (
    folder: string, state: JournalState, failed: (error: unknown) => void
  ): Promise<Journal> {
    const complete = [...state.complete].map((i) => `c ${i}\n`)
    const partial = [...state.partial].map(([i, bytes]) => `p ${i} ${bytes}\n`)
    const file = await putOwn(folder, JOURNAL, async (file) => {
      await file.writeFile(`${HEADER}${state.digest}\n${complete.join('')}${partial.join('')}`)
      return file
    })
    return new Journal(file, failed)
  }

  /** A chunk is whole and right. */
  complete (chunk: number): void { this.#note(`c ${chunk}\n`) }

  /** The first `bytes` of a chunk are on disk. */
  partial (chunk: number, bytes: number): void { this.#note(`p ${chunk} ${bytes}\n`) }

  /** Writes out what is noted and closes the file. */
  async close (): Promise<void> {
    await this.#writing
    await this.#file.close()
  }

  #note (line: string): void {
    this.#lines.push(line)
    this.#writing ??= this.#write()
  }

  async #write (): Promise<void> {
    try {
      while (this.#lines.length > 0) {
        const text = this.#lines.join('')
        this.#lines = []
        await this.#file.writeFile(text)
      }
    } catch (error) {
      this.#failed(error)
    } finally {
      this.#writing = undefined
    }
  }
}
