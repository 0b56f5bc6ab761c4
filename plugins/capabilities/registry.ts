import { createHash } from 'node:crypto'
import { checkOf } from '../../kernel/api/validate.js'
import {
  becauseOff, canonicalJson, isObject, kernelError, switchOn, cacheJson, type CapabilityCall,
  type CapabilityDecl, type CapabilityHandler, type Check, type IoMode, type OffPlugin
} from '../../kernel/index.js'
import { costProblems, declaredCost, type Cost } from './cost.js'
import { SCHEMA_BYTES, SCHEMA_DEPTH } from './limits.js'
import type { Admission } from './admission.js'

export type Descriptor = ReturnType<typeof descriptorOf>

export interface Capability {
  readonly owner: string
  /** `id@version`. */
  readonly name: string
  readonly descriptor: Descriptor
  readonly revision: string
  readonly mediaType: string | null
  /** Limit on concurrent calls, if higher than the default. */
  readonly callsAtOnce?: number | undefined
  /** Cost of a call; null if calls are free. */
  readonly cost: Cost | null
  readonly handler: (input: unknown, call: CapabilityCall) => unknown
  readonly input: Check
  readonly output: Check | null
  readonly inputChunk: Check | null
  readonly outputChunk: Check | null
  /** Set if another node serves the calls, which then use this node's slots for calls to that node. */
  readonly remote?: { readonly slots: Admission, readonly headHoldMs: number }
}

export interface Listing {
  node_id: string
  capabilities: (Descriptor & { revision: string, node_id: string })[]
  revisions: Record<string, string>
}

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'
const ID = /^[a-z0-9][a-z0-9._:-]*$/
const VERSION = /^\d+\.\d+\.\d+$/
const MODES: readonly IoMode[] = ['unary', 'server_streaming', 'client_streaming', 'bidirectional']
const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/

export const clientStreams = (mode: IoMode): boolean =>
  mode === 'client_streaming' || mode === 'bidirectional'
export const serverStreams = (mode: IoMode): boolean =>
  mode === 'server_streaming' || mode === 'bidirectional'

/** All problems in a declaration. Does not compile the schemas, since each takes milliseconds. */
export function capabilityProblems (owner: string, decl: CapabilityDecl): string[] {
  const at = `plugin "${owner}", capability "${String(decl.id)}@${String(decl.version)}"`
  return [...fieldProblems(decl), ...chunkProblems(decl), ...schemasProblems(decl)]
    .map((p) => `${at}: ${p}`)
}

function fieldProblems (decl: CapabilityDecl): string[] {
  const problems: string[] = []
  if (typeof decl.id !== 'string' || !ID.test(decl.id)) problems.push(`id must match ${ID.source}`)
  if (typeof decl.version !== 'string' ||
    !VERSION.test(decl.version)) problems.push('version must look like 1.0.0')
  if (!MODES.includes(decl.io_mode)) problems.push(`io_mode must be one of ${MODES.join(', ')}`)
  if (typeof decl.title !== 'string' || decl.title === '') problems.push('title must be a non-empty string')
  if (typeof decl.description !== 'string' ||
    decl.description === '') problems.push('description must be a non-empty string')
  if (typeof decl.annotations !== 'object' || decl.annotations === null ||
    Object.values(decl.annotations).some((v) =>
      typeof v !== 'string')) problems.push('annotations must map names to strings')
  else problems.push(...costProblems(decl))
  if (decl.media_type !== undefined && !MEDIA_TYPE.test(decl.media_type)) {
    problems.push(`media_type "${decl.media_type}" must look like audio/mpeg, in lower case`)
  }
  const { calls_at_once: calls = 1 } = decl
  if (!(Number.isSafeInteger(calls) && calls > 0)) {
    problems.push(`calls_at_once is ${String(calls)}: expected a whole number of at least 1`)
  }
  return problems
}

