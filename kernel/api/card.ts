/** Data type of a KV cache. */
export type CacheType = 'f16' | 'q8_0' | 'q4_0'

/** One file of a model, relative to the model's folder. */
export interface CardFile { path: string, role: string, bytes: number, sha256?: string }

export interface CardVoice { id: string, name: string, language: string }

/**
 * The model card: everything known about a model before it is loaded. `support` says, for each request field,
 * how the model handles it; users see this text unchanged.
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
  /** Number of weights; absent if the file headers do not have it. */
  parameters?: number
  hiddenSize: number
  /** 0 if the model has no attention heads. */
  heads: number
  kvHeads: number
  headSize: number
  /** Memory needs according to the file headers; if absent, they are estimated from the sizes above. */
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

/** Memory needs read from the headers of a model's files, including drafter and vision weights. */
export interface MemoryFacts {
  weightBytes: number
  /** Cache bytes per token in all layers with full attention, at 16 bits per value. */
  tokenBytes: number
  /** Cache bytes per token in all layers with windowed attention, and the window length in tokens. */
  windowTokenBytes?: number
  windowTokens?: number
  /** Bytes for the state of recurrent layers, which is independent of the context length. */
  stateBytes?: number
  /** Compute buffer bytes for each token in a batch. */
  batchTokenBytes?: number
  vocabulary?: number
  /** Bytes of buffers whose size does not depend on the context, such as runtime arenas. */
  workBytes?: number
}
