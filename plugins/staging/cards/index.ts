export { mergeCatalogue, modelListEntry } from './catalogue.js'
export type {
  AudioFacts, CardOrigin, CatalogueEntry, ModelListEntry, ModelPresence, ResolvedCapabilities
} from './catalogue.js'
export { deriveCard } from './derive.js'
export type { FolderFile } from './folder.js'
export type { DeriveOptions } from './found.js'
export { readGguf } from './gguf.js'
export type { GgufArray, GgufHeader, GgufValue } from './gguf.js'
export { readHomeCards } from './home.js'
export { readOnnxHeader } from './onnx-facts.js'
export { CardError } from './reader.js'