function chunkProblems (decl: CapabilityDecl): string[] {
  const rules = [
    ['input_chunk_schema', clientStreams(decl.io_mode)],
    ['output_chunk_schema', serverStreams(decl.io_mode)]
  ] as const
  return rules.flatMap(([field, needed]) => {
    const given = (decl[field] ?? null) !== null
    if (needed === given) return []
    return [needed ? `${field} is required for ${decl.io_mode}` : `${field} must be null for ${decl.io_mode}`]
  })
}

function schemasProblems (decl: CapabilityDecl): string[] {
  const given = {
    input_bounds: null, output_schema: null, input_chunk_schema: null, output_chunk_schema: null, ...decl
  }
  const fields =
    ['input_schema', 'input_bounds', 'output_schema', 'input_chunk_schema', 'output_chunk_schema'] as const
  return fields.flatMap((field) => {
    const schema = given[field] ?? null
    if (schema === null) return field === 'input_schema' ? ['input_schema is required'] : []
    return schemaProblems(schema).map((p) => `${field} ${p}`)
  })
}

/**
 * Chooses the version with the pinned revision. `versions`: all versions of the id. `where`: subject of the
 * error message. `off`: disabled plugin with the capability. Throws like Registry.find.
 */
export function chooseVersion<T extends { readonly revision: string }> (
  versions: ReadonlyMap<string, T>, wanted: { id: string, version: string, revision: string },
  where: string, off?: OffPlugin
): T {
  const { id, version, revision } = wanted
  if (versions.size === 0) {
    throw kernelError('capability_not_found',
      `${where} has no capability "${id.slice(0, 128)}"${becauseOff(off)}.`,
      { capability_id: id.slice(0, 128), ...off === undefined ? {} : { remedy: switchOn(off) } })
  }
  const found = versions.get(version)
  if (found === undefined) {
    const known = [...versions.keys()]
    throw kernelError('version_mismatch',
      `Capability "${id}" is served as ${known.join(', ')}, not as "${version.slice(0, 64)}".`,
      { capability_id: id, versions: known })
  }
  if (found.revision !== revision) {
    throw kernelError('revision_mismatch', `The current revision of ${id}@${version} is ${found.revision}.`,
      { capability_id: id, version, revision: found.revision })
  }
  return found
}

export class Registry {
  readonly #nodeId: string
  readonly #byName = new Map<string, Capability>()
  #listing: Listing | null = null
  readonly #off: (id: string) => OffPlugin | undefined

  constructor (nodeId: string, off: (id: string) => OffPlugin | undefined = () => undefined) {
    this.#nodeId = nodeId
    this.#off = off
  }

