/** Data type of a KV cache. */
export type CacheType = 'f16' | 'q8_0' | 'q4_0'

/** One file of a model, relative to the model's folder. */
export interface CardFile { path: string, role: string, bytes: number, sha256?: string }

export interface CardVoice { id: string, name: string, language: string }

/**
 * The model card: everything known about a model before it is loaded. Bytes are plain integers.
 * `support` says, per request field, what this model does with it (shown to users as it is).
 */
export interface ModelCard {
  modelId: string
  revision: string
  title: string
  description: string
  tasks: string[]
  family: string
  engine: string
  backends: string[]
  files: CardFile[]
  totalBytes: number
  nLayers: number
  hiddenSize: number
  /** 0 if the model has no attention heads. */
  heads: number
  kvHeads: number
  headSize: number
  /** Memory facts from the file headers; if absent, `totalBytes` and the sizes above are used. */
  memory?: MemoryFacts
  /** Type of cached keys and values, for engines that support several; f16 when absent. */
  cacheType?: CacheType
  contextLength: number
  supportsTensor: boolean
  companions: { modelId: string, role: string }[]
  licence: string
  languages: string[]
  /** Weight format, e.g. `q4`, `fp16`; null when unknown. */
  quantization: string | null
  voices: CardVoice[]
  defaults: Record<string, string | number | boolean>
  support: Record<string, string>
}

/** Memory facts from the headers of a model's files, drafter and vision weights included. Bytes or tokens. */
export interface MemoryFacts {
  weightBytes: number
  /** Cache bytes per token in all layers with full attention, at 16 bits per value. */
  tokenBytes: number
  /** Cache bytes per token in all layers with windowed attention, and the window length in tokens. */
  windowTokenBytes?: number
  windowTokens?: number
  /** Bytes for the state of recurrent layers, which is independent of the context length. */
  stateBytes?: number
  /** Compute buffer bytes per token of a batch. */
  batchTokenBytes?: number
  vocabulary?: number
  /** Bytes of buffers whose size does not depend on the context, such as runtime arenas. */
  workBytes?: number
}
