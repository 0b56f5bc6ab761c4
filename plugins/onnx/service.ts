/** What a node reads of ONNX files: their heads, without loading weights. Engines use engine.ts. */
export { readHeader } from './header.js'
export { operatorProblem } from './operators.js'
export type { OnnxHeader } from './header.js'
export type { FileReader } from './walker.js'
