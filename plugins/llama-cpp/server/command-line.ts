/** The command line of a server: how much it takes on, and over which nodes its model is spread. Pure. */
import { EngineError, type CacheType, type ModelSpec } from '../../../kernel/api/engine.js'
import {
  cacheOf, CHECKPOINTS, contextOf, keptBytes, MAX_EMBEDDED
} from '../../runners/cards/memory-forecast.js'
import { fieldsOf, listOf, textOf, type Fields } from '../../runners/language/json.js'
import type { Drafter } from './drafter.js'
import type { Address } from './http.js'

const MIB = 2 ** 20
const ALL_LAYERS = '999'

export interface Sizes {
  /** Tokens of one prompt and its answer. */
  contextLength: number
  /** Answers generated at once. */
  slots: number
  /** Memory for prompts that may come again. */
  promptCacheMib: number
  cacheType?: CacheType | undefined
}

/** An option that is a number from `least` up, without a fraction. @throws EngineError model_invalid */
function option (
  options: Readonly<Record<string, unknown>>, name: string, least: number, usual: number
): number {
  const value = options[name] ?? usual
  if (typeof value === 'number' && Number.isFinite(value) && value >= least) return Math.floor(value)
  throw new EngineError('model_invalid',
    `option ${name} is ${String(value)}: it takes a number from ${least} up`)
}

/**
 * The server takes the memory of all its contexts when it starts: as many as placement counts. Options:
 * `prefix_cache_bytes` and `max_batch` (answers at once, fewer than there is memory for).
 * @throws EngineError model_invalid for an option that is no such number
 */
export function sizesOf (
  { card, options, contextLength: asked, slots: planned }: ModelSpec, embeds: boolean
): Sizes {
  const contextLength = Math.min(contextOf(card, asked), embeds ? MAX_EMBEDDED : Infinity)
  const { contexts } = cacheOf(card, contextLength, planned)
  const kept = option(options, 'prefix_cache_bytes', 0, keptBytes(card, contextLength, planned))
  const slots = Math.min(option(options, 'max_batch', 1, contexts), contexts)
  return {
    contextLength,
    slots,
    promptCacheMib: Math.floor(kept / MIB),
    cacheType: card.cacheType
  }
}

/**
 * What one node holds of a model: so many layers, of these so many on each of its GPUs, the rest on its CPU.
 * Without `gpus` all of them are on one device. In a tensor split the numbers are proportions of its share.
 */
export interface LayerShare { layers: number, gpus?: readonly number[] }

/** A donor: where its rpc-server is reached from here, and its share. */
export interface RpcServer extends LayerShare { address: string }

/** The plan of a model over several nodes, as its driver is told. */
export interface RpcPlan extends LayerShare {
  /** Every layer is cut across all ranks, in equal parts; else each rank has layers of its own. */
  tensor: boolean
  /** In the order of the plan. */
  donors: readonly RpcServer[]
}

const RPC_FLAGS = ['--rpc', '--tensor-split', '--split-mode', '--n-gpu-layers']
const ADDRESS = /^127\.0\.0\.1:[1-9]\d{0,4}$/
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

/** A share as the node says it. @throws EngineError for a broken one */
function shareOf (said: Fields, name: string): LayerShare {
  const { layers, gpus } = said
  const whole = isCount(layers) && layers > 0
  if (whole && gpus === undefined) return { layers }
  if (whole && Array.isArray(gpus) && gpus.every(isCount) && sum(gpus) > 0 && sum(gpus) <= layers) {
    return { layers, gpus }
  }
  throw new EngineError('provider_error', `the option ${name} must name layers, and how many each GPU has`)
}

/** The share of a model that is on this node alone, or of a donor; null where one device has all of it. */
export function splitOf ({ split }: Readonly<Record<string, unknown>>): LayerShare | null {
  return split === undefined ? null : shareOf(fieldsOf(split), 'split')
}

/** The plan in the options of a spec; null for a model on one node. @throws EngineError for a broken one */
export function rpcOf ({ rpc }: Readonly<Record<string, unknown>>): RpcPlan | null {
  if (rpc === undefined) return null
  const donors = listOf(fieldsOf(rpc)['donors']).map((donor) =>
    ({ address: textOf(donor['address']), ...shareOf(donor, 'rpc') }))
  const fine = donors.every(({ address }) => ADDRESS.test(address))
  if (donors.length > 0 && fine) {
    return { tensor: fieldsOf(rpc)['tensor'] === true, ...shareOf(fieldsOf(rpc), 'rpc'), donors }
  }
  throw new EngineError('provider_error', 'the option rpc must name the own layers and those of donors')
}

/** What a donor offers as devices: its GPUs that hold something, then its CPU where that holds the rest. */
export function devicesOf ({ layers, gpus }: LayerShare): { gpu: number | null, layers: number }[] {
  if (gpus === undefined) return [{ gpu: 0, layers }]
  const rest = layers - sum(gpus)
  const used = gpus.map((held, gpu) => ({ gpu, layers: held })).filter((device) => device.layers > 0)
  return rest > 0 ? [...used, { gpu: null, layers: rest }] : used
}

/** The shares of this node's own GPUs; none on a CPU, which takes what is not handed out. */
const ownGpus = ({ layers, gpus = [layers] }: LayerShare, backend: string): readonly number[] =>
  backend === 'cpu' ? [] : gpus

/**
 * The options for a plan. The devices of a server are those of its donors, then its own GPUs.
 * @throws EngineError where the server cannot do that
 */
