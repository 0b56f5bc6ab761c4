/** Shared by onnxruntime engines inside a runner: reading, cutting and writing graphs, opening sessions. */
export { closureOf, extractModel, indexGraph } from './graph.js'
export type { GraphIndex } from './graph.js'
export {
  ATTRIBUTE, ELEMENT, attributesOf, decodeModel, encodeMessage, encodeModel, int64Tensor, nodeOf, tensorInfo
} from './messages.js'
export type { OnnxGraph, OnnxModel, OnnxNode } from './messages.js'
export { openSession } from './session.js'
