/** Products with weights of 4 bits are computed in 8 bits where the file leaves that open. */
import { InferenceSession, Tensor } from 'onnxruntime-node'
import t from 'tap'
import {
  attributesOf, decodeModel, encodeMessage, encodeModel, nodeOf, tensorInfo, ELEMENT, type OnnxModel
} from '../../onnx/engine.js'
import { computeIn8Bits } from '../engine/graph-changes.js'

const [INPUTS, OUTPUTS, BLOCK] = [128, 32, 32]
const UINT8 = 2

/** One product with weights of 4 bits, whose scales are 1. */
function graph (level?: number): OnnxModel {
  const node = nodeOf('MatMulNBits', ['x', 'weights', 'scales'], 'y', {
    K: INPUTS, N: OUTPUTS, bits: 4, block_size: BLOCK, ...level === undefined ? {} : { accuracy_level: level }
  })
  const tensor = (
    name: string, dataType: number, dims: number[], { buffer }: Uint8Array | Float32Array
  ): Uint8Array => encodeMessage('TensorProto', { name, dataType, dims, rawData: new Uint8Array(buffer) })
  const blocks = OUTPUTS * INPUTS / BLOCK
  const weights = Uint8Array.from({ length: blocks * BLOCK / 2 }, (_, i) => i * 89 % 256)
  return decodeModel(encodeModel({
    ...decodeModel(new Uint8Array()),
    irVersion: 8,
    opsetImport: [['', 14], ['com.microsoft', 1]].map(([domain, version]) =>
      encodeMessage('OperatorSetIdProto', { domain, version })),
    graph: {
      ...decodeModel(new Uint8Array()).graph,
      name: 'product',
      node: [{ ...node, domain: 'com.microsoft' }],
      initializer: [tensor('weights', UINT8, [OUTPUTS, INPUTS / BLOCK, BLOCK / 2], weights),
        tensor('scales', ELEMENT.float32, [blocks], new Float32Array(blocks).fill(1))],
      input: [tensorInfo('x', ELEMENT.float32, [1, 'tokens', INPUTS])],
      output: [tensorInfo('y', ELEMENT.float32, [1, 'tokens', OUTPUTS])]
    }
  }))
}

const levelOf = ({ graph: { node } }: OnnxModel): unknown => attributesOf(node[0]!).get('accuracy_level')?.i

async function product (model: OnnxModel): Promise<Float32Array> {
  const session = await InferenceSession.create(encodeModel(model))
  const x = Float32Array.from({ length: INPUTS }, (_, i) => Math.sin(i * i))
  const { y } = await session.run({ x: new Tensor('float32', x, [1, 1, INPUTS]) })
  await session.release()
  return y!.data as Float32Array
}

t.test('a file that says nothing, and one that leaves it open', async (t) => {
  for (const level of [undefined, 0]) {
    const model = graph(level)
    t.ok(computeIn8Bits(model))
    t.equal(levelOf(decodeModel(encodeModel(model))), 4)
    t.equal(model.graph.node[0]!.attribute.length, 5, 'the others stay, and it is there once')
  }
})

t.test('what a file asks for stays', (t) => {
  const model = graph(1)
  t.notOk(computeIn8Bits(model))
  t.equal(levelOf(model), 1)
  t.end()
})

t.test('the numbers are nearly the same', async (t) => {
  const exact = await product(graph())
  const model = graph()
  computeIn8Bits(model)
  const near = await product(model)
  const largest = Math.max(...exact.map(Math.abs))
  const off = Math.max(...exact.map((value, i) => Math.abs(value - near[i]!))) / largest
  t.ok(off < 0.02, `${off} of the largest`)
})