  /**
   * Adds a capability; the returned function removes it. Throws an Error that lists all problems, including a
   * duplicate id and version.
   */
  register (owner: string, decl: CapabilityDecl, handler: CapabilityHandler): () => void {
    const problems = capabilityProblems(owner, decl)
    const first = this.#byName.get(`${decl.id}@${decl.version}`)
    if (first !== undefined) {
      problems.push(`plugin "${owner}", capability "${first.name}": ` +
        `already registered by plugin "${first.owner}"`)
    }
    if (problems.length > 0) throw new Error(problems.join('\n'))
    const capability = capabilityOf(owner, decl, handler)
    const { name } = capability
    this.#byName.set(name, capability)
    this.#listing = null
    return () => {
      if (this.#byName.get(name) === capability) this.#byName.delete(name)
      this.#listing = null
    }
  }

  /**
   * Finds a capability by id, version and pinned revision. Throws `capability_not_found`, `version_mismatch`
   * (details.versions) or `revision_mismatch` (details.revision: the current one).
   */
  find (id: string, version: string, revision: string): Capability {
    return chooseVersion(this.#versionsOf(id), { id, version, revision }, 'This node', this.#off(id))
  }

  has (id: string): boolean { return this.#versionsOf(id).size > 0 }

  /** Finds a capability by `id@version`. Throws `capability_not_found`. */
  named (name: string): Capability {
    const found = this.#byName.get(name)
    if (found !== undefined) return found
    throw kernelError('capability_not_found', `This node has no capability "${name}".`,
      { capability_id: name })
  }

  /** The capabilities, sorted by id and version; cached until the next registration. */
  list (): Listing { return this.#listing ??= this.#makeListing() }

  /** Media type of each capability by `id@version`. */
  mediaTypes (): Record<string, string> {
    return Object.fromEntries([...this.#byName].flatMap(([name, { mediaType }]) =>
      mediaType === null ? [] : [[name, mediaType]]))
  }

  #versionsOf (id: string): Map<string, Capability> {
    return new Map([...this.#byName.values()].flatMap((one) =>
      one.descriptor.id === id ? [[one.descriptor.version, one]] : []))
  }

  #makeListing (): Listing {
    const all = [...this.#byName.values()].sort((a, b) => a.name < b.name ? -1 : 1)
    return cacheJson({
      node_id: this.#nodeId,
      capabilities: all.map((c) => ({ ...c.descriptor, revision: c.revision, node_id: this.#nodeId })),
      revisions: Object.fromEntries(all.map((c) => [c.name, c.revision]))
    })
  }
}

function capabilityOf (owner: string, decl: CapabilityDecl, handler: CapabilityHandler): Capability {
  const descriptor = structuredClone(descriptorOf(decl))
  // Compile each schema on first use, since compiling them all up front would slow startup.
  const check = (schema: CapabilityDecl['output_schema']): Check | null =>
    schema === null || schema === undefined ? null : (value) => checkOf(schema)(value)
  const bounds = check(decl.input_bounds)
  return {
    owner,
    name: `${decl.id}@${decl.version}`,
    descriptor,
    revision: revisionOf(descriptor),
    mediaType: decl.media_type ?? null,
    callsAtOnce: decl.calls_at_once,
    cost: declaredCost(decl),
    handler: handler as Capability['handler'],
    input: (value) => checkOf(decl.input_schema)(value) ?? bounds?.(value) ?? null,
    output: check(decl.output_schema),
    inputChunk: check(decl.input_chunk_schema),
    outputChunk: check(decl.output_chunk_schema)
  }
}

/** The descriptor of a declaration; missing schemas become null, all other fields are left out. */
export function descriptorOf (decl: CapabilityDecl) {
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

/** Problems in a schema that compiling it does not reveal. */
function schemaProblems (schema: unknown): string[] {
  if (!isObject(schema)) return ['must be a JSON Schema object']
  let text: string
  try {
    text = JSON.stringify(schema)
  } catch {
    return ['must be plain JSON (it contains itself or a value that JSON cannot represent)']
  }
  const bytes = Buffer.byteLength(text)
  if (bytes > SCHEMA_BYTES) return [`is ${bytes} bytes long; at most ${SCHEMA_BYTES} are allowed`]
  const depth = depthOf(schema)
  if (depth > SCHEMA_DEPTH) return [`is nested ${depth} deep; at most ${SCHEMA_DEPTH} are allowed`]
  return keywordProblems(schema)
}

function depthOf (value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

/** Finds keywords that refer outside the schema or change the result of a validation. */
function keywordProblems (node: unknown): string[] {
  if (typeof node !== 'object' || node === null) return []
  return Object.entries(node).flatMap(([key, value]) => {
    if ((key === '$ref' || key === '$dynamicRef') && typeof value === 'string' && !value.startsWith('#')) {
      return [`${key} "${value}" points outside the schema; only "#…" is allowed`]
    }
    if (key === '$schema' && typeof value === 'string' && value.replace(/#$/, '') !== DIALECT) {
      return [`$schema "${value}" is not supported; use JSON Schema 2020-12`]
    }
    if (key === '$async' && typeof value === 'boolean') return ['$async is not allowed']
    return keywordProblems(value)
  })
}
