/** A tiny encoder with random weights, written as an ONNX file. */
import {
  ATTRIBUTE, ELEMENT, encodeMessage, encodeModel, tensorInfo, type OnnxNode
} from '../../runners/onnx/engine.js'
import { seededRandom } from '../../llama-cpp/test/random.js'

type Element = keyof typeof ELEMENT

const VOCABULARY = 64
const WIDTH = 32

/** Builds a graph; methods return the name of the tensor they add. */
class Graph {
  private readonly nodes: OnnxNode[] = []
  private readonly weights: Uint8Array[] = []
  private readonly ports = { 11: [] as Uint8Array[], 12: [] as Uint8Array[] }
  private count = 0
  private readonly next = seededRandom(7)

  port (field: 11 | 12, name: string, element: Element, dims: ReadonlyArray<number | string>): string {
    this.ports[field].push(tensorInfo(name, ELEMENT[element], [...dims]))
    return name
  }

  op (type: string, inputs: readonly string[], output = `t${this.count++}`): string {
    return this.node(type, inputs, output, [])
  }

  cast (input: string, element: Element): string {
    const to = encodeMessage('AttributeProto', { name: 'to', i: ELEMENT[element], type: ATTRIBUTE.int })
    return this.node('Cast', [input], `t${this.count++}`, [to])
  }

  weight (dims: readonly [number, number]): string {
    const values = Float32Array.from({ length: dims[0] * dims[1] }, () => this.next() - 0.5)
    return this.constant('float32', dims, values)
  }

  ints (values: readonly number[]): string {
    return this.constant('int64', [values.length], BigInt64Array.from(values, BigInt))
  }

  file (): Buffer {
    const opsets = [['', 14]] as const
    return Buffer.from(encodeModel({
      irVersion: 8,
      producerName: '',
      metadataProps: [],
      opsetImport: opsets.map(([domain, version]) =>
        encodeMessage('OperatorSetIdProto', { domain, version })),
      graph: {
        name: 'tiny', node: this.nodes, initializer: this.weights,
        input: this.ports[11], output: this.ports[12], valueInfo: []
      }
    }))
  }

  private node (opType: string, input: readonly string[], output: string, attribute: Uint8Array[]): string {
    this.nodes.push({ opType, input: [...input], output: [output], name: '', domain: '', attribute })
    return output
  }

  private constant (
    element: Element, dims: readonly number[], values: Float32Array | BigInt64Array
  ): string {
    const name = `w${this.count++}`
    const rawData = Buffer.from(values.buffer, values.byteOffset, values.byteLength)
    this.weights.push(encodeMessage('TensorProto', { dims, dataType: ELEMENT[element], name, rawData }))
    return name
  }
}

/** The bytes of an encoder whose vectors depend on all unmasked tokens. */
export function makeEncoder (): Buffer {
  const graph = new Graph()
  const ids = graph.port(11, 'input_ids', 'int64', ['batch_size', 's'])
  const mask = graph.cast(graph.port(11, 'attention_mask', 'int64', ['batch_size', 's']), 'float32')
  const types = graph.port(11, 'token_type_ids', 'int64', ['batch_size', 's'])
  const words = graph.op('Gather', [graph.weight([VOCABULARY, WIDTH]), ids])
  const x = graph.op('Add', [words, graph.op('Gather', [graph.weight([2, WIDTH]), types])])
  const weights = graph.op('Unsqueeze', [mask, graph.ints([2])])
  const sum = graph.op('ReduceSum', [graph.op('Mul', [x, weights]), graph.ints([1])])
  graph.op('Add', [x, graph.op('Div', [sum, graph.op('ReduceSum', [weights, graph.ints([1])])])],
    'last_hidden_state')
  graph.port(12, 'last_hidden_state', 'float32', ['batch_size', 's', WIDTH])
  return graph.file()
}
