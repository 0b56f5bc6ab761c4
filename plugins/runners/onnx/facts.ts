/** Facts about a model's files and sizes from the header of its graph. */
import { CardError, withReader } from '../cards/reader.js'
import { readHeader, type OnnxHeader } from './header.js'
import type { Folder } from '../../staging/service.js'

export type { OnnxHeader } from './header.js'

const FOUR_GIB = 4 * 2 ** 30
const SUFFIXES: ReadonlyArray<[RegExp, string]> = [
  [/[_-]q4f16$/, 'q4f16'], [/[_-]q2f16$/, 'q2f16'], [/[_-]q1f16$/, 'q1f16'], [/[_-]bnb4$/, 'bnb4'],
  [/[_-](q4|q2|q1)$/, ''], [/[_-](quantized|q8)$/, 'q8'], [/[_-](int8|uint8|fp16|bf16|fp32)$/, '']
]
const TYPES: Readonly<Record<number, string>> = {
  1: 'fp32', 2: 'q8', 3: 'q8', 10: 'fp16', 11: 'fp64', 16: 'bf16', 21: 'q4', 22: 'q4'
}

/** The header of an ONNX file. @throws CardError if it is broken, or weights are outside the folder */
export async function readOnnxHeader (path: string, pathProblem: Folder['pathProblem']): Promise<OnnxHeader> {
  return await withReader(path, async (r) => await readHeader(r, pathProblem))
}

/**
 * The header of a graph in a folder.
 * @throws CardError also if external weights are missing or too short, and for unknown operators
 */
export async function readGraph (folder: Folder, path: string): Promise<OnnxHeader> {
  const header = await readOnnxHeader(folder.at(path), folder.pathProblem)
  for (const [name, bytes] of header.externalBytes) {
    const external = besides(path, name)
    if (!folder.has(external)) {
      throw new CardError(`${path} has weights in ${external}, which is not among the files`)
    }
    const size = folder.size(external)
    if (size < bytes) throw new CardError(`${path} needs ${bytes} bytes of ${external}, which has ${size}`)
  }
  const problem = operatorProblem(header)
  if (problem !== null) throw new CardError(`${path} cannot be run here: ${problem}`)
  return header
}

function besides (path: string, name: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1) + name
}

export function weightsOf (path: string, header: OnnxHeader): Map<string, string> {
  const external = header.externalFiles
    .map((name): [string, string] => [besides(path, name), 'external-data'])
  return new Map([[path, 'weights'], ...external])
}

const stemOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1, -'.onnx'.length)

/**
 * Quantization of the weights: by the suffix of the file name, otherwise by the operators, otherwise by the
 * element type of most bytes.
 */
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
 * The graph to use if a model has several: the unquantized one up to 4 GiB, otherwise q4, otherwise the
 * smallest; sizes include external weights. Undefined if there is no graph.
 */
export function chooseGraph (folder: Folder, paths: readonly string[]): string | undefined {
  const bytes = (path: string): number => folder.files
    .filter(({ path: name }) => name === path || name.startsWith(`${path}_data`) || name === `${path}.data`)
    .reduce((sum, file) => sum + file.size, 0)
  const plain = paths.find((path) => stemOf(path) === 'model' && bytes(path) <= FOUR_GIB)
  const q4 = paths.find((path) => /[_-]q4$/.test(stemOf(path)))
  return plain ?? q4 ?? [...paths].sort((a, b) => bytes(a) - bytes(b))[0]
}

/** True if a graph takes the keys and values of earlier tokens, like a decoder. */
export const hasCache = ({ inputs }: OnnxHeader): boolean =>
  inputs.some(({ name }) => /^past(_key_values\.\d+(\.decoder)?\.key|_key_\d+|_\d+)$/.test(name))

/**
 * Newest version of the file format (IR) and of the standard operator set that onnxruntime 1.30 supports. A
 * test compares these and CONTRIB with the installed runtime. Standard operators are not listed, because the
 * version of the operator set determines them.
 */
export const NEWEST = { ir: 13, opset: 26 } as const

/** Operators in the domain com.microsoft, except those that are known to have no CPU implementation. */
export const CONTRIB: ReadonlySet<string> = new Set(`
  Attention AttnLSTM BeamSearch BiasDropout BiasGelu BiasSoftmax BifurcationDetector CDist
  CausalConvWithState ComplexMul ComplexMulConj ConvTransposeWithDynamicPads CropAndResize
  DecoderMaskedMultiHeadAttention DequantizeLinear DynamicQuantizeLSTM DynamicQuantizeMatMul
  DynamicTimeWarping EmbedLayerNormalization EngramGate ExpandDims FastGelu FusedConv FusedGemm
  FusedMatMul FusedMatMulActivation GatedAdd GatedDeltaNet GatedRMSNorm GatedRelativePositionBias
  GatherBlockQuantized GatherND Gelu GreedySearch GridSample GroupQueryAttention Inverse Irfft IsAllFinite
  LinearAttention LinearAttentionGate MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight
  MatMulBnb4 MatMulFpQ4 MatMulInteger16 MatMulIntegerToFloat MatMulNBits MatMulNBitsMlp MatMulNBitsQkv
  MaxpoolWithMask MoE MulInteger MultiHeadAttention MurmurHash3 NGramHashMapping NGramRepeatBlock NhwcConv
  NhwcFusedConv NhwcMaxPool Pad QAttention QEmbedLayerNormalization QGemm QLinearAdd QLinearAveragePool
  QLinearConcat QLinearConv QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean
  QLinearSigmoid QLinearSoftmax QLinearWhere QMoE QuantizeLinear QuickGelu Range ReduceSumInteger
  RelativePositionBias Rfft RotaryEmbedding SampleOp Sampling SkipLayerNormalization
  SkipSimplifiedLayerNormalization SparseAttention SparseToDenseMatMul Tokenizer TransposeMatMul Trilu
  UnfoldTensor Unique VarlenCausalConvWithState WhisperBeamSearch WordConvEmbedding
`.trim().split(/\s+/))

/** Domains whose operators onnxruntime supports completely. */
const STANDARD = new Set(['', 'ai.onnx', 'ai.onnx.ml'])
const LISTED = 8

/** Why a file cannot run because of its version or operators; null if no reason is found. */
function operatorProblem ({ irVersion, opsets, opTypes, functions }: OnnxHeader): string | null {
  const opset = opsets.get('') ?? opsets.get('ai.onnx') ?? 0
  if (irVersion > NEWEST.ir) return `its ONNX IR version is ${irVersion}; up to ${NEWEST.ir} is supported`
  if (opset > NEWEST.opset) return `it has operators of opset ${opset}; up to ${NEWEST.opset} is supported`
  const unknown = [...opTypes].filter((name) => !functions.has(name) && !runs(name))
  if (unknown.length === 0) return null
  const more = unknown.length > LISTED ? ` and ${unknown.length - LISTED} more` : ''
  return `it has unsupported operators: ${unknown.slice(0, LISTED).join(', ')}${more}`
}

function runs (name: string): boolean {
  const end = name.lastIndexOf('.')
  const domain = name.slice(0, Math.max(end, 0))
  return STANDARD.has(domain) || (domain === 'com.microsoft' && CONTRIB.has(name.slice(end + 1)))
}
