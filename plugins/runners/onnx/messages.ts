/**
 * ONNX files as protobuf messages, with the fields needed to change a graph; field numbers are from
 * onnx.proto (ONNX 1.16). Weights, attributes and ports stay encoded, so that no data is lost and a file of
 * hundreds of megabytes is read without copying its weights. Unknown fields survive if the decoded object
 * itself is changed, not a copy.
 */
import protobuf from 'protobufjs/light.js'

/** Attributes are encoded AttributeProto messages. */
export interface OnnxNode {
  input: string[]
  output: string[]
  name: string
  opType: string
  domain: string
  attribute: Uint8Array[]
}

/** Initializers are encoded TensorProto; inputs, outputs and valueInfo are encoded ValueInfoProto. */
export interface OnnxGraph {
  name: string
  node: OnnxNode[]
  initializer: Uint8Array[]
  input: Uint8Array[]
  output: Uint8Array[]
  valueInfo: Uint8Array[]
}

/** `opsetImport` and `metadataProps` are encoded messages. */
export interface OnnxModel {
  irVersion: number
  opsetImport: Uint8Array[]
  producerName: string
  metadataProps: Uint8Array[]
  graph: OnnxGraph
}

/** A decoded attribute; only the value that `type` names is meaningful. */
export interface OnnxAttribute {
  name: string
  type: number
  f: number
  i: number
  ints: number[]
  g: OnnxGraph | null
  graphs: OnnxGraph[]
}

type MessageName = 'ModelProto' | 'NodeProto' | 'AttributeProto' | 'TensorProto' | 'ValueInfoProto' |
  'OperatorSetIdProto' | 'StringStringEntryProto'

const one = (type: string, id: number) => ({ type, id })
const many = (type: string, id: number) => ({ type, id, rule: 'repeated' })

// int64 fields are decoded as int32: the wire format is the same, and no dimension, kernel or opset version
// comes near 2^31. Weights are in rawData, never in these fields.
const root = protobuf.Root.fromJSON({
  nested: {
    ModelProto: {
      fields: {
        irVersion: one('int32', 1),
        producerName: one('string', 2),
        graph: one('GraphProto', 7),
        opsetImport: many('bytes', 8),
        metadataProps: many('bytes', 14),
        functions: many('bytes', 25)
      }
    },
    GraphProto: {
      fields: {
        node: many('NodeProto', 1),
        name: one('string', 2),
        initializer: many('bytes', 5),
        input: many('bytes', 11),
        output: many('bytes', 12),
        valueInfo: many('bytes', 13),
        quantizationAnnotation: many('bytes', 14),
        sparseInitializer: many('bytes', 15)
      }
    },
    NodeProto: {
      fields: {
        input: many('string', 1),
        output: many('string', 2),
        name: one('string', 3),
        opType: one('string', 4),
        attribute: many('bytes', 5),
        domain: one('string', 7)
      }
    },
    AttributeProto: {
      fields: {
        name: one('string', 1),
        f: one('float', 2),
        i: one('int32', 3),
        s: one('bytes', 4),
        t: one('bytes', 5),
        g: one('GraphProto', 6),
        floats: many('float', 7),
        ints: many('int32', 8),
        graphs: many('GraphProto', 11),
        type: one('int32', 20)
      }
    },
    TensorProto: {
      fields: {
        dims: many('int32', 1), dataType: one('int32', 2), name: one('string', 8), rawData: one('bytes', 9)
      }
    },
    TensorName: { fields: { name: one('string', 8), dataLocation: one('int32', 14) } },
    ValueName: { fields: { name: one('string', 1) } },
    ValueInfoProto: { fields: { name: one('string', 1), type: one('TypeProto', 2) } },
    TypeProto: { fields: { tensorType: one('TensorTypeProto', 1) } },
    TensorTypeProto: { fields: { elemType: one('int32', 1), shape: one('ShapeProto', 2) } },
    ShapeProto: { fields: { dim: many('DimProto', 1) } },
    DimProto: {
      fields: { dimValue: one('int32', 1), dimParam: one('string', 2) },
      oneofs: { size: { oneof: ['dimValue', 'dimParam'] } }
    },
    OperatorSetIdProto: { fields: { domain: one('string', 1), version: one('int32', 2) } },
    StringStringEntryProto: { fields: { key: one('string', 1), value: one('string', 2) } }
  }
})

/** Element types of tensors: onnxruntime's names and ONNX's numbers. */
export const ELEMENT = { float32: 1, int32: 6, int64: 7, float16: 10 } as const
export const ATTRIBUTE = {
  float: 1, int: 2, string: 3, tensor: 4, graph: 5, floats: 6, ints: 7, graphs: 10
} as const

// Decoded messages have defaults on their prototype, so absent fields have the types declared above.
function decode<T> (name: string, bytes: Uint8Array): T {
  const reader = protobuf.Reader.create(bytes)
  reader.discardUnknown = false
  return root.lookupType(name).decode(reader) as unknown as T
}

/**
 * Decodes an ONNX file. The result refers to `bytes`, which must not change afterwards. @throws RangeError if
 * the bytes are not an ONNX file
 */
export function decodeModel (bytes: Uint8Array): OnnxModel {
  try {
    const model = decode<OnnxModel>('ModelProto', bytes)
    model.graph ??= decode<OnnxGraph>('GraphProto', new Uint8Array())
    return model
  } catch (error) {
    throw new RangeError(`no ONNX file: ${(error as Error).message}`, { cause: error })
  }
}

export function encodeModel (model: OnnxModel): Uint8Array { return encodeMessage('ModelProto', model) }

export function encodeMessage (name: MessageName, fields: object): Uint8Array {
  return root.lookupType(name).encode(fields).finish()
}

export function attributesOf (node: OnnxNode): Map<string, OnnxAttribute> {
  return new Map(node.attribute.map((bytes) => {
    const attribute = decode<OnnxAttribute>('AttributeProto', bytes)
    return [attribute.name, attribute]
  }))
}

/** A node with one output and optional integer attributes. */
export function nodeOf (
  opType: string, input: string[], output: string, attributes: Record<string, number> = {}
): OnnxNode {
  const attribute = Object.entries(attributes).map(([name, i]) =>
    encodeMessage('AttributeProto', { name, i, type: ATTRIBUTE.int }))
  return { opType, input, output: [output], name: `svc/${output}`, domain: '', attribute }
}

/** Name of an encoded TensorProto, and whether its data is in another file. Does not decode the data. */
export function tensorName (bytes: Uint8Array): { name: string, external: boolean } {
  const { name, dataLocation } = decode<{ name: string, dataLocation: number }>('TensorName', bytes)
  return { name, external: dataLocation === 1 }
}

/** An encoded TensorProto of integers; one-dimensional without `dims`. */
export function int64Tensor (name: string, values: number[], dims = [values.length]): Uint8Array {
  const rawData = new Uint8Array(BigInt64Array.from(values, BigInt).buffer)
  return encodeMessage('TensorProto', { dims, dataType: ELEMENT.int64, name, rawData })
}

export function valueName (bytes: Uint8Array): string {
  return decode<{ name: string }>('ValueName', bytes).name
}

/** An encoded ValueInfoProto of a tensor; its shape is open without `dims`. */
export function tensorInfo (name: string, elemType: number, dims?: Array<number | string>): Uint8Array {
  const dim = dims?.map((d) => typeof d === 'number' ? { dimValue: d } : { dimParam: d })
  const shape = dim === undefined ? {} : { shape: { dim } }
  return encodeMessage('ValueInfoProto', { name, type: { tensorType: { elemType, ...shape } } })
}
