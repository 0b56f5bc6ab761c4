import { join } from 'node:path'
import { CardError, readText, withReader } from '../../runners/cards/reader.js'
import { filePathProblem } from '../files/names.js'
import { ggufCompanions, ggufModels, type GgufModel } from './gguf-parts.js'

export interface FolderFile { path: string, size: number, sha256?: string }

/** A folder and its files by path. Opens only text, ONNX and GGUF files. */
export class Folder {
  readonly files: readonly FolderFile[]
  readonly #root: string
  readonly #byPath: ReadonlyMap<string, FolderFile>

  constructor (root: string, files: readonly FolderFile[]) {
    this.#root = root
    this.files = files
    this.#byPath = new Map(files.map((file) => [file.path, file]))
  }

  gguf (): { models: GgufModel<FolderFile>[], companions: Map<FolderFile, string> } {
    return { models: ggufModels(this.files), companions: ggufCompanions(this.files) }
  }

  readonly pathProblem = filePathProblem

  has (path: string): boolean { return this.#byPath.has(path) }

  /** Size of a file in bytes; 0 if there is no such file. */
  size (path: string): number { return this.#byPath.get(path)?.size ?? 0 }

  matching (pattern: RegExp): string[] {
    return this.files.map((file) => file.path).filter((path) => pattern.test(path))
  }

  async text (path: string, limit?: number): Promise<string> {
    return await readText(join(this.#root, path), limit)
  }

  /** A JSON object; undefined if there is no such file. @throws CardError for any other content */
  async json (path: string): Promise<Json | undefined> {
    if (!this.has(path)) return undefined
    const content = await this.text(path)
    let value: unknown
    try {
      value = JSON.parse(content)
    } catch (error) {
      throw new CardError(`${path} is not JSON: ${(error as Error).message.slice(0, 200)}`, { cause: error })
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new CardError(`${path} is not a JSON object`)
    }
    return value as Json
  }

  /** Reads a file's first 4 bytes and its last `bytes` bytes, which start at `from`. @throws CardError */
  async ends (path: string, bytes: number): Promise<{ head: Buffer, tail: Buffer, from: number }> {
    return await withReader(join(this.#root, path), async (r) => {
      const head = await r.bytes(Math.min(4, r.size))
      const from = Math.max(0, r.size - bytes)
      r.seek(from)
      return { head, tail: await r.bytes(r.size - from), from }
    })
  }

  at (path: string): string { return join(this.#root, path) }
}

export type Json = Record<string, unknown>
