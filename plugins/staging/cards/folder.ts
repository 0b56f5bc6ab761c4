/** The files of a model whose card is looked for. */
import { join } from 'node:path'
import { readGguf, type GgufHeader } from './gguf.js'
import { operatorProblem, type OnnxHeader } from '../../onnx/service.js'
import { besides, readOnnxHeader } from './onnx-facts.js'
import { CardError, readText, withReader } from './reader.js'

export interface FolderFile { path: string, size: number, sha256?: string }

/** A folder and its files by path. Only text, ONNX and GGUF files are ever opened. */
export class Folder {
  readonly files: readonly FolderFile[]
  readonly #root: string
  readonly #byPath: ReadonlyMap<string, FolderFile>

  constructor (root: string, files: readonly FolderFile[]) {
    this.#root = root
    this.files = files
    this.#byPath = new Map(files.map((file) => [file.path, file]))
  }

  has (path: string): boolean { return this.#byPath.has(path) }

  /** Bytes of a file; 0 for none. */
  size (path: string): number { return this.#byPath.get(path)?.size ?? 0 }

  /** Paths that match, in the order of the files. */
  matching (pattern: RegExp): string[] {
    return this.files.map((file) => file.path).filter((path) => pattern.test(path))
  }

  /** @throws CardError */
  async text (path: string, limit?: number): Promise<string> {
    return await readText(join(this.#root, path), limit)
  }

  /** A JSON object; undefined when there is no such file. @throws CardError when it is something else */
  async json (path: string): Promise<Json | undefined> {
    if (!this.has(path)) return undefined
    const content = await this.text(path)
    let value: unknown
    try {
      value = JSON.parse(content)
    } catch (error) {
      throw new CardError(`${path} is not JSON: ${(error as Error).message.slice(0, 200)}`, { cause: error })
    }
    if (!isObject(value)) throw new CardError(`${path} is not a JSON object`)
    return value
  }

  /** The first 4 bytes of a file and up to `bytes` of its end, which begins at `from`. @throws CardError */
  async ends (path: string, bytes: number): Promise<{ head: Buffer, tail: Buffer, from: number }> {
    return await withReader(join(this.#root, path), async (r) => {
      const head = await r.bytes(Math.min(4, r.size))
      const from = Math.max(0, r.size - bytes)
      r.seek(from)
      return { head, tail: await r.bytes(r.size - from), from }
    })
  }

  /**
   * @throws CardError, also when external weights are missing or shorter than the graph needs, and for
   * operators that nobody here knows
   */
  async onnx (path: string): Promise<OnnxHeader> {
    const header = await readOnnxHeader(join(this.#root, path))
    for (const [name, bytes] of header.externalBytes) {
      const beside = besides(path, name)
      if (!this.has(beside)) {
        throw new CardError(`${path} has weights in ${beside}, which is not among the files`)
      }
      const size = this.size(beside)
      if (size < bytes) throw new CardError(`${path} needs ${bytes} bytes of ${beside}, which has ${size}`)
    }
    const problem = operatorProblem(header)
    if (problem !== null) throw new CardError(`${path} cannot be run here: ${problem}`)
    return header
  }

  /** @throws CardError */
  async gguf (path: string): Promise<GgufHeader> { return await readGguf(join(this.#root, path)) }
}

// Foreign JSON, read defensively: a field of another type is as if it were not there.

export type Json = Record<string, unknown>

/** Whether a value is an object that is no list. */
export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const own = (json: Json, key: string): unknown => Object.hasOwn(json, key) ? json[key] : undefined

/** The object under a key; an empty one where there is none. */
export function child (json: Json, key: string): Json {
  const value = own(json, key)
  return isObject(value) ? value : {}
}

/** The text under the first key that has one of 1 to `limit` characters. */
export function text (json: Json, keys: string | readonly string[], limit = 200): string | undefined {
  return [keys].flat().map((key) => own(json, key)).find((value): value is string =>
    typeof value === 'string' && value.length > 0 && value.length <= limit)
}

/** The whole number from 1 to 2^31 - 1 under the first key that has one. */
export function count (json: Json, keys: string | readonly string[]): number | undefined {
  return [keys].flat().map((key) => own(json, key)).find((value): value is number => isCount(value))
}

/** Whether a value is a whole number from 1 to 2^31 - 1: sizes beyond that are nonsense. */
export const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) < 2 ** 31
