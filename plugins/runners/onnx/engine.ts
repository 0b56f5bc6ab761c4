/** Shared by engines on onnxruntime, inside a runner: reading, cutting and writing graphs, and sessions. */
export { closureOf, extractModel, indexGraph } from './graph.js'
export type { GraphIndex } from './graph.js'
export {
  ATTRIBUTE, ELEMENT, attributesOf, decodeModel, encodeMessage, encodeModel, int64Tensor, nodeOf, tensorInfo
} from './messages.js'
export type { OnnxGraph, OnnxModel, OnnxNode } from './messages.js'
export { openSession } from './session.js'
