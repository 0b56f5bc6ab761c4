/** How a server spreads a model over donors: what the node told of it, and the options for it. Pure. */
import { EngineError } from '../../../kernel/api/engine.js'
import { fieldsOf, listOf, textOf } from '../json.js'

/** A donor: where its rpc-server is reached from here, and its share of the layers. */
export interface Donor { address: string, layers: number }

/** The plan of a model over several nodes, as its driver is told. */
export interface RpcPlan {
  /** Layers that stay on this node. */
  layers: number
  /** In the order of the plan. */
  donors: readonly Donor[]
}

const NEEDED = ['--rpc', '--tensor-split', '--n-gpu-layers']
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
  const missing = NEEDED.filter((name) => !flags.has(name))
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
