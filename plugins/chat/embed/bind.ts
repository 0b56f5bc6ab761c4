/** Binds the inputs and outputs of an embedding graph. */
import { EngineError } from '../../../kernel/api/engine.js'
import type { OnnxHeader } from '../../runners/onnx/facts.js'

/** An input or output of an ONNX session. A dimension is a number, or a name if it is dynamic. */
export interface Port { name: string, type: string, shape: ReadonlyArray<number | string> }
export type FloatType = 'float32' | 'float16'
export interface IntegerInput { name: string, type: 'int64' | 'int32' }
/** Sizes from the card, used only if the graph leaves them open. */
export interface Sizes { kvHeads: number, headSize: number }

export type EncoderBinding = ReturnType<typeof bindEncoder>

/** Output names in order of preference; true if the graph has already pooled the output. */
const OUTPUTS: ReadonlyArray<[string, boolean]> = [
  ['sentence_embedding', true], ['last_hidden_state', false], ['token_embeddings', false]
]
const fail = (message: string): EngineError => new EngineError('model_invalid', message)

const shapeText = ({ shape }: Port): string => `[${shape.join(', ')}]`
const fixed = (dim: number | string | undefined): dim is number => typeof dim === 'number' && dim > 0
const MAX_NAMES = 12

/** Input or output names for an error message, shortened. */
function listed (ports: readonly Port[]): string {
  const names = ports.slice(0, MAX_NAMES).map(({ name }) => name).join(', ')
  return ports.length > MAX_NAMES ? `${names} and ${ports.length - MAX_NAMES} more` : names
}

/** An integer input. @throws EngineError model_invalid for another type or a higher rank */
function whole (port: Port | undefined, rank: number): IntegerInput | null {
  if (port === undefined) return null
  if (port.type !== 'int64' && port.type !== 'int32') {
    throw fail(`input "${port.name}" of the graph has type ${port.type}: int64 and int32 are supported`)
  }
  if (port.shape.length > rank) {
    throw fail(`input "${port.name}" of the graph has shape ${shapeText(port)}: ` +
      `at most ${rank} dimensions are supported`)
  }
  return { name: port.name, type: port.type }
}

/**
 * Sizes of a key/value cache: `[rows, heads, past, width]`, or both in one as `[2, rows, heads, past,
 * width]`.
 */
function growing (port: Port, sizes: Sizes): { lead: number, heads: number, width: number } | undefined {
  const lead = port.shape.length === 5 && port.shape[0] === 2 ? 2 : 1
  const [rows, heads, past, width] = lead === 2 ? port.shape.slice(1) : port.shape
  const rank = lead === 2 ? 5 : 4
  if (port.shape.length !== rank || fixed(past) || (fixed(rows) && rows !== 1)) return undefined
  const known = { heads: fixed(heads) ? heads : sizes.kvHeads, width: fixed(width) ? width : sizes.headSize }
  return known.heads > 0 && known.width > 0 ? { lead, ...known } : undefined
}

function pastOf (port: Port, sizes: Sizes) {
  const shape = port.name.startsWith('past') ? growing(port, sizes) : undefined
  if (shape === undefined) {
    throw fail(`the graph has an unsupported input "${port.name}" (${port.type})`)
  }
  const { lead, heads, width } = shape
  const dims = (rows: number): number[] => [...lead === 2 ? [2] : [], rows, heads, 0, width]
  const type: FloatType = port.type === 'float16' ? 'float16' : 'float32'
  return { name: port.name, type, dims }
}

/** @throws EngineError model_invalid for a graph that cannot be bound */
export function bindEncoder (inputs: readonly Port[], outputs: readonly Port[], sizes: Sizes) {
  const given = new Map(inputs.map((port) => [port.name, port]))
  const ids = whole(given.get('input_ids'), 2)
  const output = OUTPUTS.find(([name]) => outputs.some((port) => port.name === name))
  if (ids === null) throw fail(`the graph has no input "input_ids": it has ${listed(inputs)}`)
  if (output === undefined) throw fail(`the graph has no output with vectors: it has ${listed(outputs)}`)
  const plain = ['input_ids', 'attention_mask', 'token_type_ids', 'position_ids']
  return {
    ids, mask: whole(given.get('attention_mask'), 2), types: whole(given.get('token_type_ids'), 2),
    positions: whole(given.get('position_ids'), 2),
    /** Key/value cache inputs of a decoder that serves as an encoder; every call passes empty caches. */
    pasts: inputs.filter(({ name }) => !plain.includes(name)).map((port) => pastOf(port, sizes)),
    /** Whether the graph pools its output to one vector per text, so svc need not. */
    pooled: output[1],
    output: output[0]
  }
}

/** Element types by their TensorProto numbers. */
const TYPES: Readonly<Record<number, string>> = { 1: 'float32', 6: 'int32', 7: 'int64', 10: 'float16' }

const portOf = ({ name, elemType, dims }: OnnxHeader['inputs'][number]): Port =>
  ({ name, type: TYPES[elemType] ?? `number ${elemType}`, shape: dims.map((dim) => dim ?? '') })

/** Checks a file's header before the file is loaded. @throws EngineError model_invalid */
export function checkEncoder (
  { inputs, outputs }: Pick<OnnxHeader, 'inputs' | 'outputs'>, sizes: Sizes
): void {
  bindEncoder(inputs.map(portOf), outputs.map(portOf), sizes)
}
