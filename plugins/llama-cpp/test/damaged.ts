import { SHAPE, tinyModel, type Tensor } from './gguf-kit.js'

const whole64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}
function patched (at: number, bytes: Uint8Array): Buffer {
  const file = tinyModel()
  file.set(bytes, at)
  return file
}
/** Overwrites bytes of the model file, `skipped` bytes after the first occurrence of `name`. */
const behind = (name: string, skipped: number, bytes: Uint8Array): Buffer =>
  patched(tinyModel().indexOf(name) + name.length + skipped, bytes)
const without = (name: string): Buffer =>
  tinyModel({ change: (tensors) => { tensors.splice(tensors.findIndex((one) => one.name === name), 1) } })
const reshaped = (name: string, shape: number[]): Buffer => tinyModel({
  change: (tensors) => {
    const tensor = tensors.find((one) => one.name === name) as Tensor
    tensor.shape = shape
    tensor.values = new Float32Array(shape.reduce((a, b) => a * b))
  }
})
const FILE = tinyModel()

/** Model files that llama.cpp cannot load, by kind of damage. */
export const DAMAGED: Record<string, Buffer> = {
  'cut in its header': FILE.subarray(0, 500),
  'cut in its weights': FILE.subarray(0, FILE.length / 2),
  'cut at its last byte': FILE.subarray(0, -1),
  empty: FILE.subarray(0, 0),
  'another format': patched(0, Buffer.from('JUNK')),
  'version 99': patched(4, Buffer.from([99])),
  '2^60 tensors': patched(8, whole64(2n ** 60n)),
  '2^60 entries': patched(16, whole64(2n ** 60n)),
  'a name of 2^60 bytes': patched(24, whole64(2n ** 60n)),
  '2^60 tokens': behind('tokenizer.ggml.tokens', 8, whole64(2n ** 60n)),
  'an unknown type of metadata': behind('general.architecture', 0, Buffer.from([77])),
  'an unknown type of tensor': behind('token_embd.weight', 4 + 16, Buffer.from([200])),
  'a tensor behind the end': behind('token_embd.weight', 4 + 16 + 4, whole64(2n ** 40n)),
  'two tensors in one place': behind('output.weight', 4 + 16 + 4, whole64(0n)),
  'another architecture': tinyModel({ metadata: { 'general.architecture': 'unheard-of' } }),
  'no heads': tinyModel({ metadata: { 'llama.attention.head_count': 0 } }),
  'no heads of keys': tinyModel({ metadata: { 'llama.attention.head_count_kv': 0 } }),
  'seven heads': tinyModel({ metadata: { 'llama.attention.head_count': 7 } }),
  'a thousand layers': tinyModel({ metadata: { 'llama.block_count': 1000 } }),
  'no hidden size': tinyModel({ metadata: { 'llama.embedding_length': 0 } }),
  'no output norm': without('output_norm.weight'),
  'an output of another size': reshaped('output.weight', [SHAPE.hidden / 2, 261]),
  'no tokens': tinyModel({ metadata: { 'tokenizer.ggml.tokens': [] } }),
  'types for too few tokens': tinyModel({ metadata: { 'tokenizer.ggml.token_type': { i32: [1, 1] } } }),
  'an unknown tokenizer': tinyModel({ metadata: { 'tokenizer.ggml.model': 'unheard-of' } })
}
