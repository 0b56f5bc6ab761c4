/** Text encoders as Optimum exports BERT; all-MiniLM and bge have the same graph in different sizes. */
import { Graph, type Dtype } from './graph.js'

export interface EncoderShape {
  name: string, vocabulary: number, hidden: number, heads: number, inner: number, layers: number
}

const EPSILON = 1e-12
const POSITIONS = 512

/** The graph of an encoder in one dtype. */
export function encoderGraph (shape: EncoderShape, dtype: Dtype): Graph {
  const { hidden, heads, inner, layers, vocabulary } = shape
  const g = new Graph(shape.name, dtype)
  const [ids, mask, types] = ['input_ids', 'attention_mask', 'token_type_ids']
    .map((name) => g.input(name, 'int64', ['batch_size', 'sequence_length'])) as [string, string, string]
  const norm = (x: string, name: string): string => g.op('LayerNormalization',
    [x, g.gains(`${name}.weight`, hidden), g.plain(`${name}.bias`, [hidden], 0.1)],
    { axis: -1, epsilon: { float: EPSILON } })
  const linear = (x: string, name: string, from: number, to: number): string =>
    g.op('Add', [g.linear(x, `${name}.weight`, from, to), g.plain(`${name}.bias`, [to], 0.1)])
  const length = g.op('Shape', [ids])
  const end = g.op('Slice', [length, g.ints([1]), g.ints([2]), g.ints([0])])
  const all = g.ints(Array.from({ length: POSITIONS }, (_, i) => i), [1, POSITIONS])
  const places = g.op('Slice', [all, g.ints([0]), end, g.ints([1])])
  const words = g.op('Add', [g.embed(ids, 'embeddings.word_embeddings.weight', vocabulary, hidden),
    g.embed(types, 'embeddings.token_type_embeddings.weight', 2, hidden)])
  const turned = g.embed(places, 'embeddings.position_embeddings.weight', POSITIONS, hidden)
  let x = norm(g.op('Add', [words, turned]), 'embeddings.LayerNorm')
  const wide = g.cast(g.op('Unsqueeze', [mask, g.ints([1, 2])]), g.real)
  const lowest = g.number(g.real === 'float16' ? -65504 : -3.4e38)
  const hidden0 = g.op('Mul', [g.op('Sub', [g.number(1), wide]), lowest])
  for (let layer = 0; layer < layers; layer++) {
    const at = `encoder.layer.${layer}`
    const size = hidden / heads
    const apart = (part: string, perm: number[]): string => g.op('Transpose', [g.op('Reshape',
      [linear(x, `${at}.attention.self.${part}`, hidden, hidden), g.ints([0, 0, heads, size])])], { perm })
    const scores = g.op('MatMul', [apart('query', [0, 2, 1, 3]), apart('key', [0, 2, 3, 1])])
    const masked = g.op('Add', [g.op('Div', [scores, g.number(Math.sqrt(size))]), hidden0])
    const mixed = g.op('MatMul', [g.op('Softmax', [masked], { axis: -1 }), apart('value', [0, 2, 1, 3])])
    const flat = g.op('Reshape', [g.op('Transpose', [mixed], { perm: [0, 2, 1, 3] }), g.ints([0, 0, hidden])])
    const attended = linear(flat, `${at}.attention.output.dense`, hidden, hidden)
    x = norm(g.op('Add', [attended, x]), `${at}.attention.output.LayerNorm`)
    const inside = linear(x, `${at}.intermediate.dense`, hidden, inner)
    const half = g.op('Mul', [inside, g.number(0.5)])
    const bent = g.op('Erf', [g.op('Div', [inside, g.number(Math.SQRT2)])])
    const active = g.op('Mul', [half, g.op('Add', [bent, g.number(1)])])
    x = norm(g.op('Add', [linear(active, `${at}.output.dense`, inner, hidden), x]), `${at}.output.LayerNorm`)
  }
  const half = g.real === 'float16'
  g.op(half ? 'Cast' : 'Identity', [x], half ? { to: 1 } : {}, ['last_hidden_state'])
  g.output('last_hidden_state', 'float32', ['batch_size', 'sequence_length', hidden])
  return g
}
