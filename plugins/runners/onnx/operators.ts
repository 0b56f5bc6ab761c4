/**
 * File versions and operators that onnxruntime 1.30 supports. A test compares the lists with the installed
 * runtime. Standard operators are not listed, because the version of the operator set determines them.
 */
import type { OnnxHeader } from './header.js'

/** Newest supported version of the file format (IR) and of the standard operator set. */
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
export function operatorProblem ({ irVersion, opsets, opTypes, functions }: OnnxHeader): string | null {
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
