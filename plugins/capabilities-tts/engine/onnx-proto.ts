/**
 * ONNX files as protobuf messages, with a schema that covers what cutting and writing graphs needs.
 * Field numbers are those of onnx.proto (ONNX 1.16). Parts that are only carried along stay raw bytes:
 * nothing in them is lost, and a file of hundreds of megabytes is read without copying its weights.
 */
import protobuf from 'protobufjs/light.js'

/** One operator call. Attributes are encoded AttributeProto messages. */
export interface OnnxNode {
  input: string[]
  output: string[]
  name: string
  opType: string
  domain: string
  attribute: Uint8Array[]
}

/** A graph. Initializers are encoded TensorProto, inputs, outputs and valueInfo encoded ValueInfoProto. */
export interface OnnxGraph {
  name: string
  node: OnnxNode[]
  initializer: Uint8Array[]
  input: Uint8Array[]
  output: Uint8Array[]
  valueInfo: Uint8Array[]
}

/** A whole file. `opsetImport` and `metadataProps` are encoded messages. */
export interface OnnxModel {
  irVersion: number
  opsetImport: Uint8Array[]
  producerName: string
  metadataProps: Uint8Array[]
  graph: OnnxGraph
}

/** A decoded attribute; only the field that `type` names is meaningful. */
export interface OnnxAttribute {
  name: string
  type: number
  f: number
  i: number
  s: Uint8Array
  t: Uint8Array
  floats: number[]
  ints: number[]
  g: OnnxGraph | null
  graphs: OnnxGraph[]
}

/** A decoded tensor; only little-endian `rawData` is read and written here. */
export interface OnnxTensor {
  dims: number[]
  dataType: number
  name: string
  rawData: Uint8Array
  dataLocation: number
}

interface OnnxMessages {
  ModelProto: OnnxModel
  NodeProto: OnnxNode
  AttributeProto: OnnxAttribute
  TensorProto: OnnxTensor
}

type MessageName = keyof OnnxMessages | 'ValueInfoProto' | 'TensorName' | 'ValueName' | 'OperatorSetIdProto' |
  'StringStringEntryProto'

const one = (type: string, id: number) => ({ type, id })
const many = (type: string, id: number) => ({ type, id, rule: 'repeated' })

// int64 fields are read as int32: the wire form is the same, and no dimension, kernel or opset version
// here comes near 2^31. Weights lie in rawData, never in these fields.
const root = protobuf.Root.fromJSON({
  nested: {
    ModelProto: {
      fields: {
        irVersion: one('int32', 1),
        producerName: one('string', 2),
        producerVersion: one('string', 3),
        domain: one('string', 4),
        docString: one('string', 6),
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
        docString: one('string', 10),
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
        docString: one('string', 6),
        domain: one('string', 7),
        overload: one('string', 8)
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
        dims: many('int32', 1),
        dataType: one('int32', 2),
        name: one('string', 8),
        rawData: one('bytes', 9),
        dataLocation: one('int32', 14)
      }
    },
    TensorName: { fields: { name: one('string', 8), dataLocation: one('int32', 14) } },
    ValueName: { fields: { name: one('string', 1) } },
    ValueInfoProto: { fields: { name: one('string', 1), type: one('TypeProto', 2) } },
    TypeProto: { fields: { tensorType: one('TensorTypeProto', 1) } },
    TensorTypeProto: { fields: { elemType: one('int32', 1), shape: one('ShapeProto', 2) } },
    ShapeProto: { fields: { dim: many('DimProto', 1) } },
    DimProto: { fields: { dimValue: one('int32', 1), dimParam: one('string', 2) } },
    OperatorSetIdProto: { fields: { domain: one('string', 1), version: one('int32', 2) } },
    StringStringEntryProto: { fields: { key: one('string', 1), value: one('string', 2) } }
  }
})

/** Element types of tensors as ONNX numbers them. */
export const ELEMENT = { float: 1, int32: 6, int64: 7, float16: 10 } as const
/** Attribute types as ONNX numbers them. */
export const ATTRIBUTE = {
  float: 1, int: 2, string: 3, tensor: 4, graph: 5, floats: 6, ints: 7, graphs: 10
} as const

/** Decodes one message. @throws RangeError or Error from protobufjs for bytes that are not that message. */
export function decodeMessage<K extends keyof OnnxMessages> (name: K, bytes: Uint8Array): OnnxMessages[K] {
  // Message objects carry defaults on their prototype, which is exactly the shape of the interfaces above.
  return root.lookupType(name).decode(bytes) as unknown as OnnxMessages[K]
}

/** Encodes one message from plain fields. */
export function encodeMessage (name: MessageName, fields: object): Uint8Array {
  return root.lookupType(name).encode(fields).finish()
}

/** Name of an encoded TensorProto, and whether its data lies in another file; the data itself is skipped. */
export function tensorName (bytes: Uint8Array): { name: string, external: boolean } {
  const decoded: unknown = root.lookupType('TensorName').decode(bytes)
  const head = decoded as { name: string, dataLocation: number }
  return { name: head.name, external: head.dataLocation === 1 }
}

/** Name of an encoded ValueInfoProto. */
export function valueName (bytes: Uint8Array): string {
  return (root.lookupType('ValueName').decode(bytes) as unknown as { name: string }).name
}

/** An encoded ValueInfoProto of a tensor; without `dims` its shape is left open. */
export function tensorInfo (name: string, elemType: number, dims?: Array<number | string>): Uint8Array {
  const dim = dims?.map(d => typeof d === 'number' ? { dimValue: d } : { dimParam: d })
  const shape = dim === undefined ? {} : { shape: { dim } }
  return encodeMessage('ValueInfoProto', { name, type: { tensorType: { elemType, ...shape } } })
}

/** Reads an ONNX file. The result refers to `bytes`: keep them unchanged. */
export function decodeModel (bytes: Uint8Array): OnnxModel {
  return decodeMessage('ModelProto', bytes)
}

/** Writes an ONNX file. */
export function encodeModel (model: OnnxModel): Uint8Array {
  return encodeMessage('ModelProto', model)
}
