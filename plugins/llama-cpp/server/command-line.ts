/** Builds llama-server's command line, including memory sizes and a model's shares per device. Pure. */
import { EngineError, type CacheType, type ModelSpec } from '../../../kernel/api/engine.js'
import {
  cacheOf, CHECKPOINTS, contextOf, keptBytes, MAX_EMBEDDED
} from '../../runners/cards/memory-forecast.js'
import type { GgufHeader } from '../cards/gguf.js'
import type { Address } from '../../runners/openai/client.js'

const MIB = 2 ** 20
const ALL_LAYERS = '999'

export interface Sizes {
  /** Context length of one request, prompt and answer together, in tokens. */
  contextLength: number
  /** Number of requests that run in parallel. */
  slots: number
  /** Memory for the prompt cache, in MiB. */
  promptCacheMib: number
  cacheType?: CacheType | undefined
}

/** Reads a numeric spec option, rounded down. @throws EngineError model_invalid if it is below `least` */
function option (
  options: Readonly<Record<string, unknown>>, name: string, least: number, usual: number
): number {
  const value = options[name] ?? usual
  if (typeof value === 'number' && Number.isFinite(value) && value >= least) return Math.floor(value)
  throw new EngineError('model_invalid',
    `option ${name} is ${String(value)}, but must be a number of at least ${least}`)
}

/**
 * Memory sizes as placement planned them, because the server allocates all contexts when it starts. Spec
 * options: `prefix_cache_bytes`, and `max_batch` to run fewer requests in parallel than fit into memory.
 * @throws EngineError model_invalid for an invalid option
 */
export function sizesOf (
  { card, options, contextLength: asked, slots: planned }: ModelSpec, embeds: boolean
): Sizes {
  const contextLength = Math.min(contextOf(card, asked), embeds ? MAX_EMBEDDED : Infinity)
  const { contexts } = cacheOf(card, contextLength, planned)
  const kept = option(options, 'prefix_cache_bytes', 0, keptBytes(card, contextLength, planned))
  const slots = Math.min(option(options, 'max_batch', 1, contexts), contexts)
  return { contextLength, slots, promptCacheMib: Math.floor(kept / MIB), cacheType: card.cacheType }
}

/**
 * One node's share of a model: the number of its layers, and how many of them each GPU holds; the CPU holds
 * the rest. Without `gpus`, one device holds all layers. In a tensor split the numbers are proportions.
 */
export interface LayerShare { layers: number, gpus?: readonly number[] }

/** A donor's share, and the local address at which the driver reaches its rpc-server. */
export interface RpcServer extends LayerShare { address: string }

/** How a model is split over several nodes; sent to the driver, whose llama-server runs the model. */
export interface RpcPlan extends LayerShare {
  /** True if every layer is divided equally between the ranks; false if each rank has whole layers. */
  tensor: boolean
  donors: readonly RpcServer[]
}

const RPC_FLAGS = ['--rpc', '--tensor-split', '--split-mode', '--n-gpu-layers']
const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

/** How this node's layers are divided among its devices; null if one device has all of them. */
export const splitOf = ({ split }: Readonly<Record<string, unknown>>): LayerShare | null =>
  split as LayerShare | undefined ?? null

/** How the model is split over nodes; null for one node. @throws EngineError if the plan has no donors */
export function rpcOf ({ rpc }: Readonly<Record<string, unknown>>): RpcPlan | null {
  if (rpc === undefined) return null
  const plan = rpc as RpcPlan | null
  // Without donors the model would not fit.
  if (plan !== null && plan.donors.length > 0) return plan
  throw new EngineError('provider_error', 'the option rpc must name the layers of driver and donors')
}

/** A donor's devices with layers: its GPUs, then the CPU if layers remain. */
export function devicesOf ({ layers, gpus }: LayerShare): { gpu: number | null, layers: number }[] {
  if (gpus === undefined) return [{ gpu: 0, layers }]
  const rest = layers - sum(gpus)
  const used = gpus.map((held, gpu) => ({ gpu, layers: held })).filter((device) => device.layers > 0)
  return rest > 0 ? [...used, { gpu: null, layers: rest }] : used
}

/** Layers on each GPU of this node; empty with the backend `cpu`, which offloads no layers. */
const ownGpus = ({ layers, gpus = [layers] }: LayerShare, backend: string): readonly number[] =>
  backend === 'cpu' ? [] : gpus

/**
 * The server's options for a plan. The server's devices are the donors' devices, then its own GPUs.
 * @throws EngineError if the server was built without RPC
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

/** Options for offloading. llama-server offloads the last layers first; the output counts as a layer too. */
function layerShares (shares: number[]): string[] {
  const handedOut = sum(shares) + 1
  shares[shares.findLastIndex((share) => share > 0)]! += 1
  return ['--tensor-split', shares.join(','), '--n-gpu-layers', String(handedOut)]
}

/** llama.cpp's case-insensitive name for a GPU, such as CUDA0, ROCM0 or MTL0. */
export const deviceName = (backend: string, gpu: number): string =>
  `${backend === 'metal' ? 'MTL' : backend.toUpperCase()}${gpu}`

/**
 * Options for a tensor split. Ranks get equal parts, divided between their devices. The options name all
 * devices, because by default the server's own GPUs come first.
 */
