/** The interface for third-party plugins, published as `svc/plugin`. */
export * from '../kernel/public.js'
export { InvocationService } from './capabilities/service.js'
export type { Invocations, ServeOptions } from './capabilities/service.js'
