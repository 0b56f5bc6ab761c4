/** What the head of a graph says about the files and sizes of a model. */
import { CardError, withReader } from '../cards/reader.js'
import { readHeader } from './header.js'
import { operatorProblem } from './operators.js'
import type { Folder } from '../../staging/service.js'
import type { OnnxHeader } from './header.js'
export type { OnnxHeader } from './header.js'

const FOUR_GIB = 4 * 2 ** 30
/** Endings of transformers.js, and what they mean. */
const SUFFIXES: ReadonlyArray<[RegExp, string]> = [
  [/[_-]q4f16$/, 'q4f16'], [/[_-]q2f16$/, 'q2f16'], [/[_-]q1f16$/, 'q1f16'], [/[_-]bnb4$/, 'bnb4'],
  [/[_-](q4|q2|q1)$/, ''], [/[_-](quantized|q8)$/, 'q8'], [/[_-](int8|uint8|fp16|bf16|fp32)$/, '']
]
const TYPES: Readonly<Record<number, string>> = {
  1: 'fp32', 2: 'q8', 3: 'q8', 10: 'fp16', 11: 'fp64', 16: 'bf16', 21: 'q4', 22: 'q4'
}

/** What an ONNX file holds. @throws CardError when it is broken, or its weights lie outside its folder */
export async function readOnnxHeader (
  path: string, pathProblem: Folder['pathProblem']
): Promise<OnnxHeader> {
  return await withReader(path, async (r) => await readHeader(r, pathProblem))
}

/**
 * The head of a graph in a folder. @throws CardError, also when external weights are missing or shorter than
 * the graph needs, and for operators that nobody here knows
 */
export async function readGraph (folder: Folder, path: string): Promise<OnnxHeader> {
  const header = await readOnnxHeader(folder.at(path), folder.pathProblem)
  for (const [name, bytes] of header.externalBytes) {
    const beside = besides(path, name)
    if (!folder.has(beside)) {
      throw new CardError(`${path} has weights in ${beside}, which is not among the files`)
    }
    const size = folder.size(beside)
    if (size < bytes) throw new CardError(`${path} needs ${bytes} bytes of ${beside}, which has ${size}`)
  }
  const problem = operatorProblem(header)
  if (problem !== null) throw new CardError(`${path} cannot be run here: ${problem}`)
  return header
}

/** Path of a file that is named relative to another file's folder. */
function besides (path: string, name: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1) + name
}

/** Roles of a graph and of the files beside it that hold its weights. */
export function weightsOf (path: string, header: OnnxHeader): Map<string, string> {
  const beside = header.externalFiles.map((name): [string, string] => [besides(path, name), 'external-data'])
  return new Map([[path, 'weights'], ...beside])
}

const stemOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1, -'.onnx'.length)

/** How weights are kept: by the name's ending, else by the operators, else by what most bytes are. */
export function suffixOf (header: OnnxHeader, path: string): string | null {
  for (const [pattern, meaning] of SUFFIXES) {
    const match = pattern.exec(stemOf(path))
    if (match !== null) return meaning === '' ? match[1] as string : meaning
  }
  if (header.weightBits !== null) return `q${header.weightBits}`
  const [most] = [...header.bytesByType].sort(([, a], [, b]) => b - a)
  return most === undefined ? null : TYPES[most[0]] ?? null
}

/**
 * The graph to use among several of one model: the plain one up to 4 GiB, else q4, else the smallest, each
 * with its external weights. Undefined when there is none.
 */
export function chooseGraph (folder: Folder, paths: readonly string[]): string | undefined {
  const bytes = (path: string): number => folder.files
    .filter(({ path: name }) => name === path || name.startsWith(`${path}_data`) || name === `${path}.data`)
    .reduce((sum, file) => sum + file.size, 0)
  const plain = paths.find((path) => stemOf(path) === 'model' && bytes(path) <= FOUR_GIB)
  const q4 = paths.find((path) => /[_-]q4$/.test(stemOf(path)))
  return plain ?? q4 ?? [...paths].sort((a, b) => bytes(a) - bytes(b))[0]
}

/** Whether a graph takes keys and values of earlier tokens, as decoders do. */
export const hasCache = ({ inputs }: OnnxHeader): boolean =>
  inputs.some(({ name }) => /^past(_key_values\.\d+(\.decoder)?\.key|_key_\d+|_\d+)$/.test(name))