function tensorShares (ranks: readonly (readonly number[])[], backend: string): string[] {
  const own = ranks.at(-1)!
  const shares = ranks.flatMap((rank) => rank.map((share) => Number((share / sum(rank)).toFixed(6))))
  const devices = shares.map((_, i) => i < shares.length - own.length ? `RPC${i}`
    : deviceName(backend, i - shares.length + own.length))
  return ['--device', devices.join(','), '--tensor-split', shares.join(','), '--n-gpu-layers', ALL_LAYERS]
}

/** `way` is the draft method to pass as an option; null if llama.cpp detects it. */
export interface Drafter { path: string, way: string | null }

/** A drafter's draft method, which llama.cpp detects for DFlash drafters and multi-token prediction heads. */
export function draftMethodOf ({ metadata, tensors }: Omit<GgufHeader, 'weightBytes'>): string | null {
  const architecture = String(metadata.get('general.architecture'))
  if (architecture.includes('eagle3')) return 'draft-eagle3'
  const isHead = tensors.some(({ name }) => name.includes('.nextn.eh_proj.'))
  return isHead || architecture.includes('dflash') ? null : 'draft-simple'
}

export interface StartOptions {
  flags: ReadonlySet<string>, model: string, address: Address
  /** File that contains the API key; an argument would be visible to every user of the machine. */
  keyFile: string
  threads: number, backend: string, sizes: Sizes
  /** Whether the model makes embeddings or reranks, instead of generating text. */
  embeds: boolean
  ranks?: boolean
  /** Path of the model's vision weights, if any. */
  mmproj?: string | undefined
  drafter?: Drafter | undefined
  /** File with the chat template; undefined to use the model's. */
  template?: string | undefined
  /** The plan for a model over several nodes; null for a model on one node. */
  rpc?: RpcPlan | null
  /** Layers on each GPU if the model has no donors; null if it uses one device. */
  split?: LayerShare | null
}

const placeOf = (address: Address): string[] => 'socketPath' in address
  ? ['--host', address.socketPath]
  : ['--host', address.host, '--port', String(address.port)]

/** Options that not all builds have; the filter omits those that this build lacks. */
function optional (options: StartOptions): string[][] {
  const { flags, backend, sizes, mmproj, drafter, template, rpc = null, split = null } = options
  const { contextLength, promptCacheMib, cacheType } = sizes
  const length = String(contextLength)
  return [
    // Only this runner uses the server, so it needs no web interface.
    flags.has('--no-ui') ? ['--no-ui'] : ['--no-webui'],
    ['--offline'],
    ['--jinja'],
    ...template === undefined ? [] : [['--chat-template-file', template]],
    // Avoid a second copy in memory: llama.cpp often repacks the weights, and the file would stay mapped.
    ...flags.has('--load-mode') ? [['--load-mode', 'none']] : [['--no-mmap']],
    // End an answer when the context is full, instead of dropping old tokens.
    ['--no-context-shift'],
    ['--cache-ram', String(promptCacheMib)],
    ['--ctx-checkpoints', String(CHECKPOINTS)],
    ...cacheType === undefined ? [] : [['--cache-type-k', cacheType], ['--cache-type-v', cacheType]],
    ...mmproj === undefined ? [] : [['--mmproj', mmproj]],
    ...drafter === undefined ? [] : drafting(drafter, flags),
    // With the CPU backend, keep vision weights and drafter off donors' GPUs too: no memory is planned there.
    ...backend !== 'cpu' ? [] : [
      ...mmproj === undefined ? [] : [['--no-mmproj-offload']],
      ...drafter === undefined ? [] : [['--device-draft', 'none']]
    ],
    // Placement has planned the memory, so avoid the server's trial load.
    ['--fit', 'off'],
    ...rpc === null ? alone(backend, split) : [],
    ...options.embeds
      ? [[options.ranks === true ? '--reranking' : '--embeddings'],
          ['--batch-size', length], ['--ubatch-size', length]]
      : []
  ].filter(([name]) => flags.has(name as string))
}

/** Drafter options. Without a draft method, newer servers load the drafter but do not use it. */
const drafting = ({ path, way }: Drafter, flags: ReadonlySet<string>): string[][] =>
  [['--model-draft', path], ...way !== null && flags.has(way) ? [['--spec-type', way]] : []]

/** Options that select the devices of a model without donors. */
function alone (backend: string, split: LayerShare | null): string[][] {
  if (backend === 'cpu') return [['--n-gpu-layers', '0'], ['--device', 'none']]
  if (split === null) return [['--n-gpu-layers', ALL_LAYERS]]
  const [shareName, shares, countName, count] = layerShares([...ownGpus(split, backend)])
  return [[shareName!, shares!], [countName!, count!]]
}

/** @throws EngineError for donors if the server was built without RPC */
export function serverArguments (options: StartOptions): string[] {
  const { model, address, keyFile, threads, sizes, rpc = null, backend, flags } = options
  return [
    '--model', model, ...placeOf(address), '--api-key-file', keyFile, '--threads', String(threads),
    // --ctx-size is the sum over all slots.
    '--ctx-size', String(sizes.contextLength * sizes.slots), '--parallel', String(sizes.slots),
    ...optional(options).flat(), ...rpc === null ? [] : rpcArguments(rpc, backend, flags)
  ]
}
