/** Finds out what each input and output of a graph that makes vectors is for. */
import { EngineError } from '../../../kernel/api/engine.js'
import { growing, listed, whole, type Port, type Real, type Sizes, type WholePort } from './bind.js'

/** Inputs by what they are fed with. */
export interface EncoderBinding {
  ids: WholePort
  mask: WholePort | null
  types: WholePort | null
  positions: WholePort | null
  /** Caches of a decoder that is used as an encoder: fed empty. */
  pasts: Array<{ name: string, type: Real, dims: (rows: number) => number[] }>
  output: string
  /** The output has one vector per text already. */
  pooled: boolean
}

/** Outputs with vectors; the first one a graph has is used. */
const OUTPUTS: ReadonlyArray<[string, boolean]> = [
  ['sentence_embedding', true], ['last_hidden_state', false], ['token_embeddings', false]
]
const fail = (message: string): EngineError => new EngineError('model_invalid', message)

/** True for the outputs of a graph that makes vectors and no `logits`. */
export const isEncoder = (outputs: readonly Port[], logits: string): boolean =>
  !outputs.some(({ name }) => name === logits) &&
  OUTPUTS.some(([vectors]) => outputs.some(({ name }) => name === vectors))

function pastOf (port: Port, sizes: Sizes): EncoderBinding['pasts'][number] {
  const shape = port.name.startsWith('past') ? growing(port, sizes) : undefined
  if (shape === undefined) {
    throw fail(`the graph wants an input "${port.name}" (${port.type}) that this engine does not know`)
  }
  const { lead, heads, width } = shape
  const dims = (rows: number): number[] => [...lead === 2 ? [2] : [], rows, heads, 0, width]
  return { name: port.name, type: port.type === 'float16' ? 'float16' : 'float32', dims }
}

/** Finds out what each input is for. @throws EngineError model_invalid */
export function bindEncoder (
  inputs: readonly Port[], outputs: readonly Port[], sizes: Sizes
): EncoderBinding {
  const given = new Map(inputs.map((port) => [port.name, port]))
  const ids = whole(given.get('input_ids'), 2)
  const output = OUTPUTS.find(([name]) => outputs.some((port) => port.name === name))
  if (ids === null) throw fail(`the graph has no input "input_ids": it has ${listed(inputs)}`)
  if (output === undefined) throw fail(`the graph has no output with vectors: it has ${listed(outputs)}`)
  const plain = ['input_ids', 'attention_mask', 'token_type_ids', 'position_ids']
  return {
    ids,
    mask: whole(given.get('attention_mask'), 2),
    types: whole(given.get('token_type_ids'), 2),
    positions: whole(given.get('position_ids'), 2),
    pasts: inputs.filter(({ name }) => !plain.includes(name)).map((port) => pastOf(port, sizes)),
    output: output[0],
    pooled: output[1]
  }
}