export function rpcArguments (plan: RpcPlan, backend: string, flags: ReadonlySet<string>): string[] {
  const missing = RPC_FLAGS.filter((name) => !flags.has(name))
  if (missing.length > 0) {
    throw new EngineError('provider_error', `this llama-server does not know ${missing.join(', ')}: it was ` +
      'built without RPC (GGML_RPC). Set SVC_LLAMA_SERVER_BIN to one that was, and restart svc')
  }
  const { donors, tensor } = plan
  const own = ownGpus(plan, backend)
  const lent = donors.map((donor) => devicesOf(donor).map(({ layers }) => layers))
  return [
    '--rpc', donors.map(({ address }) => address).join(','),
    '--split-mode', tensor ? 'tensor' : 'layer',
    ...tensor ? tensorShares([...lent, own], backend) : layerShares([...lent.flat(), ...own])
  ]
}

/** A server counts the layers it hands out from the last one, and one more for the output. */
function layerShares (shares: number[]): string[] {
  const handedOut = sum(shares) + 1
  shares[shares.findLastIndex((share) => share > 0)]! += 1
  return ['--tensor-split', shares.join(','), '--n-gpu-layers', String(handedOut)]
}

/** A GPU as llama.cpp calls it, whatever the case: CUDA0, ROCM0, MTL0. */
export const deviceName = (backend: string, gpu: number): string =>
  `${backend === 'metal' ? 'MTL' : backend.toUpperCase()}${gpu}`

/** Ranks have equal parts, which their devices share. A server would list its own GPUs first. */
function tensorShares (ranks: readonly (readonly number[])[], backend: string): string[] {
  const own = ranks.at(-1)!
  const shares = ranks.flatMap((rank) => rank.map((share) => Number((share / sum(rank)).toFixed(6))))
  const devices = shares.map((_, i) => i < shares.length - own.length ? `RPC${i}`
    : deviceName(backend, i - shares.length + own.length))
  return ['--device', devices.join(','), '--tensor-split', shares.join(','), '--n-gpu-layers', ALL_LAYERS]
}

export interface StartOptions {
  flags: ReadonlySet<string>
  model: string
  address: Address
  /** File with the key clients must show; not on the command line, which every user can read. */
  keyFile: string
  threads: number
  backend: string
  sizes: Sizes
  /** Only makes embeddings, or only ranks documents. */
  embeds: boolean
  ranks?: boolean
  /** Vision weights and a drafter of the model, where it has them. */
  mmproj?: string | undefined
  drafter?: Drafter | undefined
  /** File with the chat template; undefined for that of the model. */
  template?: string | undefined
  /** How the model is spread over donors; null for a model that this server has alone. */
  rpc?: RpcPlan | null
  /** The GPUs of this node that share a model without donors; null where there is one device. */
  split?: LayerShare | null
}

const placeOf = (address: Address): string[] => 'socketPath' in address
  ? ['--host', address.socketPath]
  : ['--host', address.host, '--port', String(address.port)]

/** Options that are given only to a server that knows them, as it would not start otherwise. */
function optional (options: StartOptions): string[][] {
  const { flags, backend, sizes, mmproj, drafter, template, rpc = null, split = null } = options
  const { contextLength, promptCacheMib, cacheType } = sizes
  const length = String(contextLength)
  return [
    // Only this runner uses the server.
    flags.has('--no-ui') ? ['--no-ui'] : ['--no-webui'],
    ['--offline'],
    ['--jinja'],
    ...template === undefined ? [] : [['--chat-template-file', template]],
    // Weights are often kept in another order than the file's: with the file mapped beside, they would count
    // twice.
    ...flags.has('--load-mode') ? [['--load-mode', 'none']] : [['--no-mmap']],
    // An answer ends where the context does.
    ['--no-context-shift'],
    ['--cache-ram', String(promptCacheMib)],
    ['--ctx-checkpoints', String(CHECKPOINTS)],
    ...cacheType === undefined ? [] : [['--cache-type-k', cacheType], ['--cache-type-v', cacheType]],
    ...mmproj === undefined ? [] : [['--mmproj', mmproj]],
    ...drafter === undefined ? [] : drafting(drafter, flags),
    // Not on a GPU, whose memory was not counted, nor on those of donors.
    ...backend !== 'cpu' ? [] : [
      ...mmproj === undefined ? [] : [['--no-mmproj-offload']],
      ...drafter === undefined ? [] : [['--device-draft', 'none']]
    ],
    // What each device holds was planned; the server would try a load of its own first.
    ['--fit', 'off'],
    ...rpc === null ? alone(backend, split) : [],
    ...options.embeds
      ? [[options.ranks === true ? '--reranking' : '--embeddings'],
          ['--batch-size', length], ['--ubatch-size', length]]
      : []
  ].filter(([name]) => flags.has(name as string))
}

/** Newer servers load a drafter and let it be unless they are told how it drafts. */
const drafting = ({ path, way }: Drafter, flags: ReadonlySet<string>): string[][] =>
  [['--model-draft', path], ...way !== null && flags.has(way) ? [['--spec-type', way]] : []]

/** Where the layers of a model are that has no donors. */
function alone (backend: string, split: LayerShare | null): string[][] {
  if (backend === 'cpu') return [['--n-gpu-layers', '0'], ['--device', 'none']]
  if (split === null) return [['--n-gpu-layers', ALL_LAYERS]]
  const [shareName, shares, countName, count] = layerShares([...ownGpus(split, backend)])
  return [[shareName!, shares!], [countName!, count!]]
}

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
