/** Types of tensors in GGUF files, and names of the mixes they are kept in. */

/** A type: `bytes` hold `block` values. */
export interface GgmlType { name: string, block: number, bytes: number }

const type = (name: string, block: number, bytes: number): GgmlType => ({ name, block, bytes })

/** By the number that stands in a file. */
export const GGML_TYPES: Readonly<Record<number, GgmlType>> = {
  0: type('fp32', 1, 4),
  1: type('fp16', 1, 2),
  2: type('Q4_0', 32, 18),
  3: type('Q4_1', 32, 20),
  6: type('Q5_0', 32, 22),
  7: type('Q5_1', 32, 24),
  8: type('Q8_0', 32, 34),
  9: type('Q8_1', 32, 36),
  10: type('Q2_K', 256, 84),
  11: type('Q3_K', 256, 110),
  12: type('Q4_K', 256, 144),
  13: type('Q5_K', 256, 176),
  14: type('Q6_K', 256, 210),
  15: type('Q8_K', 256, 292),
  16: type('IQ2_XXS', 256, 66),
  17: type('IQ2_XS', 256, 74),
  18: type('IQ3_XXS', 256, 98),
  19: type('IQ1_S', 256, 50),
  20: type('IQ4_NL', 32, 18),
  21: type('IQ3_S', 256, 110),
  22: type('IQ2_S', 256, 82),
  23: type('IQ4_XS', 256, 136),
  24: type('int8', 1, 1),
  25: type('int16', 1, 2),
  26: type('int32', 1, 4),
  27: type('int64', 1, 8),
  28: type('fp64', 1, 8),
  29: type('IQ1_M', 256, 56),
  30: type('bf16', 1, 2),
  34: type('TQ1_0', 256, 54),
  35: type('TQ2_0', 256, 66),
  39: type('MXFP4', 32, 17)
}

/** Names of `general.file_type`. */
export const FILE_TYPES: Readonly<Record<number, string>> = {
  0: 'fp32', 1: 'fp16', 2: 'Q4_0', 3: 'Q4_1', 7: 'Q8_0', 8: 'Q5_0', 9: 'Q5_1', 10: 'Q2_K', 11: 'Q3_K_S',
  12: 'Q3_K_M', 13: 'Q3_K_L', 14: 'Q4_K_S', 15: 'Q4_K_M', 16: 'Q5_K_S', 17: 'Q5_K_M', 18: 'Q6_K',
  19: 'IQ2_XXS', 20: 'IQ2_XS', 21: 'Q2_K_S', 22: 'IQ3_XS', 23: 'IQ3_XXS', 24: 'IQ1_S', 25: 'IQ4_NL',
  26: 'IQ3_S', 27: 'IQ3_M', 28: 'IQ2_S', 29: 'IQ2_M', 30: 'IQ4_XS', 31: 'IQ1_M', 32: 'bf16', 36: 'TQ1_0',
  37: 'TQ2_0', 38: 'MXFP4'
}
