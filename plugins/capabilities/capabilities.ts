import { BytePool } from './chunk-buffer.js'
import { createInvocations, routeHandlers } from './handlers.js'
import { Invoker } from './invoke.js'
import { defaultLimits } from './limits.js'
import { Registry } from './registry.js'
import { Remote } from './remote.js'
import type {
  CapabilityServer, Clock, Cluster, Commands, ErrorDecl, Logger, NodeInfo, Tracers
} from '../../kernel/index.js'
import type { CapabilityLimits } from './limits.js'
import type { CallOutcome, Invocations, Spending } from './service.js'

export interface CapabilitiesOptions {
  clock: Clock
  log: Logger
  node: Pick<NodeInfo, 'nodeId' | 'installId'>
  commands: Commands
  /** The other nodes; without them every capability is this node's own. */
  cluster?: Cluster | undefined
  /** Install id of a live node that serves a capability which this node does not; null when this one does. */
  elsewhere?: ((capabilityId: string) => string | null) | undefined
  limits?: Partial<CapabilityLimits>
  /** Declarations of plugins' error reasons, for errors that engines throw by name. */
  errorDecl?: (reason: string) => ErrorDecl | undefined
  /** What records calls. */
  tracers?: Tracers | undefined
  /** What says whether something may be spent; without it nothing may. */
  spending?: () => Spending | undefined
  /** Called after every call that got past its guards. */
  onOutcome?: (outcome: CallOutcome) => void
}

/** The capabilities of a node: what there is, and every way to call it. */
export interface Capabilities extends CapabilityServer {
  /** What is registered here. */
  readonly registry: Registry
  readonly handlers: ReturnType<typeof routeHandlers>
  /** For plugins that serve a capability under a route of their own. */
  readonly invocations: Invocations
  /** Guards and runs calls; `invoker.calls` are the open ones. */
  readonly invoker: Invoker
}

/** Makes the capability layer of one node. */
export function createCapabilities (options: CapabilitiesOptions): Capabilities {
  const { clock, log, node, commands } = options
  const limits: CapabilityLimits = { ...defaultLimits, ...options.limits }
  const registry = new Registry(node.nodeId)
  const { cluster } = options
  // What a plugin here serves finds its own way to runners: another node in between could only be lost.
  const elsewhere = (id: string): string | null => registry.has(id) ? null : options.elsewhere?.(id) ?? null
  const remote = new Remote({ clock, node, limits, cluster, elsewhere })
  const invoker = new Invoker({
    clock, log, commands, limits, registry, remote,
    errorDecl: options.errorDecl ?? (() => undefined),
    tracers: options.tracers,
    spending: options.spending ?? (() => undefined),
    onOutcome: options.onOutcome ?? (() => {})
  })
  const { calls } = invoker
  const mediaPool = new BytePool(limits.mediaTotalBytes)
  const host = { clock, node, limits, registry, remote, invoker, calls, mediaPool }
  return {
    register: (owner, decl, handler) => registry.register(owner, decl, handler),
    end: (owner, why) => calls.endOf(owner, why),
    registry, invoker,
    handlers: routeHandlers(host),
    invocations: createInvocations(host)
  }
}
