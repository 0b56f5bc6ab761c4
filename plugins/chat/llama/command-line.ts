/** The command line of a server: how much it takes on, and over which nodes its model is spread. Pure. */
import { cacheOf, contextOf, EngineError, type ModelSpec } from '../../../kernel/api/engine.js'
import { option } from '../engine/limits.js'
import { fieldsOf, listOf, textOf } from '../json.js'
import type { Drafter } from './drafter.js'
import type { Address } from './http.js'

const MIB = 2 ** 20
const DEFAULT_PROMPT_CACHE = 128 * MIB
const DEFAULT_QUEUE = 256
/** An embedding is made in one go, with memory for all tokens of the text. */
const MAX_EMBEDDED = 8_192

/** Bounds of a server. */
export interface Sizes {
  /** Tokens of one prompt and its answer. */
  contextLength: number
  /** Answers generated at once. */
  slots: number
  /** Answers generated or waiting at once. */
  most: number
  /** Memory for prompts that may come again. */
  promptCacheMib: number
}

/**
 * The server takes the memory of all its contexts when it starts: as many as placement counts. Options:
 * `prefix_cache_bytes`, `max_batch` (answers at once, fewer than there is memory for) and `max_queue`
 * (answers waiting).
 * @throws EngineError model_invalid for an option that is no such number
 */
export function sizesOf ({ card, options, contextLength: asked }: ModelSpec, embeds: boolean): Sizes {
  const contextLength = Math.min(contextOf(card, asked), embeds ? MAX_EMBEDDED : Infinity)
  const { contexts } = cacheOf(card, contextLength)
  const slots = Math.min(option(options, 'max_batch', 1, contexts), contexts)
  return {
    contextLength,
    slots,
    most: slots + option(options, 'max_queue', 1, DEFAULT_QUEUE),
    promptCacheMib: Math.floor(option(options, 'prefix_cache_bytes', 0, DEFAULT_PROMPT_CACHE) / MIB)
  }
}

/** A donor: where its rpc-server is reached from here, and its share of the layers. */
export interface Donor { address: string, layers: number }

/** The plan of a model over several nodes, as its driver is told. */
export interface RpcPlan {
  /** Layers that stay on this node. */
  layers: number
  /** In the order of the plan. */
  donors: readonly Donor[]
}

const RPC_FLAGS = ['--rpc', '--tensor-split', '--n-gpu-layers']
const ADDRESS = /^127\.0\.0\.1:[1-9]\d{0,4}$/
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0

/** The plan in the options of a spec; null for a model on one node. @throws EngineError for a broken one */
export function rpcOf ({ rpc }: Readonly<Record<string, unknown>>): RpcPlan | null {
  if (rpc === undefined) return null
  const { layers } = fieldsOf(rpc)
  const donors = listOf(fieldsOf(rpc)['donors']).map(({ address, layers }) =>
    ({ address: textOf(address), layers: Number(layers) }))
  const fine = donors.every(({ address, layers }) => ADDRESS.test(address) && isCount(layers))
  if (isCount(layers) && donors.length > 0 && fine) return { layers, donors }
  throw new EngineError('provider_error', 'the option rpc must name the own layers and those of donors')
}

/**
 * The options for a plan. A server counts the layers it hands out from the last one and one more for the
 * output, in shares of its devices: those of the donors first, then its own GPU. With `cpu` its own layers
 * are those it does not hand out.
 * @throws EngineError where the server cannot do that
 */
export function rpcArguments (
  { layers, donors }: RpcPlan, backend: string, flags: ReadonlySet<string>
): string[] {
  const missing = RPC_FLAGS.filter((name) => !flags.has(name))
  if (missing.length > 0) {
    throw new EngineError('provider_error', `this llama-server does not know ${missing.join(', ')}: it was ` +
      'built without RPC (GGML_RPC). Set SVC_LLAMA_SERVER_BIN to one that was, and restart svc')
  }
  const shares = [...donors.map((donor) => donor.layers), ...backend === 'cpu' ? [] : [layers]]
  const handedOut = shares.reduce((sum, share) => sum + share, 1)
  shares[shares.length - 1]! += 1
  return [
    '--rpc', donors.map(({ address }) => address).join(','), '--tensor-split', shares.join(','),
    '--n-gpu-layers', String(handedOut)
  ]
}

/** What a server is started with. */
export interface StartOptions {
  flags: ReadonlySet<string>
  /** The model's file, or its first part. */
  model: string
  address: Address
  /** File with the key clients must show; not on the command line, which every user can read. */
  keyFile: string
  threads: number
  backend: string
  sizes: Sizes
  /** Makes embeddings, and nothing else. */
  embeds: boolean
  /** Vision weights and a drafter of the model, where it has them. */
  mmproj?: string | undefined
  drafter?: Drafter | undefined
  /** How the model is spread over donors; null for a model that this server has alone. */
  rpc?: RpcPlan | null
}

/** More layers than any model has. */
const ALL_LAYERS = '999'

const placeOf = (address: Address): string[] => 'socketPath' in address
  ? ['--host', address.socketPath]
  : ['--host', address.host, '--port', String(address.port)]

/** Options that are given only to a server that knows them, as it would not start otherwise. */
function optional (
  { flags, backend, sizes, embeds, mmproj, drafter, rpc = null }: StartOptions
): string[][] {
  const { contextLength, promptCacheMib } = sizes
  return [
    // Only this runner uses the server.
    flags.has('--no-ui') ? ['--no-ui'] : ['--no-webui'],
    ['--offline'],
    ['--jinja'],
    // Weights are often kept in another order than the file's: with the file mapped beside, they would count
    // twice.
    ...flags.has('--load-mode') ? [['--load-mode', 'none']] : [['--no-mmap']],
    // An answer ends where the context does.
    ['--no-context-shift'],
    ['--cache-ram', String(promptCacheMib)],
    ...mmproj === undefined ? [] : [['--mmproj', mmproj]],
    ...drafter === undefined ? [] : drafting(drafter, flags),
    // Not on a GPU, whose memory was not counted, nor on those of donors.
    ...backend !== 'cpu' ? [] : [
      ...mmproj === undefined ? [] : [['--no-mmproj-offload']],
      ...drafter === undefined ? [] : [['--device-draft', 'none']]
    ],
    ...rpc === null ? alone(backend) : [],
    ...embeds
      ? [['--embeddings'], ['--batch-size', String(contextLength)], ['--ubatch-size', String(contextLength)]]
      : []
  ].filter(([name]) => flags.has(name as string))
}

/** Newer servers load a drafter and let it be unless they are told how it drafts. */
const drafting = ({ path, way }: Drafter, flags: ReadonlySet<string>): string[][] =>
  [['--model-draft', path], ...way !== null && flags.has(way) ? [['--spec-type', way]] : []]

/** Where the layers of a model are that has no donors. */
const alone = (backend: string): string[][] => backend === 'cpu'
  ? [['--n-gpu-layers', '0'], ['--device', 'none']]
  : [['--n-gpu-layers', ALL_LAYERS]]

/** The arguments for a server. @throws EngineError for donors where the server cannot use any */
export function serverArguments (options: StartOptions): string[] {
  const { model, address, keyFile, threads, sizes, rpc = null, backend, flags } = options
  return [
    '--model', model, ...placeOf(address), '--api-key-file', keyFile, '--threads', String(threads),
    // The server shares the context out between the answers.
    '--ctx-size', String(sizes.contextLength * sizes.slots), '--parallel', String(sizes.slots),
    ...optional(options).flat(), ...rpc === null ? [] : rpcArguments(rpc, backend, flags)
  ]
}
