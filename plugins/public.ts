/** The interface for plugins of others: `svc/plugin` outside of this repository. */
export * from '../kernel/public.js'
export { InvocationService } from './capabilities/service.js'
export type { Invocations, ServeOptions } from './capabilities/service.js'
