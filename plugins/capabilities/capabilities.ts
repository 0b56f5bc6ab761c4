import { BytePool } from './chunk-buffer.js'
import { createInvocations, routeHandlers } from './handlers.js'
import { Invoker, type InvokerOptions } from './invoke.js'
import { defaultLimits, type CapabilityLimits } from './limits.js'
import { Registry } from './registry.js'
import { Remote, type RemoteOptions } from './remote.js'
import type { OffPlugin } from '../../kernel/index.js'

export interface CapabilitiesOptions extends
  Pick<RemoteOptions, 'node'>, Pick<InvokerOptions, 'clock' | 'log' | 'commands'>,
  Partial<Pick<InvokerOptions, 'errorDecl' | 'tracers' | 'spending' | 'onOutcome'>> {
  /** Without a cluster, all capabilities are local. */
  cluster?: RemoteOptions['cluster']
  /** Install id of a live node with a capability that this node lacks; null if this node has it. */
  elsewhere?: ((capabilityId: string) => string | null) | undefined
  limits?: Partial<CapabilityLimits>
  /** The disabled plugin that provides a capability. */
  off?: (capabilityId: string) => OffPlugin | undefined
}

export type Capabilities = ReturnType<typeof createCapabilities>

export function createCapabilities (options: CapabilitiesOptions) {
  const { clock, log, node, commands, cluster } = options
  const limits: CapabilityLimits = { ...defaultLimits, ...options.limits }
  const registry = new Registry(node.nodeId, options.off)
  // Prefer a local plugin: it finds its runners itself, and another node would add a point of failure.
  const elsewhere = (id: string): string | null => registry.has(id) ? null : options.elsewhere?.(id) ?? null
  const remote = new Remote({ clock, node, limits, cluster, elsewhere })
  const invoker = new Invoker({
    clock, log, commands, limits, registry, remote, errorDecl: options.errorDecl ?? (() => undefined),
    tracers: options.tracers, spending: options.spending ?? (() => undefined),
    onOutcome: options.onOutcome ?? (() => {})
  })
  const host = { clock, limits, registry, remote, invoker, mediaPool: new BytePool(limits.mediaTotalBytes) }
  return {
    register: registry.register.bind(registry), end: invoker.calls.endOf.bind(invoker.calls),
    registry, invoker, handlers: routeHandlers(host), invocations: createInvocations(host)
  }
}
