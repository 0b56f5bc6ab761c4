import { createHash } from 'node:crypto'
import { canonicalJson, type CapabilityDecl, type IoMode, type JsonSchema } from '../../kernel/index.js'

export interface Descriptor {
  id: string
  version: string
  title: string
  description: string
  input_schema: JsonSchema
  output_schema: JsonSchema | null
  io_mode: IoMode
  input_chunk_schema: JsonSchema | null
  output_chunk_schema: JsonSchema | null
  annotations: Readonly<Record<string, string>>
}

/** The descriptor of a declaration; missing schemas become null, all other fields are left out. */
export function descriptorOf (decl: CapabilityDecl): Descriptor {
  return {
    id: decl.id, version: decl.version, title: decl.title, description: decl.description,
    input_schema: decl.input_schema, output_schema: decl.output_schema ?? null, io_mode: decl.io_mode,
    input_chunk_schema: decl.input_chunk_schema ?? null,
    output_chunk_schema: decl.output_chunk_schema ?? null, annotations: decl.annotations
  }
}

/** First 16 hex digits (lower case) of the SHA-256 of the canonical JSON. */
export function revisionOf (descriptor: Descriptor): string {
  return createHash('sha256').update(canonicalJson(descriptor)).digest('hex').slice(0, 16)
}
