/** The command line of a server. Pure. */
import type { Address } from './http.js'
import { rpcArguments, type RpcPlan } from './rpc.js'
import type { Sizes } from './sizes.js'

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
  /** How the model is spread over donors; null for a model that this server has alone. */
  rpc?: RpcPlan | null
}

/** More layers than any model has. */
const ALL_LAYERS = '999'

const placeOf = (address: Address): string[] => 'socketPath' in address
  ? ['--host', address.socketPath]
  : ['--host', address.host, '--port', String(address.port)]

/** Options that are given only to a server that knows them, as it would not start otherwise. */
function optional ({ flags, backend, sizes, embeds, rpc = null }: StartOptions): string[][] {
  const { contextLength, promptCacheMib } = sizes
  return [
    // It serves nobody but this runner.
    flags.has('--no-ui') ? ['--no-ui'] : ['--no-webui'],
    ['--offline'],
    ['--jinja'],
    // An answer ends where the context does.
    ['--no-context-shift'],
    ['--cache-ram', String(promptCacheMib)],
    ...rpc === null ? alone(backend) : [],
    ...embeds
      ? [['--embeddings'], ['--batch-size', String(contextLength)], ['--ubatch-size', String(contextLength)]]
      : []
  ].filter(([name]) => flags.has(name as string))
}

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
